"""Tests for filling a host table with requests one after the other."""

from dataclasses import replace
from pathlib import Path

import pytest

from berth.config.policy_file import load_policy
from berth.config.ready_policies import READY
from berth.lab.fleet_filling import FleetFilling
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.workload import Arrival, DepartureEvent, FlavorSpec, FleetHost, events
from berth.scheduling.drivers import filter_scheduler
from berth.scheduling.evaluation.policy import Policy

GPU = "CUSTOM_GPU_MILLI"
HOSTS = (
    FleetHost("a", {"VCPU": 4, "MEMORY_MB": 4096}, availability_zone="az1"),
    FleetHost("b", {"VCPU": 8, "MEMORY_MB": 8192}, ("CUSTOM_T",), "az2", ({GPU: 1000},)),
)
SMALL = FlavorSpec("small", 2, 1024)
HALF_GPU = FlavorSpec("half", 1, 1024, 0, {f"resources1:{GPU}": "500"})


@pytest.fixture
def policy() -> Policy:
    """Return the default policy."""
    return load_policy(None)


def test_requests_take_room_until_there_is_none(policy: Policy) -> None:
    """A request is placed with all of its instances or refused."""
    filling = FleetFilling(HOSTS, policy)
    assert filling.empty_share == 1.0
    assert filling.arrive(Arrival(0.0, "one", "small"), SMALL)
    assert filling.empty_share == 0.5
    assert filling.arrive(Arrival(1.0, "four", "small", 4), SMALL)
    assert not filling.arrive(Arrival(2.0, "two", "small", 2), SMALL)
    assert filling.arrive(Arrival(3.0, "last", "small"), SMALL)
    assert (filling.placed, filling.refused) == (3, 1)


def test_departures_make_room(policy: Policy) -> None:
    """A departure frees its capacity; that of a refused request changes nothing."""
    filling = FleetFilling(HOSTS, policy)
    many, more = Arrival(0.0, "many", "small", 6), Arrival(1.0, "more", "small")
    assert filling.arrive(many, SMALL)
    assert not filling.arrive(more, SMALL)
    filling.depart(more)
    filling.depart(many)
    assert filling.empty_share == 1.0
    assert filling.arrive(more, SMALL)


def test_zones_and_devices_are_there(policy: Policy) -> None:
    """Requests for GPU shares and for an availability zone go only to hosts that have them."""
    filling = FleetFilling(HOSTS, policy)
    arrivals = [Arrival(0.0, f"gpu-{n}", "half") for n in range(3)]
    assert [filling.arrive(one, HALF_GPU) for one in arrivals] == [True, True, False]
    filling.depart(arrivals[0])
    assert filling.arrive(arrivals[2], HALF_GPU)
    pinned = [Arrival(1.0, f"az1-{n}", "small", availability_zone="az1") for n in range(3)]
    assert [filling.arrive(one, SMALL) for one in pinned] == [True, True, False]


def test_the_policy_decides() -> None:
    """The policy `pack` fills the hosts in use first, and `spread` the empty ones."""
    hosts = [FleetHost(name, {"VCPU": 8, "MEMORY_MB": 8192}) for name in "abc"]
    for name, empty in (("pack", 2 / 3), ("spread", 0.0)):
        filling = FleetFilling(hosts, load_policy(Path(name)))
        for number in range(3):
            assert filling.arrive(Arrival(0.0, str(number), "small"), SMALL)
        assert filling.empty_share == pytest.approx(empty)


def homes(policy: Policy) -> dict[str, int]:
    """Return the row of each instance that is placed at the end of a generated workload."""
    workload = generate(GeneratorSettings(hosts=25, requests=200))
    filling = FleetFilling(workload.hosts, policy)
    for event in events(workload, until_s=workload.arrivals[-1].at_s):
        if isinstance(event, DepartureEvent):
            filling.depart(event.arrival)
        else:
            filling.arrive(event.arrival, workload.flavors[event.arrival.flavor])
    occupants = filling.replica.hosts.occupants
    rows = range(len(workload.hosts))
    return {uuid: row for row in rows for uuid in occupants.on_row(row)}


@pytest.mark.parametrize("name", [name for name in READY if name != "openb"])
def test_ready_policies_choose_alike_with_and_without_the_engine(name: str) -> None:
    """A ready policy chooses the same hosts with and without incremental evaluation."""
    policy = load_policy(Path(name))
    full = replace(policy, driver=filter_scheduler.build(incremental=False))
    assert homes(policy) == homes(full)
