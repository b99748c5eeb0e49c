"""Tests for excluding hosts whose instance list is in doubt."""

from dataclasses import replace

import pytest

from berth.scheduling.filters import fits_resources
from berth.scheduling.plan.instance_rules import NAME, excluding_hosts
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, policy_of, snapshot_of


@pytest.mark.parametrize("force_hosts", [(), ("a",)])
def test_a_host_that_is_left_out_takes_nothing(force_hosts: tuple[str, ...]) -> None:
    """An excluded host takes no instance, even if it is forced."""
    hosts = table_of(snapshot_of([Box("a")]))
    policy = policy_of(filters=[fits_resources.build()])
    request = replace(asking(), force_hosts=force_hosts)
    plan = policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=1)
    assert [one.host for one in plan.placements] == ["a"]
    left = excluding_hosts(policy, frozenset({"a"}))
    plan = left.driver.plan(hosts, request, left, now_s=NOW_S, seed=1)
    assert plan.refusal is not None
    assert NAME in str(plan.refusal)
