"""Tests for inflating a workload to a given demand in an order given by a seed."""

from collections import Counter

from berth.lab.inflation import InflatedWorkload, inflate
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

GPU = "CUSTOM_GPU_MILLI"
FLAVORS = {
    "share": FlavorSpec("share", 1, 1, extra_specs={f"resources1:{GPU}": "500"}),
    "plain": FlavorSpec("plain", 1, 1),
    "two": FlavorSpec(
        "two",
        1,
        1,
        extra_specs={
            f"resources1:{GPU}": "1000",
            f"resources2:{GPU}": "1000",
            "group_policy": "isolate",
        },
    ),
}
WORKLOAD = Workload(
    "w",
    hosts=tuple(FleetHost(f"h{n}", {"VCPU": 8}, devices=({GPU: 1000},) * 2) for n in range(10)),
    flavors=FLAVORS,
    arrivals=tuple(
        Arrival(float(n), f"a{n:02d}", flavor)
        for n, flavor in enumerate(["share"] * 4 + ["plain"] * 4 + ["two"] * 4)
    ),
)


def total(demand: InflatedWorkload) -> int:
    """Return the amount that all requests ask for."""
    return sum(demand.asked[arrival.flavor] for arrival in demand.workload.arrivals)


def test_requests_are_added_up_to_the_demand() -> None:
    """Requests are added up to the demand, and every request of the list is included."""
    demand = inflate(WORKLOAD, GPU, seed=1)
    assert demand.asked == {"share": 500, "plain": 0, "two": 2000}
    assert demand.capacity == 20_000
    assert 26_000 - 2000 < total(demand) <= 26_000
    flavors = Counter(arrival.flavor for arrival in demand.workload.arrivals)
    assert all(flavors[name] >= 4 for name in FLAVORS)


def test_requests_are_left_out_down_to_the_demand() -> None:
    """Requests are left out if the list asks for more than the demand."""
    demand = inflate(WORKLOAD, GPU, seed=1, demand=0.2)
    assert total(demand) <= 4000
    assert len(demand.workload.arrivals) < 12


def test_who_asks_for_nothing_is_not_inflated() -> None:
    """A workload that requests none of the resource class is not inflated."""
    demand = inflate(WORKLOAD, "CUSTOM_OTHER", seed=1)
    assert len(demand.workload.arrivals) == 12
    assert demand.capacity == 0


def test_a_seed_gives_an_order() -> None:
    """The seed determines the order of hosts and requests."""
    first, again, other = (inflate(WORKLOAD, GPU, seed=seed).workload for seed in (1, 1, 2))
    assert first == again
    assert [host.name for host in first.hosts] == sorted(host.name for host in first.hosts)
    assert [host.name[2:] for host in first.hosts] != [host.name[2:] for host in other.hosts]
    assert {host.name[2:] for host in first.hosts} == {f"-h{n}"[:3] for n in range(10)}
