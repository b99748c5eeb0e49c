"""Guests that boot the kernel of a distribution."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.testing.kernel_guest import starts_of
from tests.e2e.guest_cloud import (
    BOOTS_BEFORE,
    KERNEL,
    KERNEL_WITH_DISK,
    ComputeHost,
    GuestCloud,
    guest_cloud,
    require_kernel,
    require_qemu,
    wait_until,
)
from tests.e2e.kernel_moves import KernelMoves

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """Yield a cloud with two hosts, which the tests share because it starts slowly."""
    require_qemu()
    require_kernel()
    with guest_cloud(tmp_path_factory.mktemp("cloud"), {}, {}) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: GuestCloud) -> Iterator[GuestCloud]:
    """Yield the cloud without servers; after the test, audit it and delete all servers."""
    yield running
    running.check_audit()
    running.delete_all()
    running.check_audit()


def test_a_kernel_beside_its_disk_boots_and_hears_the_power_button(cloud: GuestCloud) -> None:
    """A guest has its flavor's size and disk; soft reboot and stop let the kernel shut down."""
    uuid = cloud.create("linux", flavor="kernel-disk", image=KERNEL_WITH_DISK)
    host = cloud.host_of(uuid)
    (first,) = starts_of(host.console(uuid))
    assert (first.uuid, first.vcpus, first.boots) == (uuid, 1, BOOTS_BEFORE + 1)
    assert 72 <= first.memory_mb <= 128
    cloud.act(uuid, "reboot", {"type": "SOFT"})
    cloud.settled(uuid)
    wait_until(lambda: host.starts(uuid) == 2)
    assert starts_of(host.console(uuid))[-1].boots == BOOTS_BEFORE + 2
    cloud.act(uuid, "os-stop")
    cloud.settled(uuid, "SHUTOFF")
    assert host.console(uuid).count("BERTH-KERNEL off") == 2
    assert cloud.where(uuid) == []


def test_a_rescued_kernel_meets_the_rescue_disk_first(cloud: GuestCloud) -> None:
    """The rescue disk is new and comes first; the own disk is unchanged and boots afterwards."""
    uuid = cloud.create("linux", flavor="kernel-disk", image=KERNEL_WITH_DISK)
    host = cloud.host_of(uuid)
    # The boots are counted on the first disk, so a fresh disk starts from `BOOTS_BEFORE` again.
    cloud.act(uuid, "rescue")
    cloud.settled(uuid, "RESCUE")
    wait_until(lambda: host.starts(uuid) == 2)
    assert starts_of(host.console(uuid))[-1].boots == BOOTS_BEFORE + 1
    assert disks_of(host, uuid) == ["rescue", "root"]
    rescue_disk = host.folder / "guests" / uuid / "rescue.qcow2"
    assert rescue_disk.exists()
    cloud.act(uuid, "unrescue")
    cloud.settled(uuid)
    wait_until(lambda: host.starts(uuid) == 3)
    assert starts_of(host.console(uuid))[-1].boots == BOOTS_BEFORE + 2
    assert disks_of(host, uuid) == ["root"]
    assert not rescue_disk.exists()


def disks_of(host: ComputeHost, uuid: str) -> list[str]:
    """Return the serials of the disks of a running guest, in their order on its bus."""
    words = Path(f"/proc/{host.running()[uuid].pid}/cmdline").read_text().split("\0")
    return [
        word.rpartition("serial=")[2].partition(",")[0] for word in words if "virtio-blk" in word
    ]


def test_a_kernel_that_panics_is_started_again(cloud: GuestCloud) -> None:
    """A guest that panics gets a new process; one that reboots itself keeps its process."""
    uuid = cloud.create("linux", flavor="kernel", image=KERNEL)
    host = cloud.host_of(uuid)
    first = host.running()[uuid]
    host.type(uuid, "reboot\n")
    wait_until(lambda: host.starts(uuid) == 2)
    assert host.running()[uuid] == first
    host.type(uuid, "panic\n")
    wait_until(lambda: host.starts(uuid) == 3)
    assert host.running()[uuid] != first
    cloud.settled(uuid)


class TestQemuKernelMoves(KernelMoves):
    """The tests of `KernelMoves` with the QEMU driver."""
