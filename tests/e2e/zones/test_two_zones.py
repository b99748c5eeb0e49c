"""A parent and a child zone, which takes what does not fit in the parent."""

import time

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Processes
from tests.e2e.zones.tree import WITHIN_S, RunningZone, start_zone, start_zone_of_processes

PARENT_VCPUS, CHILD_VCPUS, WANTED = 4, 8, 9


def used(*zones: RunningZone) -> list[int]:
    """Return the used VCPUs of each zone's own hosts."""
    return [zone.used_vcpus() for zone in zones]


@pytest.mark.timeout(240)
def test_a_request_lands_in_both_zones(processes: Processes) -> None:
    """Once the child trusts the parent, a request fills both, and the parent deletes all."""
    root = start_zone(processes, "root", vcpus=PARENT_VCPUS)
    west = start_zone(processes, "west", vcpus=CHILD_VCPUS)
    root.wait()
    west.wait()
    root.service.flavor("small", vcpus=1, ram=512)
    root.adopt(west)

    refused = root.create(WANTED)
    assert [one["status"] for one in refused] == ["ERROR"] * WANTED
    assert used(root, west) == [0, 0]

    west.trust(root)
    root.wait_for_children()

    servers = root.create(WANTED)
    assert [one["status"] for one in servers] == ["ACTIVE"] * WANTED
    here, there = used(root, west)
    assert here + there == WANTED
    assert 0 < WANTED - PARENT_VCPUS <= there <= CHILD_VCPUS

    for one in servers:
        root.delete(one["id"])
    deadline_s = time.monotonic() + WITHIN_S
    while used(root, west) != [0, 0]:
        assert time.monotonic() < deadline_s, used(root, west)
        time.sleep(0.05)


@pytest.mark.rabbitmq
@pytest.mark.timeout(240)
def test_the_schedulers_of_a_child_build_each_others_offers(
    processes: Processes, broker: RabbitBroker
) -> None:
    """A build reaches the scheduler that holds the offer, whichever scheduler receives it.

    The child refuses offers without a hold, so each build has to find the holder.
    """
    root = start_zone(processes, "root", vcpus=0)
    west = start_zone_of_processes(processes, "west", broker, vcpus=CHILD_VCPUS, schedulers=2)
    root.wait(hosts=0)
    west.wait()
    root.service.flavor("small", vcpus=1, ram=512)
    west.trust(root)
    root.adopt(west)
    root.wait_for_children()
    for number in range(4):
        (server,) = root.create(1)
        assert server["status"] == "ACTIVE", (number, server)
    assert used(west) == [4]
