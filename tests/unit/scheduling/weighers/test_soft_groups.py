"""Tests for ServerGroupSoftAffinityWeigher and ServerGroupSoftAntiAffinityWeigher."""

from dataclasses import replace

import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import Snapshot
from berth.scheduling.weighers import soft_groups
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

A, B, C = Box("a"), Box("b"), Box("c")
REQUEST = replace(asking(), group_uuid="g")


def fleet(policy: GroupPolicy) -> Snapshot:
    """Return two members on a, one on b and another group's instance on c."""
    members = [resident(uuid, box, group_uuid="g") for uuid, box in (("1", A), ("2", A), ("3", B))]
    return snapshot_of(
        [A, B, C],
        groups=[ServerGroup("g", "web", policy)],
        instances=[*members, resident("4", C, group_uuid="other")],
    )


def test_members_count_for_or_against_a_host(ask: Ask) -> None:
    """The value is the number of members on the host, negated for anti-affinity."""
    together = ask(fleet(GroupPolicy.SOFT_AFFINITY), REQUEST)
    assert together.raw(soft_groups.build_affinity()) == [2.0, 1.0, 0.0]
    apart = ask(fleet(GroupPolicy.SOFT_ANTI_AFFINITY), REQUEST)
    assert apart.raw(soft_groups.build_anti_affinity()) == [-2.0, -1.0, 0.0]


def test_shares_count_members_against_one(ask: Ask) -> None:
    """The share depends only on the members on the host itself."""
    together = ask(fleet(GroupPolicy.SOFT_AFFINITY), REQUEST)
    assert together.shares(soft_groups.build_affinity()) == [2 / 3, 1 / 2, 0.0]
    apart = ask(fleet(GroupPolicy.SOFT_ANTI_AFFINITY), REQUEST)
    assert apart.shares(soft_groups.build_anti_affinity()) == pytest.approx([1 / 3, 1 / 2, 1.0])


@pytest.mark.parametrize("policy", GroupPolicy)
def test_other_policies_do_not_weigh(ask: Ask, policy: GroupPolicy) -> None:
    """The weighers do not apply to other policies or to requests without a group."""
    asked = ask(fleet(policy), REQUEST)
    assert (asked.raw(soft_groups.build_affinity()) is None) == (policy != "soft-affinity")
    assert (asked.raw(soft_groups.build_anti_affinity()) is None) == (
        policy != "soft-anti-affinity"
    )
    alone = ask(fleet(policy), asking())
    assert alone.raw(soft_groups.build_affinity()) is None
    assert alone.raw(soft_groups.build_anti_affinity()) is None
    assert alone.shares(soft_groups.build_affinity()) is None
    assert alone.shares(soft_groups.build_anti_affinity()) is None


def test_the_scale_is_that_of_the_hosts_at_hand() -> None:
    """The scale has no fixed ends, and names and keys are those of Nova."""
    for build in (soft_groups.build_affinity, soft_groups.build_anti_affinity):
        weigher = build(multiplier=7.0)
        assert (weigher.multiplier, weigher.floor, weigher.ceiling) == (7.0, None, None)
    together, apart = soft_groups.build_affinity(), soft_groups.build_anti_affinity()
    assert together.name == "ServerGroupSoftAffinityWeigher"
    assert together.multiplier_key == "soft_affinity_weight_multiplier"
    assert apart.name == "ServerGroupSoftAntiAffinityWeigher"
    assert apart.multiplier_key == "soft_anti_affinity_weight_multiplier"
