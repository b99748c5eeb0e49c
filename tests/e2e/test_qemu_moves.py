"""Two agents with the QEMU driver in two network namespaces, and moves between them."""

from collections.abc import Iterator

import pytest

from tests.e2e.guest_cloud import GuestCloud, guest_cloud, require_qemu
from tests.e2e.namespaces import ADDRESSES, Machines, two_machines
from tests.e2e.two_machines import TwoMachinesCutMidway

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Two machines, for all tests here."""
    require_qemu()
    with two_machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def running(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """A service whose hosts are the two machines."""
    hosts = [
        {"within": machines.within(end), "virt": {"move_address": address, "type": "tcg"}}
        for end, address in enumerate(ADDRESSES)
    ]
    with guest_cloud(tmp_path_factory.mktemp("cloud"), *hosts) as cloud:
        yield cloud


class TestQemuMoves(TwoMachinesCutMidway):
    """Each guest is a process of its own."""
