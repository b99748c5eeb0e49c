"""Tests for planning the instances of a request, all or none."""

from dataclasses import replace

import pytest

from berth.domain.compute.decision import FilterCount, RefusalCode
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.plan.planning import seed_of
from berth.tables.host.feed import table_of
from berth.testing.fleets import (
    NOW_S,
    Box,
    all_filters,
    all_weighers,
    asking,
    by_chance,
    policy_of,
    sized,
    snapshot_of,
)

GROUPS = [ServerGroup(policy.value, policy.value, policy) for policy in GroupPolicy]
TRIO = snapshot_of([Box("c"), Box("a"), Box("b")], groups=GROUPS)


def plan(request: Request, policy: Policy | None = None, seed: int = 0) -> Plan:
    """Return a plan on three equal hosts."""
    policy = policy or policy_of(runners_up=3)
    return policy.driver.plan(table_of(TRIO), request, policy, now_s=NOW_S, seed=seed)


def hosts_of(found: Plan) -> list[str]:
    """Return the chosen hosts in the order of the instances."""
    return [placement.host for placement in found.placements]


def test_a_placement_says_all_about_its_choice() -> None:
    """A placement has the host, its provider, the number of candidates and the runners-up."""
    (first,) = plan(asking()).placements
    assert (first.instance_uuid, first.host, first.node) == ("new-0", "a", "a")
    assert (first.provider_uuid, first.candidates) == ("a/a", 3)
    assert first.chosen.score == 3.0
    assert [one.host for one in first.runners_up] == ["b", "c"]


def test_instances_spread_as_they_consume() -> None:
    """Each instance sees those placed before it; negative multipliers pack them."""
    assert hosts_of(plan(asking(count=4))) == ["a", "b", "c", "a"]
    packing = policy_of(weighers=all_weighers([-1.0] * 5))
    assert hosts_of(plan(asking(count=4), packing)) == ["a", "a", "a", "a"]


@pytest.mark.parametrize(
    ("group", "count", "hosts"),
    [
        ("affinity", 3, ["a", "a", "a"]),
        ("anti-affinity", 3, ["a", "b", "c"]),
        ("anti-affinity", 4, None),
        ("affinity", 9, None),
    ],
)
def test_groups_hold_within_a_request(group: str, count: int, hosts: list[str] | None) -> None:
    """Hard group policies hold among the instances of one request."""
    policy = policy_of(weighers=all_weighers([-1.0] * 5))
    found = plan(replace(asking(count=count), group_uuid=group), policy)
    assert hosts_of(found) == (hosts or [])
    assert (found.refusal is None) == (hosts is not None)


def test_soft_groups_weigh_within_a_request() -> None:
    """Soft group policies weigh among the instances of one request."""
    strong = policy_of(weighers=all_weighers([1, 1, 1, 10, 10]))
    together = replace(asking(count=3), group_uuid="soft-affinity")
    assert hosts_of(plan(together, strong)) == ["a", "a", "a"]
    packing = policy_of(weighers=all_weighers([-1, -1, -1, 10, 10]))
    apart = replace(asking(count=3), group_uuid="soft-anti-affinity")
    assert hosts_of(plan(apart, packing)) == ["a", "b", "c"]


def test_counts_are_those_of_the_last_instance() -> None:
    """A plan and a refusal have the filter counts of the last instance."""
    found = plan(asking(count=2))
    assert found.filters[0] == FilterCount("ComputeFilter", 3, 3)
    assert len(found.filters) == len(all_filters())
    refused = plan(asking(specs={"trait:X": "required"}))
    assert refused.filters[-1] == FilterCount("TraitsFilter", 3, 0)


def test_all_or_none() -> None:
    """If the last instance finds no host, the plan has no placements."""
    found = plan(asking(count=25))
    assert found.placements == ()
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.NOT_ENOUGH
    assert (found.refusal.placed, found.refusal.asked) == (24, 25)


def test_a_spec_that_cannot_be_read_is_refused_by_its_name() -> None:
    """An unreadable extra spec is refused by name."""
    with pytest.raises(InvalidInputError, match="resources:VCPU"):
        plan(asking(specs={"resources:VCPU": "many"}))


def test_a_request_that_needs_nothing_fits_everywhere() -> None:
    """A request without needs fits hosts without inventories."""
    snapshot = snapshot_of([Box("bare", inventories={})])
    nothing = asking(replace(asking().flavor, vcpus=0, memory_mb=0, root_gb=0), count=2)
    policy = policy_of()
    found = policy.driver.plan(table_of(snapshot), nothing, policy, now_s=NOW_S, seed=0)
    assert hosts_of(found) == ["bare", "bare"]


def test_a_removed_host_is_never_chosen() -> None:
    """A removed host is never chosen, even without filters."""
    hosts = table_of(TRIO)
    hosts.remove_host("a/a")
    policy = policy_of(filters=[])
    found = policy.driver.plan(hosts, asking(count=9), policy, now_s=NOW_S, seed=0)
    assert set(hosts_of(found)) == {"b", "c"}


def test_the_chance_scheduler_takes_any_host_that_passes() -> None:
    """The chance scheduler picks any host that passes the filters and has no runners-up."""
    policy = by_chance(policy_of())
    found = [plan(asking(), policy, seed) for seed in range(40)]
    assert {one.placements[0].host for one in found} == {"a", "b", "c"}
    assert all(one.placements[0].runners_up == () for one in found)
    assert plan(asking(specs={"trait:X": "required"}), policy).refusal is not None
    assert policy.driver.name == "chance"


def test_chance_does_not_depend_on_rows() -> None:
    """The same seed picks the same host in another order of rows."""
    policy = by_chance(policy_of())
    other = table_of(replace(TRIO, hosts=TRIO.hosts[::-1]))
    for seed in range(10):
        found = policy.driver.plan(other, asking(count=3), policy, now_s=NOW_S, seed=seed)
        assert found == plan(asking(count=3), policy, seed)


def test_a_host_that_one_instance_could_not_use_is_looked_at_for_the_next() -> None:
    """A host that one instance cannot use is considered again for the next."""
    snapshot = snapshot_of([Box("a", inventories=sized(1)), Box("b")], groups=GROUPS)
    policy = policy_of()
    request = replace(asking(count=2), group_uuid="affinity")
    found = policy.driver.plan(table_of(snapshot), request, policy, now_s=NOW_S, seed=0)
    assert hosts_of(found) == ["b", "b"]


def test_a_seed_is_63_bits_and_always_the_same() -> None:
    """The seed of a request has 63 bits and depends only on the request id."""
    assert seed_of("req-1") == seed_of("req-1") != seed_of("req-2")
    assert all(0 <= seed_of(f"req-{number}") < 2**63 for number in range(100))
