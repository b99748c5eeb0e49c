"""Tests for free devices by row, pool and kind."""

import numpy as np

from berth.domain.hardware.assignment import DeviceShare
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.tables.host.pci import PciDevices, kind_of

GPU = PciPool("10DE", "1eb8", numa_node=0, count=4)
TAGGED = PciPool("10de", "1eb8", numa_node=0, tags={"rack": "1"}, count=2)
PORT = PciPool("8086", "154c", DeviceType.PHYSICAL, 1, "0000:01:00.0")
FUNCTIONS = PciPool("8086", "154c", DeviceType.VIRTUAL, 1, "0000:01:00.0", count=8)


def left(devices: PciDevices, row: int) -> dict[str, int]:
    """Return the free devices of the pools of a row, by key."""
    return {pool.key: pool.free for pool in devices.pools(row)}


def test_what_is_left_of_pools() -> None:
    """Pools without tags come first, and pools of the same kind share an array."""
    devices = PciDevices(3)
    devices.put(1, (TAGGED, GPU))
    devices.take(1, (DeviceShare(GPU.key, 3), DeviceShare(TAGGED.key, 1)))
    assert list(left(devices, 1).items()) == [(GPU.key, 1), (TAGGED.key, 1)]
    assert devices.kinds[kind_of(GPU)].tolist() == [0, 2, 0]
    assert devices.free(slice(0, 3)).tolist() == [0, 2, 0]
    assert devices.free(np.array([1])).tolist() == [2]
    devices.release(1, (DeviceShare(GPU.key, 3),))
    assert devices.free(np.array([1])).tolist() == [5]


def test_a_physical_function_and_its_virtual_ones_exclude_each_other() -> None:
    """A used physical function makes its virtual functions unusable, and the reverse."""
    devices = PciDevices(1)
    elsewhere = PciPool("8086", "154c", DeviceType.VIRTUAL, 1, "0000:02:00.0", count=2)
    devices.put(0, (PORT, FUNCTIONS, elsewhere))
    devices.take(0, (DeviceShare(FUNCTIONS.key, 1),))
    assert left(devices, 0) == {PORT.key: 0, FUNCTIONS.key: 7, elsewhere.key: 2}
    devices.release(0, (DeviceShare(FUNCTIONS.key, 1),))
    devices.take(0, (DeviceShare(PORT.key, 1),))
    assert left(devices, 0) == {PORT.key: 0, FUNCTIONS.key: 0, elsewhere.key: 2}


def test_what_instances_have_is_known_before_the_pools_are_and_after_they_change() -> None:
    """Used devices are kept when they come before the pools and when the pools change."""
    devices = PciDevices(1)
    devices.take(0, (DeviceShare(GPU.key, 3),))
    assert devices.free(np.array([0])).tolist() == [0]
    devices.put(0, (GPU,))
    assert left(devices, 0) == {GPU.key: 1}
    devices.put(0, (PciPool("10DE", "1eb8", numa_node=0, count=2),))
    assert left(devices, 0) == {GPU.key: 0}
    devices.put(0, ())
    devices.release(0, (DeviceShare(GPU.key, 3),))
    assert (left(devices, 0), devices.kinds) == ({}, {})


def test_rows_with_the_same_left_have_the_same_number() -> None:
    """Rows with the same free devices have the same state id; 0 means no devices."""
    devices = PciDevices(4)
    for row in range(3):
        devices.put(row, (GPU,))
    devices.take(1, (DeviceShare(GPU.key, 1),))
    first, second, third, none = devices.state_ids(slice(0, 4)).tolist()
    assert first == third != second
    assert none == 0
    devices.resize(8)
    assert devices.state_ids(np.array([2, 7])).tolist() == [third, 0]
    assert devices.kinds[kind_of(GPU)].tolist() == [4, 3, 4, 0, 0, 0, 0, 0]


def test_a_kind_is_what_aliases_ask_for() -> None:
    """A kind has lower-case ids, the type, live migration, remote management and the cell."""
    tags = {"remote_managed": "Yes", "live_migratable": "true"}
    kind = kind_of(PciPool("10DE", "1EB8", DeviceType.VDPA, 3, "x", tags))
    assert kind == ("10de", "1eb8", DeviceType.VDPA, "true", True, 3)


def test_what_is_given_back_twice_counts_once() -> None:
    """A repeated release of a share changes nothing, and a cleared row has no usage."""
    devices = PciDevices(1)
    devices.put(0, (GPU,))
    devices.take(0, (DeviceShare(GPU.key, 1),))
    for _ in range(2):
        devices.release(0, (DeviceShare(GPU.key, 1),))
    assert left(devices, 0) == {GPU.key: 4}
    devices.take(0, (DeviceShare(GPU.key, 1),))
    devices.clear(0)
    assert devices.kinds == {}
    devices.put(0, (GPU,))
    devices.release(0, (DeviceShare(GPU.key, 1),))
    assert left(devices, 0) == {GPU.key: 4}
