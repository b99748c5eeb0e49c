"""Tests for choosing cells and devices together."""

from collections.abc import Sequence
from dataclasses import replace

from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.guest_topology import CpuPolicy, GuestCell, GuestTopology
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceNeed, NumaPolicy, PciPool, aliases_of
from berth.scheduling.hardware.cell_fit import OvercommitRatios
from berth.scheduling.hardware.device_fit import device_demands
from berth.scheduling.hardware.hardware_fit import (
    SETS_MAX,
    FreeHardware,
    HardwareDemand,
    cell_choices,
    fit_hardware,
)
from berth.tables.host.cell_use import CellUse, free_cell, shape_of
from berth.tables.host.pci import PciDevices

GPU = aliases_of([{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}])
NONE: frozenset[int] = frozenset()


def room(
    *taken: int, sockets: Sequence[int | None] = (), pools: Sequence[PciPool] = ()
) -> FreeHardware:
    """Return a host whose cells have eight CPUs each, with these numbers of CPUs taken."""
    cells = []
    for number, count in enumerate(taken):
        first = number * 8
        cpus = frozenset(range(first, first + 8))
        use = CellUse()
        use.take(CellShare(number, 0, pinned=tuple((n, first + n) for n in range(count))))
        socket = sockets[number] if sockets else None
        cells.append(free_cell(shape_of(NumaCell(number, NONE, cpus, (), 1024, (), socket)), use))
    devices = PciDevices(1)
    devices.put(0, pools)
    return FreeHardware(tuple(cells), devices.pools(0), OvercommitRatios())


def guest(*cpus: int) -> GuestTopology:
    """Return a guest whose cells have these numbers of dedicated CPUs."""
    cells: list[GuestCell] = []
    for count in cpus:
        first = sum(len(cell.dedicated_cpus) for cell in cells)
        cells.append(GuestCell(NONE, frozenset(range(first, first + count)), 64))
    return GuestTopology(tuple(cells), CpuPolicy.DEDICATED)


def chosen(found: Assignment | None) -> list[int] | None:
    """Return the host cells of an assignment, or None."""
    return None if found is None else [share.host_cell for share in found.numa]


def cells_of(
    where: FreeHardware,
    *cpus: int,
    packs: bool = True,
    gpus: int = 0,
    policy: NumaPolicy | None = None,
) -> list[int] | None:
    """Return the host cells that a guest gets, or None if it does not fit."""
    devices = device_demands((DeviceNeed("gpu", gpus, policy),), GPU) if gpus else ()
    return chosen(fit_hardware(where, HardwareDemand(guest(*cpus), devices, packs=packs)))


def test_cells_that_are_used_come_first_or_last() -> None:
    """Packing chooses the fullest cell that fits; without packing, the emptiest."""
    where = room(0, 5, 2)
    assert cells_of(where, 2) == [1]
    assert cells_of(where, 4) == [2]
    assert cells_of(where, 7) == [0]
    assert cells_of(where, 2, packs=False) == [0]
    assert cells_of(where, 9) is None


def test_a_guest_cell_leaves_others_the_only_cells_that_they_fit_on() -> None:
    """A guest cell leaves a host cell to another guest cell that fits nowhere else."""
    where = room(0, 5)
    assert cells_of(where, 2, 8) == [1, 0]
    assert cells_of(where, 8, 2) == [0, 1]
    assert cells_of(where, 3, 3) == [1, 0]
    assert cells_of(where, 4, 4) is None
    assert cells_of(where, 1, 1, 1) is None


def test_cells_of_one_socket_are_chosen_together() -> None:
    """After the first cell, cells of the same socket are preferred."""
    where = room(6, 5, 0, 4, sockets=(0, 1, 0, 1))
    assert cells_of(where, 2, 2) == [0, 2]
    assert cells_of(where, 3, 3) == [1, 3]


POOLS = (
    PciPool("10de", "1eb8", numa_node=2, count=2),
    PciPool("10de", "1eb8", numa_node=1, count=1),
)


def test_cells_near_devices_are_for_who_asks_for_devices() -> None:
    """A guest without devices prefers cells that are not near devices."""
    where = room(4, 6, 6, pools=POOLS)
    assert cells_of(where, 2) == [0]
    assert cells_of(where, 2, gpus=1, packs=False) == [2]
    assert cells_of(where, 2, 2) == [0, 1]


def test_packing_takes_no_more_devices_near_than_needed() -> None:
    """Packing chooses the cell with the fewest devices that suffice, so that the other stays."""
    where = room(0, 0, 0, pools=POOLS)
    assert cells_of(where, 2, gpus=1) == [1]
    assert cells_of(where, 2, gpus=2) == [2]


def test_packing_breaks_no_whole_cell_while_another_cell_suffices() -> None:
    """Devices come from a cell of which some are taken, although it is emptier and has more."""
    devices = PciDevices(1)
    pools = [PciPool("10de", "1eb8", numa_node=node, count=2 + 3 * node) for node in range(2)]
    devices.put(0, pools)
    devices.take(0, [DeviceShare(pools[1].key, 1)])
    where = replace(room(4, 0), pools=devices.pools(0))
    assert cells_of(where, 2, gpus=1) == [1]
    assert cells_of(where, 2) == [1]
    assert cells_of(where, 2, gpus=1, packs=False) == [1]
    one, other = cells_of(where, 2, 2, gpus=2) or (0, 0)
    assert {one, other} == {0, 1}


def test_guests_with_devices_share_a_cell() -> None:
    """Two guests with one device each leave a cell for a guest that needs all its devices."""
    pools = [PciPool("10de", "1eb8", numa_node=node, count=2) for node in range(2)]
    devices = PciDevices(1)
    devices.put(0, pools)
    for taken in (0, 1):
        where = replace(room(2 * taken, 0), pools=devices.pools(0))
        demands = device_demands((DeviceNeed("gpu", 1),), GPU)
        found = fit_hardware(where, HardwareDemand(guest(2), demands))
        assert found is not None
        assert chosen(found) == [0]
        devices.take(0, found.devices)
    where = replace(room(4, 0), pools=devices.pools(0))
    assert cells_of(where, 2, gpus=2, policy=NumaPolicy.REQUIRED) == [1]


def test_devices_decide_which_cells_are_chosen() -> None:
    """All sets of cells near devices are tried before the guest is refused."""
    where = room(0, 0, 0, pools=POOLS)
    assert cells_of(where, 4, gpus=2) == [2]
    assert cells_of(where, 4, gpus=3) is None
    assert set(cells_of(where, 4, 4, gpus=3) or ()) == {1, 2}
    assert cells_of(where, 4, gpus=3, policy=NumaPolicy.PREFERRED) == [2]
    full = room(0, 0, 8, pools=POOLS)
    assert cells_of(full, 4, gpus=1) == [1]
    assert cells_of(full, 4, gpus=2) is None
    assert cells_of(full, 4, gpus=2, policy=NumaPolicy.PREFERRED) == [1]


def test_devices_of_the_same_socket() -> None:
    """With the policy `socket` a cell may use devices of another cell in its socket."""
    where = room(0, 8, 8, 0, sockets=(0, 0, 1, 1), pools=POOLS[1:])
    assert cells_of(where, 4, gpus=1) is None
    assert cells_of(where, 4, gpus=1, policy=NumaPolicy.SOCKET) == [0]
    unknown = room(0, 8, 8, 0, sockets=(0, 0, 1, None), pools=POOLS[1:])
    assert cells_of(unknown, 4, gpus=1, policy=NumaPolicy.SOCKET) is None


def test_devices_without_a_topology_may_be_anywhere() -> None:
    """Without a guest topology devices may be anywhere, even without cells."""
    devices = device_demands((DeviceNeed("gpu", 3, NumaPolicy.REQUIRED),), GPU)
    found = fit_hardware(room(pools=POOLS), HardwareDemand(None, devices))
    assert found is not None
    assert found.numa == ()
    assert sum(share.count for share in found.devices) == 3
    assert fit_hardware(room(), HardwareDemand(guest(1), ())) is None


def test_the_search_is_bounded() -> None:
    """The search for cells near devices is bounded for sixteen cells and eight devices."""
    masks = [(1 << 16) - 1] * 8
    layout = tuple((number, number // 8) for number in range(16))
    devices = PciDevices(1)
    devices.put(
        0, [PciPool("10de", "1eb8", numa_node=number, address=str(number)) for number in range(8)]
    )
    pools = devices.pools(0)
    for policy in NumaPolicy:
        enough = device_demands((DeviceNeed("gpu", 8, policy),), GPU)
        found = next(cell_choices(masks, layout, pools, enough), None)
        assert found is not None
        assert found.required & 0xFF == 0xFF
        more = device_demands((DeviceNeed("gpu", 9, policy),), GPU)
        assert next(cell_choices(masks, layout, pools, more), None) is None
    assert SETS_MAX >= 2**8
