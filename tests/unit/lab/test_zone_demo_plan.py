"""Tests for the fleets and requests that the zone demo draws from a seed."""

import pytest

from berth.domain.inventory.resources import VCPU
from berth.lab.zone_demo_plan import FLAVORS, RARE, demo_requests, oversized_request, zone_fleets


@pytest.mark.parametrize("instances", [1, 7, 40, 1000])
def test_requests_sum_up(instances: int) -> None:
    """The requests sum up to the given number of instances and use existing flavors."""
    plan = demo_requests(instances, 1)
    assert sum(one.count for one in plan) == instances
    assert min(one.count for one in plan) > 0
    assert {one.flavor for one in plan} <= {flavor.name for flavor in FLAVORS}


def test_a_thousand_instances_are_of_all_sizes_and_flavors() -> None:
    """A plan of 1,000 instances has requests of several sizes and uses all flavors."""
    plan = demo_requests(1000, 1)
    assert len({one.count for one in plan}) > 4
    assert {one.flavor for one in plan} == {flavor.name for flavor in FLAVORS}


def test_equal_seeds_draw_equal_plans() -> None:
    """Equal seeds draw equal plans and fleets; another seed draws another plan."""
    assert demo_requests(500, 3) == demo_requests(500, 3) != demo_requests(500, 4)
    assert zone_fleets(9, 3)("zone-1", 1) == zone_fleets(9, 3)("zone-1", 1)


def test_each_zone_has_hosts_of_its_own() -> None:
    """Host names start with their zone; the root has fewer hosts, and all kinds occur."""
    fleet = zone_fleets(6, 1)
    drawn = {
        name: fleet(name, depth) for name, depth in (("root", 0), ("a", 1), ("b", 1), ("c", 1))
    }
    assert [len(hosts) for hosts in drawn.values()] == [2, 6, 6, 6]
    assert all(host.name.startswith(f"{name}-") for name in drawn for host in drawn[name])
    kinds = {host.name.split("-")[1] for hosts in drawn.values() for host in hosts}
    assert kinds == {"old", "plain", "memory", "vector"}


def test_too_much_is_more_than_all_hosts_could_take() -> None:
    """The oversized request exceeds what all able hosts could take if they were empty."""
    fleet = zone_fleets(6, 1)
    hosts = [host for name in "abc" for host in fleet(name, 1)]
    ask = oversized_request(hosts)
    able = [host for host in hosts if host.traits]
    assert able
    assert ask.flavor == RARE.name
    assert ask.count > sum(host.totals[VCPU] // RARE.vcpus for host in able)
