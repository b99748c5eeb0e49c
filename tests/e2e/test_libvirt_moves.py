"""Two agents with the libvirt driver in two network namespaces, each with its own libvirtd."""

from collections.abc import Iterator

import pytest

from berth.testing.private_libvirt import lacking, private_libvirt
from tests.e2e.guest_cloud import GuestCloud, guest_cloud, require_qemu
from tests.e2e.kernel_moves import KernelMoves
from tests.e2e.namespaces import ADDRESSES, Machines, two_machines
from tests.e2e.two_machines import TwoMachines

pytestmark = pytest.mark.timeout(600)
_UUIDS = ("6c766972-0001-4000-8000-000000000001", "6c766972-0002-4000-8000-000000000002")


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Yield the two machines, which the tests of this module share."""
    require_qemu()
    if reason := lacking():
        pytest.skip(reason)
    with two_machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def running(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """Yield a cloud whose hosts are the two machines."""
    folder = tmp_path_factory.mktemp("cloud")
    with (
        private_libvirt(folder / "libvirt-a", _UUIDS[0], machines.names[0]) as first,
        private_libvirt(folder / "libvirt-b", _UUIDS[1], machines.names[1]) as second,
    ):
        hosts = [
            {
                "driver": "libvirt",
                "keeper": libvirt.pid,
                "namespace": machines.names[end],
                "virt": {
                    "move_address": address,
                    "type": "tcg",
                    "uri": libvirt.uri,
                    "peer_uri": libvirt.uri,
                },
            }
            for end, (address, libvirt) in enumerate(zip(ADDRESSES, (first, second), strict=True))
        ]
        with guest_cloud(folder, *hosts) as cloud:
            yield cloud


class TestLibvirtMoves(TwoMachines, KernelMoves):
    """The tests of moves with the libvirt driver, whose daemons connect to each other."""
