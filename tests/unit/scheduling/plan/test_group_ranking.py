"""Tests for the choice of a host for all members of a server group that a request creates."""

from dataclasses import replace
from pathlib import Path

import pytest

from berth.config.policy_file import load_policy
from berth.config.ready_policies import READY
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Snapshot
from berth.scheduling.drivers import chance, least_cost, simple
from berth.scheduling.evaluation.policy import Driver, Plan, Policy
from berth.scheduling.filters import below_host_limits
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.plan.inspection import counterfactuals_of, inspect
from berth.tables.host.feed import table_of
from berth.testing.fleets import (
    NOW_S,
    Box,
    all_weighers,
    asking,
    policy_of,
    resident,
    sized,
    snapshot_of,
)

TOGETHER = ServerGroup("together", "together", GroupPolicy.AFFINITY)
APART = ServerGroup("apart", "apart", GroupPolicy.ANTI_AFFINITY)
SMALL, LARGE = Box("small", used={VCPU: 6}), Box("zz-large", inventories=sized(64, 65_536, 800))
FLEET = snapshot_of([SMALL, LARGE], groups=[TOGETHER, APART])
PACKING = policy_of(weighers=all_weighers([-1.0] * 5))


def plan(
    request: Request,
    policy: Policy | None = None,
    *,
    group: ServerGroup = TOGETHER,
    fleet: Snapshot = FLEET,
) -> Plan:
    """Return the plan of a request for members of a group; hosts are packed by default."""
    request = replace(request, group_uuid=group.uuid)
    return plan_with_group_policy(table_of(fleet), request, policy or PACKING, now_s=NOW_S, seed=0)


def hosts_of(found: Plan) -> list[str]:
    """Return the chosen hosts in the order of the instances."""
    return [placement.host for placement in found.placements]


@pytest.mark.parametrize("name", READY)
def test_every_ready_policy_chooses_a_host_for_all_members(name: str) -> None:
    """A host that takes one member only does not get the first of three."""
    policy = load_policy(Path(name))
    assert hosts_of(plan(asking(count=3), policy)) == ["zz-large"] * 3


@pytest.mark.parametrize(
    "driver", [chance.build(), simple.build(max_cores=99), least_cost.build()], ids=lambda d: d.name
)
def test_every_driver_chooses_a_host_for_all_members(driver: Driver) -> None:
    """The driver's own way to choose applies to the hosts that take all members."""
    for seed in range(8):
        request = replace(asking(count=3), group_uuid=TOGETHER.uuid)
        policy = replace(PACKING, driver=driver)
        found = policy.driver.plan(table_of(FLEET), request, policy, now_s=NOW_S, seed=seed)
        assert hosts_of(found) == ["zz-large"] * 3


def test_one_member_goes_to_the_best_host() -> None:
    """A request for a single member is not affected."""
    assert hosts_of(plan(asking())) == ["small"]


def test_a_refusal_says_how_many_members_fit_together() -> None:
    """The refusal counts the members on the host with the most room."""
    found = plan(asking(count=9), fleet=snapshot_of([SMALL, Box("b")], groups=[TOGETHER]))
    assert found.refusal is not None
    assert (found.refusal.placed, found.refusal.asked) == (8, 9)


def test_counting_rules_limit_the_members_of_a_host() -> None:
    """Rules that count instances apply to all members of the request."""
    limit = below_host_limits.build_num_instances(max_instances_per_host=3)
    policy = replace(PACKING, filters=(*PACKING.filters, limit))
    assert len(plan(asking(count=3), policy).placements) == 3
    found = plan(asking(count=4), policy)
    assert found.refusal is not None
    assert found.refusal.placed == 3


def test_later_members_follow_the_first() -> None:
    """With a member on a host, only that host takes others, whatever room the rest has."""
    member = resident("old", SMALL, group_uuid=TOGETHER.uuid)
    fleet = snapshot_of([SMALL, LARGE], groups=[TOGETHER], instances=[member])
    assert hosts_of(plan(asking(count=2), fleet=fleet)) == ["small", "small"]
    assert plan(asking(count=3), fleet=fleet).refusal is not None


@pytest.mark.parametrize(("group", "expected"), [(TOGETHER, "zz-large"), (APART, "small")])
def test_forced_hosts_are_chosen_by_the_group(group: ServerGroup, expected: str) -> None:
    """Of several forced hosts, which skip the filters, one that keeps the policy is chosen."""
    member = resident("old", LARGE, group_uuid=group.uuid)
    fleet = snapshot_of([SMALL, LARGE], groups=[group], instances=[member])
    forced = replace(asking(), force_hosts=("small", "zz-large"))
    for policy in (PACKING, policy_of()):
        assert hosts_of(plan(forced, policy, group=group, fleet=fleet)) == [expected]


def test_members_on_forced_hosts_share_one() -> None:
    """All instances of a request that forces hosts go to one that takes all of them."""
    fleet = snapshot_of([SMALL, Box("b"), LARGE], groups=[TOGETHER])
    forced = replace(asking(count=4), force_hosts=("small", "b", "zz-large"))
    for name in READY:
        assert len(set(hosts_of(plan(forced, load_policy(Path(name)), fleet=fleet)))) == 1


def test_counterfactuals_name_hosts_that_take_all_members() -> None:
    """The host that would win without a weigher takes all members as well."""
    request = replace(asking(count=3), group_uuid=TOGETHER.uuid)
    found = plan(request)
    others = counterfactuals_of(table_of(FLEET), request, PACKING, found.placements, now_s=NOW_S)
    assert {one.host for one in others} == {"zz-large"}
    assert len(others) > 1


def test_an_inspection_of_a_refusal_shows_the_members_that_fit() -> None:
    """The inspected placements are on the host with the most room."""
    fleet = snapshot_of([SMALL, Box("b")], groups=[TOGETHER])
    request = replace(asking(count=9), group_uuid=TOGETHER.uuid)
    seen = inspect(table_of(fleet), request, policy_of(), now_s=NOW_S, seed=0)
    placed = [one.placement.host for one in seen.instances if one.placement is not None]
    assert placed == ["b"] * 8
