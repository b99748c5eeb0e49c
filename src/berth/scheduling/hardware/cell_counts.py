"""The number of guests that fit one after another on the NUMA cells of hosts.

Source: nova-behaviour.md 6.2.

`cell_masks` decides whether a guest NUMA cell fits on a host cell; this module counts how often it
fits. Both apply the rules of `cell_fit`; change all three.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from berth.domain.compute.request import COUNT_MAX
from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.guest_topology import GuestTopology, PageSizeClass, ThreadPolicy
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.scheduling.hardware.cell_demand import CellDemand, demands_of
from berth.scheduling.hardware.cell_masks import cells_that_fit, ratios_of
from berth.scheduling.hardware.pinning import pin
from berth.scheduling.rules.rule import UNCOUNTED, Scores
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.cell_use import CellUse, FreeCell, free_cell
from berth.tables.host.hosts import HostTable
from berth.tables.host.numa import Places

_KB_PER_MB: Final = 1024


def most_guests(hosts: HostTable, topology: GuestTopology) -> Scores:
    """Return an upper bound on the number of guests on each host: (N,) float64, inf if unknown.

    This takes only array operations. `guests_in_turn` is exact, but slower.
    """
    rows = np.arange(len(hosts), dtype=np.intp)
    counts = guests_in_turn(hosts, topology, rows, is_exact=False)
    bounds: Scores = np.where(counts == UNCOUNTED, np.inf, counts)
    return bounds


def guests_in_turn(
    hosts: HostTable, topology: GuestTopology, rows: Rows, *, is_exact: bool = True
) -> Ints:
    """Return the number of guests that fit one after another on each row's NUMA cells: (K,).

    A guest of one cell may go to any host cell, so the numbers of the host cells add up. A guest
    with as many equal cells as its host uses all host cells, so the smallest number counts. For all
    other guests the result is `UNCOUNTED`, because their number depends on which cells each takes.
    No number exceeds `COUNT_MAX`.

    Args:
        hosts: the table.
        topology: the guest's NUMA cells; the guest requests no devices.
        rows: K rows.
        is_exact: whether pinning under thread policies is simulated; if not, counts may be too
            high.
    """
    demands = demands_of(topology)
    found = np.full(rows.size, UNCOUNTED, dtype=np.int64)
    if len(set(demands)) > 1:
        return found
    counts = _cells_in_turn(hosts, demands[0], rows, is_exact=is_exact)
    if len(demands) == 1:
        found[:] = np.minimum(counts.sum(axis=1), COUNT_MAX)
        return found
    exists = hosts.numa.places(rows) >= 0
    uses_all: Mask = np.count_nonzero(exists, axis=1) == len(demands)
    least = np.where(exists, counts, COUNT_MAX).min(axis=1, initial=COUNT_MAX)
    np.copyto(found, least, where=uses_all)
    return found


def _cells_in_turn(hosts: HostTable, demand: CellDemand, rows: Rows, *, is_exact: bool) -> Ints:
    """Return how often a guest cell fits on each NUMA cell of the rows: (K, C), up to COUNT_MAX."""
    fits = cells_that_fit(hosts, demand, rows)
    counts = np.zeros(fits.shape, dtype=np.int64)
    at: Places = hosts.numa.places(rows)[fits]
    # Each guest cell takes the same amounts, and no amount depends on another, so the scarcest
    # resource decides.
    most = np.full(at.size, COUNT_MAX, dtype=np.int64)
    np.minimum(most, _by_memory(hosts, demand, at), out=most)
    if demand.floats:
        np.minimum(most, _by_ratios(hosts, demand, at), out=most)
    if demand.is_pinned and demand.dedicated:
        np.minimum(most, _by_free_cpus(hosts, demand, at), out=most)
        if is_exact and demand.threads in {ThreadPolicy.ISOLATE, ThreadPolicy.REQUIRE}:
            np.minimum(most, _by_pins(hosts, demand, _owners(rows, fits)), out=most)
    counts[fits] = most
    return counts


def _by_memory(hosts: HostTable, demand: CellDemand, at: Places) -> Ints:
    cells, wanted_kb = hosts.numa.columns, demand.memory_mb * _KB_PER_MB
    if not wanted_kb:
        return np.full(at.size, COUNT_MAX, dtype=np.int64)
    if demand.page_size is not None:
        return _by_pages(hosts, demand, at)
    if not demand.is_pinned:
        # Each guest by itself is limited to the total memory of the cell; see `cell_fit`.
        return np.full(at.size, COUNT_MAX, dtype=np.int64)
    free_kb = (cells.memory_mb[at] - cells.memory_used_mb[at]) * _KB_PER_MB
    free_kb = np.where(cells.smallest_kb[at] > 0, cells.smallest_free_kb[at], free_kb)
    found: Ints = free_kb // wanted_kb
    return found


def _by_pages(hosts: HostTable, demand: CellDemand, at: Places) -> Ints:
    # Each guest cell uses pages of a single size, so the numbers for the sizes add up.
    wanted_kb, wish = demand.memory_mb * _KB_PER_MB, demand.page_size
    smallest_kb = hosts.numa.columns.smallest_kb[at]
    found = np.zeros(at.size, dtype=np.int64)
    for size_kb, column in hosts.numa.pages_kb.items():
        if wanted_kb % size_kb or (isinstance(wish, int) and size_kb != wish):
            continue
        fit = np.maximum(column[at], 0) // wanted_kb
        if wish is PageSizeClass.LARGE:
            fit[smallest_kb == size_kb] = 0
        if wish is PageSizeClass.SMALL:
            fit[smallest_kb != size_kb] = 0
        found += fit
    return found


def _by_ratios(hosts: HostTable, demand: CellDemand, at: Places) -> Ints:
    """Return how often the shared CPUs and the memory fit within the allocation ratios."""
    cells = hosts.numa.columns
    found = np.full(at.size, COUNT_MAX, dtype=np.int64)
    for amount, total, used, name in (
        (demand.shared, cells.shared_cpus[at], cells.shared_used[at], VCPU),
        (demand.memory_mb, cells.memory_mb[at], cells.memory_used_mb[at], MEMORY_MB),
    ):
        if amount:
            limit = total * ratios_of(hosts, name, cells.row[at])
            left = np.floor(limit).astype(np.int64) - used
            np.minimum(found, left // amount, out=found)
    return found


def _owners(rows: Rows, fits: Mask) -> list[tuple[int, int]]:
    """Return the row of each fitting cell, and the position of the cell on its host."""
    indices, positions = np.nonzero(fits)
    return list(zip(rows[indices].tolist(), positions.tolist(), strict=True))


def _by_free_cpus(hosts: HostTable, demand: CellDemand, at: Places) -> Ints:
    # Without a thread policy, any free CPUs are suitable.
    cells = hosts.numa.columns
    free = np.minimum(cells.free[at], cells.usable[at])
    if demand.threads is ThreadPolicy.ISOLATE:
        free = cells.free[at]
    found: Ints = free // (demand.dedicated + demand.emulator)
    return found


def _by_pins(hosts: HostTable, demand: CellDemand, owners: Sequence[tuple[int, int]]) -> Ints:
    known: dict[Hashable, int] = {}
    counts: list[int] = []
    for row, position in owners:
        cell = hosts.numa.cells(row)[position]
        # Cores with equally many free CPUs are interchangeable.
        key = (cell.shape, cell.free_count, tuple(sorted(cell.core_counts)))
        if key not in known:
            known[key] = _pinned_in_turn(cell, demand)
        counts.append(known[key])
    return np.array(counts, dtype=np.int64)


def _pinned_in_turn(cell: FreeCell, demand: CellDemand) -> int:
    """Return how often a cell's free CPUs serve a demand, regardless of its memory."""
    use = CellUse(pinned=cell.shape.dedicated & ~cell.free)
    count = 0
    while (pins := pin(free_cell(cell.shape, use), demand)) is not None:
        pinned = tuple(enumerate(pins.cpus))
        use.take(CellShare(cell.cell_id, 0, None, 0, pinned, pins.emulator, pins.idle))
        count += 1
    return count
