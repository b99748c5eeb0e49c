"""NUMA cells and PCI devices together: what an instance gets of the host chosen for it.

Guest cells are matched to host cells; devices come with the host cells that are near them. The
search tries sets of host cells that are near any device asked for, and no permutations: whether
the rest then fits is a matching (see `matching`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.guest_topology import GuestTopology
from berth.domain.hardware.pci import NumaPolicy, PciAlias
from berth.scheduling.hardware.cell_demand import demands_of
from berth.scheduling.hardware.cell_fit import OvercommitRatios, fit_cell
from berth.scheduling.hardware.device_fit import DeviceDemand, NearCells, demanded, give_devices
from berth.scheduling.hardware.matching import covers, is_matchable
from berth.scheduling.rules.rule import Query
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable
from berth.tables.host.numa import Layout
from berth.tables.host.pci import FreePool

SETS_MAX = 4096
"""Most sets of host cells near devices that are tried on one host."""

_SETS_LOOKED_AT = 16 * SETS_MAX


@dataclass(frozen=True, slots=True)
class FreeHardware:
    """What is free of one host."""

    cells: tuple[FreeCell, ...]
    pools: tuple[FreePool, ...]
    ratios: OvercommitRatios

    @classmethod
    def of(cls, hosts: HostTable, row: int) -> "FreeHardware":
        """Return what is free of a row."""
        return cls(hosts.numa.cells(row), hosts.pci.pools(row), OvercommitRatios.of(hosts, row))

    @property
    def layout(self) -> Layout:
        """Number and socket of each cell."""
        return tuple((cell.cell_id, cell.shape.cell.socket) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class HardwareDemand:
    """What one instance asks of cells and devices; `packs` fills up used cells first."""

    topology: GuestTopology | None
    devices: tuple[DeviceDemand, ...]
    packs: bool = True


def fit_hardware(room: FreeHardware, demand: HardwareDemand) -> Assignment | None:
    """Choose cells and devices, None when they do not fit.

    A host without cells has no room for a topology.
    """
    if demand.topology is None:
        devices = give_devices(room.pools, demand.devices, None)
        return None if devices is None else Assignment(devices=devices)
    shares = _pairs(room, demand.topology)
    masks = [sum(1 << place for place in row) for row in shares]
    found = next(choices(masks, room.layout, room.pools, demand.devices), None)
    if found is None:
        return None
    order = _preference(room, demand)
    chosen = _choose(room, [mask & found.allowed for mask in masks], found.required, order)
    numa = tuple(row[place] for row, place in zip(shares, chosen, strict=True))
    return Assignment(numa=numa, devices=found.devices)


def _pairs(room: FreeHardware, topology: GuestTopology) -> list[dict[int, CellShare]]:
    """Return, for each guest cell, the places of the host cells that it fits on, with its share."""
    found: list[dict[int, CellShare]] = []
    for guest, demand in zip(topology.cells, demands_of(topology), strict=True):
        tried = (
            (place, fit_cell(cell, demand, guest, room.ratios))
            for place, cell in enumerate(room.cells)
        )
        found.append({place: share for place, share in tried if share is not None})
    return found


class CellChoice(NamedTuple):
    """Host cells as bits by their places: those to use, those to choose from; and devices."""

    required: int
    allowed: int
    devices: tuple[DeviceShare, ...]


def choices(
    masks: Sequence[int],
    layout: Layout,
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
) -> Iterator[CellChoice]:
    """Yield choices of host cells that work, best first.

    Args:
        masks: for each guest cell, the host cells that it fits on.
        layout: the host cells.
        pools: what is free of devices.
        demands: the devices that are asked for.
    """
    every = (1 << len(layout)) - 1
    if not is_matchable(masks):
        return
    if not demands:
        yield CellChoice(0, every, ())
        return
    groups = _alike(masks, layout, pools, demands)
    rest = every & ~sum(1 << place for group in groups for place in group)
    for required in _sets(groups, len(masks)):
        allowed = required | rest
        if not covers([mask & allowed for mask in masks], required):
            continue
        devices = give_devices(pools, demands, _near(layout, required))
        if devices is not None:
            yield CellChoice(required, allowed, devices)


def _alike(
    masks: Sequence[int],
    layout: Layout,
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
) -> list[list[int]]:
    """Return the places of the cells that make a difference to which devices are near.

    Cells of one group make the same difference. Those near devices come first.
    """
    near = devices_near(layout, pools, demands)
    by_socket = any(one.numa_policy is NumaPolicy.SOCKET for one in demands)
    groups: dict[object, list[int]] = {}
    for place in sorted(range(len(layout)), key=lambda one: -near[one]):
        if near[place]:
            groups[place] = [place]
        elif by_socket:
            guests = tuple(mask >> place & 1 for mask in masks)
            groups.setdefault((layout[place][1], guests), []).append(place)
    return list(groups.values())


def _sets(groups: Sequence[Sequence[int]], most: int) -> Iterator[int]:
    """Yield sets of up to `most` cells, as many of the first groups as possible first."""
    counts = product(*(range(len(group), -1, -1) for group in groups))
    fewer = (numbers for numbers in islice(counts, _SETS_LOOKED_AT) if sum(numbers) <= most)
    for numbers in islice(fewer, SETS_MAX):
        chosen = (group[:number] for group, number in zip(groups, numbers, strict=True))
        yield sum(1 << place for places in chosen for place in places)


def _near(layout: Layout, chosen: int) -> NearCells:
    """Return what is near some of the cells, given as bits by their places."""
    mine = [cell for place, cell in enumerate(layout) if chosen >> place & 1]
    sockets = {socket for _, socket in mine}
    known = all(socket is not None for _, socket in layout)
    in_sockets = frozenset(cell_id for cell_id, socket in layout if socket in sockets)
    cells = frozenset(cell_id for cell_id, _ in mine)
    return NearCells(cells, in_sockets if known else None)


def devices_near(
    layout: Layout, pools: Sequence[FreePool], demands: Sequence[DeviceDemand]
) -> dict[int, int]:
    """Count free devices near each cell: those that a demand matches, or all without demands."""
    place_of = {cell_id: place for place, (cell_id, _) in enumerate(layout)}
    near = dict.fromkeys(range(len(layout)), 0)
    for pool in pools:
        place = None if pool.kind.numa_node is None else place_of.get(pool.kind.numa_node)
        wanted = not demands or any(demand.matches(pool.kind) for demand in demands)
        if place is not None and wanted:
            near[place] += pool.free
    return near


def _preference(room: FreeHardware, demand: HardwareDemand) -> list[int]:
    """Return the places of the cells, those to use first first.

    Cells near devices are for who asks for devices. After that the fullest cells come first, or
    the emptiest.
    """
    near = devices_near(room.layout, room.pools, demand.devices)
    sign = 1 if demand.packs else -1

    def rank(place: int) -> tuple[int, ...]:
        cell = room.cells[place]
        devices = -near[place] if demand.devices else near[place]
        left = cell.free_count if demand.topology and _is_pinned(demand) else -cell.shared_used
        return (devices, sign * left, sign * cell.memory_free_mb, place)

    return sorted(range(len(room.cells)), key=rank)


def _is_pinned(demand: HardwareDemand) -> bool:
    return demand.topology is not None and demands_of(demand.topology)[0].is_pinned


def _choose(
    room: FreeHardware, masks: Sequence[int], required: int, order: Sequence[int]
) -> list[int]:
    """Give each guest cell the first place in the order that leaves the others theirs.

    After the first one, cells of sockets that are in use already come before others.
    """
    chosen: list[int] = []
    left = (1 << len(room.cells)) - 1
    for number, mask in enumerate(masks):
        sockets = {room.cells[place].shape.cell.socket for place in chosen}
        near_first = sorted(
            order,
            key=lambda one: bool(sockets) and room.cells[one].shape.cell.socket not in sockets,
        )
        for place in near_first:
            bit = 1 << place
            others = [other & left & ~bit for other in masks[number + 1 :]]
            if mask & left & bit and covers(others, required & left & ~bit):
                chosen.append(place)
                left &= ~bit
                break
    return chosen


@dataclass(frozen=True, slots=True)
class HardwareAssign:
    """See `rule.Assign`. Filters with equal ones share an answer, so cells go with devices.

    Where only the filter for devices is in force, a topology that fits is honoured too; one
    that does not leaves the devices alone.
    """

    aliases: tuple[PciAlias, ...]
    packs: bool

    def __call__(self, hosts: HostTable, query: Query, row: int) -> Assignment | None:
        """Work out what an instance placed on a row gets there."""
        needs = query.needs
        if needs.topology is None and not needs.devices:
            return None
        room = FreeHardware.of(hosts, row)
        devices = demanded(needs.devices, self.aliases)
        demand = HardwareDemand(needs.topology, devices, packs=self.packs)
        found = fit_hardware(room, demand)
        return found or fit_hardware(room, HardwareDemand(None, devices))
