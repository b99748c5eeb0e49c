"""The hosts whose NUMA cells can take a guest topology, computed for many hosts together.

Source: nova-behaviour.md 6.2.

Arithmetic on columns decides whether a guest NUMA cell fits on a host NUMA cell. Hall's theorem
decides whether all guest cells find different host cells: the members of every set of guest cells
must fit on at least as many host cells as the set has members. Equal guest cells are counted
instead of distinguished, so no permutations are tried. `cell_fit` applies the same rules to a
single cell, and `cell_counts` counts with them; change all three.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from berth.domain.hardware.guest_topology import PageSizeClass, ThreadPolicy
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.scheduling.hardware.cell_demand import CellDemand
from berth.scheduling.hardware.matching import is_matchable
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.columnar.class_columns import Floats, Ints
from berth.tables.host.hosts import HostTable
from berth.tables.host.numa import Places

_KB_PER_MB = 1024
# For a guest with at most this many kinds of NUMA cells, every set of kinds is tested, which takes
# at most 2**5 - 1 array operations. With more kinds, a matching is computed instead.
_HALL_MAX = 5

UNBOUND = 1e9
"""The allocation ratio of hosts that report none, which is so large that it never limits."""

At = Places | slice


def enough_cells(fits: Sequence[Mask], counts: Sequence[int]) -> Mask:
    """Return, for each row, whether its NUMA cells suffice for all guest cells together.

    Args:
        fits: (K, C) bool for each kind of guest cell: the NUMA cells of the rows that it fits on.
        counts: the number of guest cells of each kind.

    Returns:
        (K,) bool.
    """
    if fits[0].shape[1] < sum(counts):
        return np.zeros(len(fits[0]), dtype=np.bool_)
    if len(fits) > _HALL_MAX:
        return _by_matching(fits, counts)
    enough = np.ones(len(fits[0]), dtype=np.bool_)
    for size in range(1, len(fits) + 1):
        for kinds in combinations(range(len(fits)), size):
            together = fits[kinds[0]]
            for kind in kinds[1:]:
                together = together | fits[kind]
            places: Ints = np.count_nonzero(together, axis=1)
            enough &= places >= sum(counts[kind] for kind in kinds)
    return enough


def cells_that_fit(hosts: HostTable, demand: CellDemand, rows: Selection) -> Mask:
    """Return, for each NUMA cell of the rows, whether it can take one guest cell on its own.

    Args:
        hosts: the table.
        demand: the demand of the guest cell.
        rows: K rows.

    Returns:
        (K, C) bool, False where a row has no such cell.
    """
    places = hosts.numa.places(rows)
    if not places.size:
        return np.zeros(places.shape, dtype=np.bool_)
    # For all rows, it is cheaper to evaluate every NUMA cell once and then index the result.
    whole = isinstance(rows, slice)
    at: At = slice(None) if whole else places.ravel()
    fits = _memory_fits(hosts, demand, at)
    if demand.is_pinned:
        fits &= _pins(hosts, demand, at)
    if demand.floats:
        fits &= _floats(hosts, demand, at)
    found = fits[places] if whole else fits.reshape(places.shape)
    found &= places >= 0
    return found


def have_threads(hosts: HostTable, rows: Selection) -> Mask:
    """Return, for each row, whether one of its cores has several threads: (K,) bool."""
    places = hosts.numa.places(rows)
    threads = np.where(places >= 0, hosts.numa.columns.threads[places], 0)
    several: Mask = np.count_nonzero(threads > 1, axis=1) > 0
    return several


def _memory_fits(hosts: HostTable, demand: CellDemand, at: At) -> Mask:
    cells, wanted_kb = hosts.numa.columns, demand.memory_mb * _KB_PER_MB
    if demand.page_size is not None:
        return _pages_fit(hosts, demand, at)
    smallest_kb = cells.smallest_kb[at]
    memory_mb = cells.memory_mb[at]
    if demand.is_pinned:
        in_pages_kb = cells.smallest_free_kb[at]
        memory_mb = memory_mb - cells.memory_used_mb[at]
    else:
        in_pages_kb = cells.smallest_total_kb[at]
    in_pages = (wanted_kb <= in_pages_kb) & (wanted_kb % np.maximum(smallest_kb, 1) == 0)
    fits: Mask = np.where(smallest_kb > 0, in_pages, demand.memory_mb <= memory_mb)
    return fits


def _pages_fit(hosts: HostTable, demand: CellDemand, at: At) -> Mask:
    cells, wish = hosts.numa.columns, demand.page_size
    wanted_kb = demand.memory_mb * _KB_PER_MB
    smallest_kb = cells.smallest_kb[at]
    fits = np.zeros(smallest_kb.shape, dtype=np.bool_)
    for size_kb, column in hosts.numa.pages_kb.items():
        if wanted_kb % size_kb or (isinstance(wish, int) and size_kb != wish):
            continue
        enough = column[at] >= wanted_kb
        if wish is PageSizeClass.LARGE:
            enough &= smallest_kb != size_kb
        if wish is PageSizeClass.SMALL:
            enough &= smallest_kb == size_kb
        fits |= enough
    return fits


def _pins(hosts: HostTable, demand: CellDemand, at: At) -> Mask:
    """Return the cells with enough dedicated CPUs that satisfy the thread policy."""
    cells, wanted, more = hosts.numa.columns, demand.dedicated, demand.emulator
    fits: Mask = cells.free[at] >= wanted + more
    if more and not wanted:
        # An emulator CPU is only taken in addition to dedicated CPUs, so a guest NUMA cell that
        # requests none of these fails.
        fits[:] = False
    if demand.threads is ThreadPolicy.ISOLATE:
        # On hosts that report one set as both shared and dedicated, Nova keeps siblings idle
        # instead of requiring cores without siblings.
        one_each = (cells.threads[at] <= 1) | cells.is_old[at]
        fits &= one_each & (cells.whole_cores[at] >= max(wanted, 1))
        fits &= cells.cores[at] >= wanted + more
        if not wanted:
            fits[:] = False
        return fits
    fits &= cells.usable[at] >= wanted + more
    if demand.threads is ThreadPolicy.REQUIRE:
        fits &= (cells.threads[at] > 1) & (cells.paired[at] >= max(wanted, 1))
    return fits


def _floats(hosts: HostTable, demand: CellDemand, at: At) -> Mask:
    """Return the cells with enough shared CPUs and memory within the host's ratios."""
    cells = hosts.numa.columns
    shared_cpus = cells.shared_cpus[at]
    fits: Mask = shared_cpus >= demand.shared
    of_cpus = ratios_of(hosts, VCPU, cells.row[at])
    of_memory = ratios_of(hosts, MEMORY_MB, cells.row[at])
    fits &= cells.shared_used[at] + demand.shared <= shared_cpus * of_cpus
    fits &= cells.memory_used_mb[at] + demand.memory_mb <= cells.memory_mb[at] * of_memory
    return fits


def ratios_of(hosts: HostTable, name: str, rows: Ints) -> Floats:
    """Return the allocation ratio of a class for each of K rows; UNBOUND where a host reports none.

    Args:
        hosts: the table.
        name: the resource class.
        rows: (K,).

    Returns:
        (K,) float64.
    """
    columns = hosts.resource(name)
    if columns is None:
        return np.full(rows.shape, UNBOUND)
    return np.where(columns.terms[rows] > 0, columns.ratio[rows], UNBOUND)


def _by_matching(fits: Sequence[Mask], counts: Sequence[int]) -> Mask:
    """Return the result of `enough_cells` by matching, once for each distinct pattern of fits."""
    bits = 1 << np.arange(fits[0].shape[1], dtype=np.uint64)
    masks = np.stack([one @ bits for one in fits], axis=1)
    # The number of sets grows exponentially with the number of kinds, but the cost of a matching
    # does not. Rows with the same pattern share a matching.
    kinds, which = np.unique(masks, axis=0, return_inverse=True)
    verdicts = [
        is_matchable([mask for mask, count in zip(kind, counts, strict=True) for _ in range(count)])
        for kind in kinds.tolist()
    ]
    found: Mask = np.array(verdicts, dtype=np.bool_)[which.ravel()]
    return found
