"""The hosts that can take a guest's topology and devices, computed for many hosts together.

Operations on columns decide nearly all cases. The others (guests of several NUMA cells that need
close devices, and demands that compete for the same devices) are decided host by host; hosts with
the same fitting NUMA cells and the same free devices share a verdict, which is cached.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from berth.domain.hardware.guest_topology import GuestTopology
from berth.scheduling.hardware.cell_demand import counted, demands_of
from berth.scheduling.hardware.cell_masks import cells_that_fit, enough_cells, have_threads
from berth.scheduling.hardware.device_fit import DeviceDemand, give_devices
from berth.scheduling.hardware.device_masks import (
    DeviceSources,
    are_independent,
    cells_with_devices,
    have_enough,
    sources_of,
)
from berth.scheduling.hardware.hardware_fit import cell_choices
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

REMEMBERED_MAX = 16_384
"""Maximum number of cached verdicts for one demand."""

# The number of demands whose verdicts are cached; the least recently used are evicted.
_ASKED_MAX = 64
_CACHE = "hardware"

Bits = NDArray[np.uint64]


def hosts_with_devices(hosts: HostTable, demands: Sequence[DeviceDemand], rows: Selection) -> Mask:
    """Return, for each row, whether it has the devices, on any NUMA cell: (K,) bool."""
    sources = sources_of(hosts, demands)
    enough = have_enough(hosts, sources, rows)
    if are_independent(sources):
        return enough

    def has_all(row: int, _: int) -> bool:
        return give_devices(hosts.pci.pools(row), demands, None) is not None

    # Hosts with the same free devices, in the same pools, get the same verdict.
    looks: list[Bits | Ints] = [hosts.pci.state_ids(rows)]
    return _one_by_one(enough, rows, looks, _remembered(hosts, tuple(demands)), has_all)


def hosts_with_hardware(
    hosts: HostTable,
    topology: GuestTopology,
    demands: Sequence[DeviceDemand],
    rows: Selection,
) -> Mask:
    """Return, for each row, whether its NUMA cells can take a guest, with devices close enough.

    Args:
        hosts: the table.
        topology: the guest's NUMA cells.
        demands: the requested devices; may be empty.
        rows: K rows.

    Returns:
        (K,) bool.
    """
    kinds = counted(demands_of(topology))
    fits = [cells_that_fit(hosts, kind, rows) for kind in kinds]
    enough = enough_cells(fits, list(kinds.values()))
    if topology.wants_threads:
        enough &= have_threads(hosts, rows)
    if not demands:
        return enough
    sources = sources_of(hosts, demands)
    enough &= have_enough(hosts, sources, rows)
    # With one guest cell, nothing needs matching: some NUMA cell must have both room and devices.
    if len(topology.cells) == 1 and are_independent(sources):
        enough &= _one_cell(hosts, fits[0], sources, rows)
        return enough
    every = list(kinds)
    order = [every.index(one) for one in demands_of(topology)]
    masks = [_bits(fit) for fit in fits]

    def has_all(row: int, *found: int) -> bool:
        layout = hosts.numa.layout(row)
        guests = [found[kind] for kind in order]
        return next(cell_choices(guests, layout, hosts.pci.pools(row), demands), None) is not None

    looks: list[Bits | Ints] = [*masks, hosts.numa.layout_ids(rows), hosts.pci.state_ids(rows)]
    remembered = _remembered(hosts, (tuple(demands), tuple(order)))
    return _one_by_one(enough, rows, looks, remembered, has_all)


def _one_cell(
    hosts: HostTable, fits: Mask, sources: Sequence[DeviceSources], rows: Selection
) -> Mask:
    both = fits & cells_with_devices(hosts, sources, rows)
    found: Mask = np.logical_or.reduce(both, axis=1)
    return found


def _bits(cells: Mask) -> Bits:
    """Return, for each row, a number with one bit per cell, which is set if the cell fits."""
    values = np.left_shift(np.uint64(1), np.arange(cells.shape[1], dtype=np.uint64))
    found: Bits = np.where(cells, values, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return found


def _one_by_one(
    undecided: Mask,
    rows: Selection,
    looks: Sequence[Bits | Ints],
    remembered: dict[tuple[int, ...], bool],
    test: Callable[..., bool],
) -> Mask:
    """Return the verdicts of the undecided rows, testing equal rows once; other rows fail.

    Args:
        undecided: (K,) bool.
        rows: K rows.
        looks: arrays of (K,) numbers on which the verdict depends.
        remembered: cached verdicts by the numbers of a row.
        test: (row, *numbers of the row) -> verdict.
    """
    verdicts = np.zeros(undecided.size, dtype=np.bool_)
    indices = np.flatnonzero(undecided)
    looking = zip(*(numbers[indices].tolist() for numbers in looks), strict=True)
    for index, look in zip(indices.tolist(), looking, strict=True):
        verdict = remembered.get(look)
        if verdict is None:
            if len(remembered) >= REMEMBERED_MAX:
                # The cache refills within a few requests; tracking the order of use would cost
                # time at every hit.
                remembered.clear()
            row = index if isinstance(rows, slice) else int(rows[index])
            verdict = remembered[look] = test(row, *look)
        verdicts[index] = verdict
    return verdicts


def _remembered(hosts: HostTable, asked: Hashable) -> dict[tuple[int, ...], bool]:
    """Return the cache of verdicts for one demand, created if needed."""
    every = cast(
        "OrderedDict[Hashable, dict[tuple[int, ...], bool]]",
        hosts.caches.setdefault(_CACHE, OrderedDict[Hashable, dict[tuple[int, ...], bool]]()),
    )
    found = every.setdefault(asked, {})
    every.move_to_end(asked)
    if len(every) > _ASKED_MAX:
        every.popitem(last=False)
    return found
