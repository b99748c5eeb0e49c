"""ServerGroupAntiAffinityFilter: not too many members on one host."""

from dataclasses import replace

import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import Snapshot
from berth.scheduling.filters import group_anti_affinity
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = group_anti_affinity.build()
REQUEST = replace(asking(), group_uuid="g")
A, B, C = Box("a"), Box("b"), Box("c")


def fleet(policy: GroupPolicy = GroupPolicy.ANTI_AFFINITY, most: int = 1) -> Snapshot:
    """Two members on a, one on b, an outsider on c."""
    members = [resident(uuid, box, group_uuid="g") for uuid, box in (("1", A), ("2", A), ("3", B))]
    return snapshot_of(
        [A, B, C],
        groups=[ServerGroup("g", "web", policy, max_server_per_host=most)],
        instances=[*members, resident("4", C, group_uuid="other")],
    )


@pytest.mark.parametrize(("most", "kept"), [(1, ["c"]), (2, ["b", "c"]), (3, ["a", "b", "c"])])
def test_hosts_with_few_members_stay(ask: Ask, most: int, kept: list[str]) -> None:
    """max_server_per_host is how many a host may have in the end."""
    assert ask(fleet(most=most), REQUEST).kept(RULE) == kept


def test_an_instance_may_stay_where_it_is(ask: Ask) -> None:
    """A member that is moved counts against other hosts only."""
    request = replace(REQUEST, instance_uuids=("3",))
    assert ask(fleet(), request).kept(RULE) == ["b", "c"]


@pytest.mark.parametrize("policy", [p for p in GroupPolicy if p != "anti-affinity"])
def test_other_policies_are_not_its_business(ask: Ask, policy: GroupPolicy) -> None:
    """Neither is a request without a group, or with one that is not known."""
    assert ask(fleet(policy), REQUEST).kept(RULE) is None
    assert ask(fleet(), asking()).kept(RULE) is None
    assert ask(fleet(), replace(REQUEST, group_uuid="unknown")).kept(RULE) is None


def test_the_reason_counts_members(ask: Ask) -> None:
    """And the relaxation names the group."""
    asked = ask(fleet(most=2), REQUEST)
    assert asked.why(RULE, 0) == "it has 2 of at most 2 members of the group"
    assert asked.relaxed(RULE, [0]) == [("without the anti-affinity of group web: 1 host", ("a",))]


def test_it_says_that_it_reads_which_instance_is_placed() -> None:
    """Two instances of a request may get different verdicts."""
    assert set(RULE.reads.request) == {"group", "instance_uuid"}
