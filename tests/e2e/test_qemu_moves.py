"""Two agents with the QEMU driver in two network namespaces, and moves between them."""

from collections.abc import Iterator

import pytest

from tests.e2e.guest_cloud import GuestCloud, guest_cloud, require_qemu
from tests.e2e.namespaces import ADDRESSES, Machines, two_machines
from tests.e2e.two_machines import TwoMachinesCutMidway

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Yield the two machines, which the tests of this module share."""
    require_qemu()
    with two_machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def running(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """Yield a cloud whose hosts are the two machines."""
    hosts = [
        {"namespace": machines.names[end], "virt": {"move_address": address, "type": "tcg"}}
        for end, address in enumerate(ADDRESSES)
    ]
    with guest_cloud(tmp_path_factory.mktemp("cloud"), *hosts) as cloud:
        yield cloud


class TestQemuMoves(TwoMachinesCutMidway):
    """The tests of moves with the QEMU driver."""
