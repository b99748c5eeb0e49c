"""Parts of a host that are given to guests: floating CPUs and PCI devices."""

from pathlib import Path
from typing import cast

import msgspec
import pytest

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.libvirt.binding import Connect
from berth.adapters.virt.libvirt.domain_xml import domain_xml
from berth.adapters.virt.libvirt.hardware import (
    ANYWHERE,
    FloatingCpus,
    floating_cpus_of,
    free_devices,
)
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.adapters.virt.machine_facts import Linux
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from tests.unit.adapters.virt.libvirt.test_libvirt_xml import DISK, HOST, RECORD

ADDRESSES = ("0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0")


class Described:
    """A domain that can only return its XML description."""

    def __init__(self, *devices: str) -> None:
        record = msgspec.structs.replace(RECORD, devices=devices)
        self._xml = domain_xml(HOST, Accelerator.TCG, record, DISK)

    def isPersistent(self) -> int:  # noqa: N802 - libvirt's name
        """Return 1: the domain is persistent."""
        return 1

    def XMLDesc(self, flags: int) -> str:  # noqa: N802 - libvirt's name
        """Return the XML description."""
        return self._xml


class Listing:
    """A connection that can only list its domains."""

    def __init__(self, *domains: Described) -> None:
        self._domains = domains

    def listAllDomains(self, flags: int = 0) -> list[Described]:  # noqa: N802 - libvirt's name
        """Return all domains."""
        return list(self._domains)


@pytest.fixture
def linux(tmp_path: Path) -> Linux:
    """Return a machine with three equal PCI devices and one of another model."""
    for address, product in (*((one, "20f1") for one in ADDRESSES), ("0000:00:1f.0", "0001")):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "device").write_text(f"0x{product}\n")
    return Linux(tmp_path)


def asked(linux: Linux, count: int) -> Assignment:
    """Return an assignment of this many devices of the pool."""
    (pool,) = linux.pci_pools(["10de:20f1"])
    assert pool.count == 3
    return Assignment(devices=(DeviceShare(pool.key, count),))


def test_free_devices_are_given(linux: Linux) -> None:
    """A guest gets the first devices of the pool that no other guest has."""
    connect = cast("Connect", Listing(Described(ADDRESSES[0]), Described()))
    assert free_devices(connect, asked(linux, 2), linux) == ADDRESSES[1:]
    assert free_devices(connect, None, linux) == ()
    assert free_devices(connect, Assignment(), linux) == ()


def test_two_shares_of_a_pool_have_no_device_in_common(linux: Linux) -> None:
    """Two shares of one pool, as two aliases may request, get different devices."""
    (share,) = asked(linux, 1).devices
    found = free_devices(cast("Connect", Listing()), Assignment(devices=(share, share)), linux)
    assert found == ADDRESSES[:2]


def test_a_pool_that_has_too_few_is_an_error(linux: Linux) -> None:
    """The error names the number of free devices, and its cause is the claim."""
    connect = cast("Connect", Listing(Described(*ADDRESSES[:2])))
    with pytest.raises(BuildError, match="only 1 are free on this host") as raised:
        free_devices(connect, asked(linux, 2), linux)
    assert raised.value.cause is FailureCause.CLAIM


GUEST = GuestRecord("uuid", "host", "img", "pc-q35-7.2", GuestSize(2, 512), GuestSize(2, 512))


def two_cells(root: Path) -> Linux:
    """Return a machine with two cells of two CPUs each."""
    files = {"devices/system/cpu/online": "0-3\n"}
    for node in range(2):
        folder = f"devices/system/node/node{node}"
        files[f"{folder}/cpulist"] = f"{2 * node}-{2 * node + 1}\n"
        files[f"{folder}/meminfo"] = f"Node {node} MemTotal:  2097152 kB\n"
    for name, text in files.items():
        path = root / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").touch()
    return Linux(root)


def test_guests_float_over_what_is_not_dedicated(tmp_path: Path) -> None:
    """Guests with and without cells float over the online CPUs that are not dedicated."""
    linux, dedicated = two_cells(tmp_path), frozenset({1, 2, 3, 9})
    assert floating_cpus_of(GUEST, dedicated, linux) == FloatingCpus(frozenset({0}))
    in_cell = msgspec.structs.replace(GUEST, cells=(CellShare(0, 512, shared_cpus=2),))
    of_cells = {0: frozenset({0}), 1: frozenset[int]()}
    assert floating_cpus_of(in_cell, dedicated, linux) == FloatingCpus(frozenset({0}), of_cells)


def test_without_dedicated_cpus_guests_float_anywhere(tmp_path: Path) -> None:
    """A guest with a NUMA cell is still limited to the CPUs of its cell."""
    linux = two_cells(tmp_path)
    assert floating_cpus_of(GUEST, frozenset(), linux) == ANYWHERE
    in_cell = msgspec.structs.replace(GUEST, cells=(CellShare(0, 512, shared_cpus=2),))
    of_cells = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    assert floating_cpus_of(in_cell, frozenset(), linux) == FloatingCpus(frozenset(), of_cells)
