"""Tests for hard group policies, which need their filter in the policy."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.config.ready_policies import READY, ready_text
from berth.domain.compute.decision import RefusalCode
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.group_policies import (
    GROUP_FILTERS,
    plan_with_group_policy,
    unsupported_group,
)
from berth.scheduling.plan.inspection import inspect
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, by_chance, policy_of, resident, snapshot_of

GROUP = "group-1"


def _hosts(group_policy: GroupPolicy) -> HostTable:
    group = ServerGroup(GROUP, "apart", group_policy)
    return table_of(replace(snapshot_of([Box("a"), Box("b")]), server_groups=(group,)))


def _request(group_uuid: str = GROUP, force_hosts: tuple[str, ...] = ()) -> Request:
    return replace(asking(count=2), group_uuid=group_uuid, force_hosts=force_hosts)


def _without(names: Iterable[str]) -> Policy:
    return policy_of(filters=[rule for rule in policy_of().filters if rule.name not in names])


@pytest.mark.parametrize("group_policy", GROUP_FILTERS)
@pytest.mark.parametrize("forced", [(), ("a",)])
@pytest.mark.parametrize("choose", [lambda policy: policy, by_chance])
def test_a_hard_policy_without_its_filter_is_refused(
    group_policy: GroupPolicy, forced: tuple[str, ...], choose: object
) -> None:
    """A hard group policy without its filter is refused by any driver, even for forced hosts."""
    assert callable(choose)
    hosts, asked = _hosts(group_policy), _request(force_hosts=forced)
    policy = choose(_without([GROUP_FILTERS[group_policy]]))
    plan = plan_with_group_policy(hosts, asked, policy, now_s=NOW_S, seed=0)
    assert plan.placements == ()
    assert plan.amounts == asked.needs.amounts
    assert plan.refusal is not None
    assert plan.refusal.code is RefusalCode.UNSUPPORTED_POLICY
    assert (plan.refusal.placed, plan.refusal.asked, plan.refusal.hosts_total) == (0, 2, 2)
    assert GROUP_FILTERS[group_policy] in plan.refusal.message
    assert f"The policy {group_policy} of" in plan.refusal.message
    found = inspect(hosts, asked, policy, now_s=NOW_S, seed=0)
    assert (found.refusal, found.instances) == (plan.refusal, ())


@pytest.mark.parametrize("group_policy", GroupPolicy)
def test_with_the_filter_or_without_need_for_it_the_driver_plans(
    group_policy: GroupPolicy,
) -> None:
    """With its filter, or with a soft policy, the plan is that of the driver."""
    hosts, asked = _hosts(group_policy), _request()
    others = [name for one, name in GROUP_FILTERS.items() if one is not group_policy]
    policy = _without(others)
    plan = plan_with_group_policy(hosts, asked, policy, now_s=NOW_S, seed=0)
    assert plan == policy.driver.plan(hosts, asked, policy, now_s=NOW_S, seed=0)
    assert len(plan.placements) == 2


def test_no_group_and_an_unknown_one_need_no_filter() -> None:
    """Requests without a group or with an unknown group need no filter."""
    hosts, bare = _hosts(GroupPolicy.AFFINITY), _without(GROUP_FILTERS.values())
    assert unsupported_group(hosts, asking(), bare) is None
    assert unsupported_group(hosts, _request(group_uuid="elsewhere"), bare) is None
    assert unsupported_group(hosts, _request(), bare) is not None


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("group_policy", GROUP_FILTERS)
def test_ready_policies_keep_groups(name: str, group_policy: GroupPolicy) -> None:
    """All ready policies have both group filters."""
    policy = parse_policy(ready_text(name), name)
    assert unsupported_group(_hosts(group_policy), _request(), policy) is None


@pytest.mark.parametrize(
    ("group_policy", "most", "count", "forced", "fits"),
    [
        (GroupPolicy.ANTI_AFFINITY, 1, 1, "a", False),
        (GroupPolicy.ANTI_AFFINITY, 1, 1, "b", True),
        (GroupPolicy.ANTI_AFFINITY, 1, 2, "b", False),
        (GroupPolicy.ANTI_AFFINITY, 2, 1, "a", True),
        (GroupPolicy.ANTI_AFFINITY, 2, 2, "a", False),
        (GroupPolicy.AFFINITY, 1, 2, "a", True),
        (GroupPolicy.AFFINITY, 1, 1, "b", False),
        (GroupPolicy.SOFT_ANTI_AFFINITY, 1, 2, "a", True),
    ],
)
def test_a_forced_host_is_looked_at_before_the_claim(
    group_policy: GroupPolicy, most: int, count: int, forced: str, *, fits: bool
) -> None:
    """A forced host that would break the group policy is refused before the claim."""
    group = ServerGroup(GROUP, "group", group_policy, max_server_per_host=most)
    hosts = table_of(
        snapshot_of(
            [Box("a"), Box("b")],
            groups=[group],
            instances=[resident("1", Box("a"), group_uuid=GROUP)],
        )
    )
    asked = replace(asking(count=count), group_uuid=GROUP, force_hosts=(forced,))
    plan = plan_with_group_policy(hosts, asked, policy_of(), now_s=NOW_S, seed=0)
    if fits:
        assert [one.host for one in plan.placements] == [forced] * count
        return
    assert plan.placements == ()
    assert plan.refusal is not None
    assert plan.refusal.code is RefusalCode.GROUP_POLICY
    assert "the host that was named or chosen has" in plan.refusal.message
