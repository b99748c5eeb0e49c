"""NUMA cells and PCI devices together: the hardware that an instance receives from its host.

Guest NUMA cells are matched to host NUMA cells, and devices come with the host cells close to them.
The search enumerates sets of host cells close to requested devices, but no permutations: whether
the guest fits with a set is a matching problem (see `matching`).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from berth.domain.hardware.assignment import Assignment, CellShare
from berth.domain.hardware.guest_topology import GuestTopology
from berth.domain.hardware.pci import NumaPolicy, PciAlias
from berth.scheduling.hardware.cell_demand import demands_of
from berth.scheduling.hardware.cell_fit import OvercommitRatios, fit_cell
from berth.scheduling.hardware.cell_packing import CellChoice, Packing, best_choice, cell_values
from berth.scheduling.hardware.device_fit import (
    DeviceDemand,
    NearCells,
    device_demands,
    give_devices,
    leaving_room,
)
from berth.scheduling.hardware.matching import covers, is_matchable
from berth.scheduling.rules.rule import Query
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable
from berth.tables.host.numa import Layout
from berth.tables.host.pci import FreePool

SETS_MAX = 4096
"""Maximum number of sets of host cells near devices that are tried on one host."""

CHOICES_MAX = 256
"""Maximum number of feasible sets that packing compares on one host."""

# At most this many sets are enumerated, including those skipped for having too many NUMA cells.
_SETS_LOOKED_AT = 16 * SETS_MAX


@dataclass(frozen=True, slots=True)
class FreeHardware:
    """The free NUMA cells and PCI devices of one host."""

    cells: tuple[FreeCell, ...]
    pools: tuple[FreePool, ...]
    ratios: OvercommitRatios

    @classmethod
    def of(cls, hosts: HostTable, row: int) -> "FreeHardware":
        """Return the free NUMA cells and devices of a row's host."""
        return cls(hosts.numa.cells(row), hosts.pci.pools(row), OvercommitRatios.of(hosts, row))

    @property
    def layout(self) -> Layout:
        """The id and socket of each NUMA cell."""
        return tuple((cell.cell_id, cell.shape.cell.socket) for cell in self.cells)


def hardware_state(hosts: HostTable, query: Query, row: int) -> Hashable:
    """Return the state of a row that verdicts on further guests depend on; see `rule.StateOf`."""
    # Pools contain mappings, which cannot be hashed. The count is included because the used devices
    # of a pool exclude those of others.
    pools = tuple((pool.key, pool.pool.count, pool.free) for pool in hosts.pci.pools(row))
    if query.needs.topology is None:
        return pools
    # Cores with equally many free CPUs are interchangeable.
    cells = tuple(
        (
            cell.shape,
            cell.free_count,
            tuple(sorted(cell.core_counts)),
            cell.shared_used,
            cell.memory_used_mb,
            cell.pages_kb,
        )
        for cell in hosts.numa.cells(row)
    )
    return pools, cells, OvercommitRatios.of(hosts, row)


@dataclass(frozen=True, slots=True)
class HardwareDemand:
    """The demand of one instance for NUMA cells and devices; `packs` prefers the fullest cells."""

    topology: GuestTopology | None
    devices: tuple[DeviceDemand, ...]
    packs: bool = True


def fit_hardware(room: FreeHardware, demand: HardwareDemand) -> Assignment | None:
    """Return the NUMA cells and devices for a guest; None if it does not fit.

    A host without NUMA cells cannot take a guest with a topology.
    """
    values = cell_values(room.cells, room.pools) if demand.packs else None
    if demand.topology is None:
        devices = give_devices(room.pools, demand.devices, None, values=values)
        if devices is None:
            return None
        return Assignment(devices=leaving_room(room.pools, demand.devices, None, devices))
    shares = _pairs(room, demand.topology)
    masks = [sum(1 << place for place in row) for row in shares]
    order = _preference(room, demand, values or {})
    packing = None if values is None else Packing(values, order)
    choices = cell_choices(masks, room.layout, room.pools, demand.devices, packing)
    if packing is not None:
        tried = islice(choices, CHOICES_MAX)
        found = best_choice(room.cells, room.pools, masks, packing, tried)
    else:
        found = next(choices, None)
    if found is None:
        return None
    chosen = _choose(room, [mask & found.allowed for mask in masks], found.required, order)
    numa = tuple(row[place] for row, place in zip(shares, chosen, strict=True))
    near = _near(room.layout, found.required)
    devices = leaving_room(room.pools, demand.devices, near, found.devices)
    return Assignment(numa=numa, devices=devices)


def _pairs(room: FreeHardware, topology: GuestTopology) -> list[dict[int, CellShare]]:
    """Return, for each guest cell, its share of each host cell that it fits on, by position."""
    found: list[dict[int, CellShare]] = []
    for guest, demand in zip(topology.cells, demands_of(topology), strict=True):
        tried = (
            (place, fit_cell(cell, demand, guest, room.ratios))
            for place, cell in enumerate(room.cells)
        )
        found.append({place: share for place, share in tried if share is not None})
    return found


def cell_choices(
    masks: Sequence[int],
    layout: Layout,
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
    packing: Packing | None = None,
) -> Iterator[CellChoice]:
    """Yield feasible choices of the host's NUMA cells, those with the most devices close first.

    Args:
        masks: for each guest cell, the NUMA cells that it fits on, as bits by position.
        layout: the host's NUMA cells.
        pools: the free devices.
        demands: the requested devices.
        packing: the cells to keep whole, if any.
    """
    every = (1 << len(layout)) - 1
    if not is_matchable(masks):
        return
    if not demands:
        # Without devices, one choice that permits every matching suffices.
        yield CellChoice(0, every, ())
        return
    groups = _alike(masks, layout, pools, demands, packing)
    values = None if packing is None else packing.values
    rest = every & ~sum(1 << place for group in groups for place in group)
    for required in _sets(groups, len(masks)):
        allowed = required | rest
        # Some guest cell must use each required NUMA cell, or its devices would not be close.
        if not covers([mask & allowed for mask in masks], required):
            continue
        devices = give_devices(pools, demands, _near(layout, required), values=values)
        if devices is not None:
            yield CellChoice(required, allowed, devices)


def _alike(
    masks: Sequence[int],
    layout: Layout,
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
    packing: Packing | None,
) -> list[list[int]]:
    """Return the positions of the cells that affect which devices are close, in groups.

    Cells of one group have the same effect. Those with devices close to them come first, then those
    that packing prefers.
    """
    order = range(len(layout)) if packing is None else packing.order
    near = devices_near(layout, pools, demands)
    by_socket = any(one.numa_policy is NumaPolicy.SOCKET for one in demands)
    groups: dict[object, list[int]] = {}
    for place in sorted(order, key=lambda one: -near[one]):
        if near[place]:
            groups[place] = [place]
        # With the policy `socket`, a NUMA cell without devices still makes the devices of its
        # socket close.
        elif by_socket:
            guests = tuple(mask >> place & 1 for mask in masks)
            groups.setdefault((layout[place][1], guests), []).append(place)
    return list(groups.values())


def _sets(groups: Sequence[Sequence[int]], most: int) -> Iterator[int]:
    """Yield sets of up to `most` cells, preferring cells of the first groups."""
    counts = product(*(range(len(group), -1, -1) for group in groups))
    fewer = (numbers for numbers in islice(counts, _SETS_LOOKED_AT) if sum(numbers) <= most)
    for numbers in islice(fewer, SETS_MAX):
        chosen = (group[:number] for group, number in zip(groups, numbers, strict=True))
        yield sum(1 << place for places in chosen for place in places)


def _near(layout: Layout, chosen: int) -> NearCells:
    """Return the ids of a set of cells, given as bits by position, and of all in their sockets."""
    mine = [cell for place, cell in enumerate(layout) if chosen >> place & 1]
    sockets = {socket for _, socket in mine}
    known = all(socket is not None for _, socket in layout)
    in_sockets = frozenset(cell_id for cell_id, socket in layout if socket in sockets)
    cells = frozenset(cell_id for cell_id, _ in mine)
    return NearCells(cells, in_sockets if known else None)


def devices_near(
    layout: Layout, pools: Sequence[FreePool], demands: Sequence[DeviceDemand]
) -> dict[int, int]:
    """Return the number of free devices close to each NUMA cell, by position.

    The number includes only devices that a demand matches; without demands, all devices.
    """
    place_of = {cell_id: place for place, (cell_id, _) in enumerate(layout)}
    near = dict.fromkeys(range(len(layout)), 0)
    for pool in pools:
        place = None if pool.kind.numa_node is None else place_of.get(pool.kind.numa_node)
        wanted = not demands or any(demand.matches(pool.kind) for demand in demands)
        if place is not None and wanted:
            near[place] += pool.free
    return near


def _preference(room: FreeHardware, demand: HardwareDemand, values: Mapping[int, int]) -> list[int]:
    """Return the positions of the cells, the preferred ones first.

    With `packs`, the most valuable cells come last, then those with the most devices
    close, then the emptiest. Without it, guests that request devices prefer cells with the most of
    them, all others avoid cells with devices, and then the emptiest come first.
    """
    near = devices_near(room.layout, room.pools, demand.devices)
    sign = 1 if demand.packs else -1

    def rank(place: int) -> tuple[int, ...]:
        cell = room.cells[place]
        devices = near[place] if demand.packs or not demand.devices else -near[place]
        left = cell.free_count if demand.topology and _is_pinned(demand) else -cell.shared_used
        return (
            values.get(cell.cell_id, 0),
            devices,
            sign * left,
            sign * cell.memory_free_mb,
            place,
        )

    return sorted(range(len(room.cells)), key=rank)


def _is_pinned(demand: HardwareDemand) -> bool:
    return demand.topology is not None and demands_of(demand.topology)[0].is_pinned


def _choose(
    room: FreeHardware, masks: Sequence[int], required: int, order: Sequence[int]
) -> list[int]:
    """Return a host cell for each guest cell: the first that lets the remaining guest cells fit.

    After the first guest cell, cells of the sockets in use come before others.
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
            # A choice is never undone, because the remaining guest cells are known to fit.
            if mask & left & bit and covers(others, required & left & ~bit):
                chosen.append(place)
                left &= ~bit
                break
    return chosen


@dataclass(frozen=True, slots=True)
class HardwareAssign:
    """The `rule.Assign` of the hardware filters.

    Filters with equal instances of this class share one result, so NUMA cells and devices are
    chosen together. If the policy has only the filter for devices, the guest's topology is applied
    if it fits, and is ignored otherwise.
    """

    aliases: tuple[PciAlias, ...]
    packs: bool

    def __call__(self, hosts: HostTable, query: Query, row: int) -> Assignment | None:
        """Return the hardware that an instance placed on a row receives.

        The result is None if the instance needs neither cells nor devices, or if the devices do not
        fit.
        """
        needs = query.needs
        if needs.topology is None and not needs.devices:
            return None
        room = FreeHardware.of(hosts, row)
        devices = device_demands(needs.devices, self.aliases)
        demand = HardwareDemand(needs.topology, devices, packs=self.packs)
        found = fit_hardware(room, demand)
        # If the topology does not fit, the policy lacks the filter for NUMA cells, so only devices
        # are chosen; see the class.
        return found or fit_hardware(room, HardwareDemand(None, devices, packs=self.packs))
