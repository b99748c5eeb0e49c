"""Tests for ServerGroupAffinityFilter and ServerGroupAntiAffinityFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import Snapshot
from berth.scheduling.filters import server_groups
from berth.tables.host.feed import resident_of
from berth.tables.host.orphans import LocatedResident
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

TOGETHER = server_groups.build_affinity()
REQUEST = replace(asking(), group_uuid="g")
A, B, C = Box("a"), Box("b"), Box("c")
AFFINITY_GROUP = ServerGroup("g", "web", GroupPolicy.AFFINITY)


def test_the_first_member_may_go_anywhere(ask: Ask) -> None:
    """The first member of a group may go to any host."""
    assert ask(snapshot_of([A, B], groups=[AFFINITY_GROUP]), REQUEST).kept(TOGETHER) == ["a", "b"]


def test_hosts_with_a_member_stay(ask: Ask) -> None:
    """Hosts with a member of the group stay."""
    here = [resident("1", B, group_uuid="g"), resident("2", A, group_uuid="other")]
    asked = ask(snapshot_of([A, B], groups=[AFFINITY_GROUP], instances=here), REQUEST)
    assert asked.kept(TOGETHER) == ["b"]
    assert asked.why(TOGETHER, 0) == "the members of the group are on other hosts"
    assert asked.relaxed(TOGETHER, [0]) == [("without the affinity of group web: 1 host", ("a",))]


def test_a_member_on_an_unknown_host_removes_every_other(ask: Ask) -> None:
    """A member on an unknown host excludes all hosts until its host is back, as in Nova."""
    away = [resident("1", Box("gone"), group_uuid="g")]
    asked = ask(snapshot_of([A, B], groups=[AFFINITY_GROUP], instances=away), REQUEST)
    assert asked.kept(TOGETHER) == []
    asked.hosts.put_host(Box("gone").host)
    assert asked.kept(TOGETHER) == ["gone"]
    asked.hosts.remove_instance("1")
    assert asked.kept(TOGETHER) == ["a", "b", "gone"]


def test_a_member_on_its_way_keeps_others_out(ask: Ask) -> None:
    """A member that moves between two hosts excludes all hosts; a resize in place does not."""
    home, move = resident("1", A, group_uuid="g"), resident("m", B, group_uuid="g")
    asked = ask(snapshot_of([A, B], groups=[AFFINITY_GROUP], instances=[home]), REQUEST)
    for at, kept in ((B, []), (A, ["a"])):
        asked.hosts.put_instance(at.host.uuid, replace(resident_of(move), is_move=True))
        assert asked.kept(TOGETHER) == kept
        if not kept:
            assert "moving between two hosts" in asked.why(TOGETHER, 0)
    asked.hosts.remove_instance("m")
    assert asked.kept(TOGETHER) == ["a"]


def test_a_member_on_its_way_to_an_unknown_host_keeps_others_out(ask: Ask) -> None:
    """A member that moves to an unknown host excludes all hosts until the move has ended."""
    home = resident("1", A, group_uuid="g")
    asked = ask(snapshot_of([A, B], groups=[AFFINITY_GROUP], instances=[home]), REQUEST)
    resident_there = replace(resident_of(resident("m", B, group_uuid="g")), is_move=True)
    asked.hosts.put_orphan(LocatedResident(resident_there, "gone", "gone"))
    assert asked.kept(TOGETHER) == []
    asked.hosts.remove_instance("m")
    assert asked.kept(TOGETHER) == ["a"]


@pytest.mark.parametrize("policy", [p for p in GroupPolicy if p != "affinity"])
def test_affinity_passes_over_other_policies(ask: Ask, policy: GroupPolicy) -> None:
    """The filter does not apply to other policies or to requests without a group."""
    here = [resident("1", B, group_uuid="g")]
    snapshot = snapshot_of([A, B], groups=[replace(AFFINITY_GROUP, policy=policy)], instances=here)
    assert ask(snapshot, REQUEST).kept(TOGETHER) is None
    assert ask(snapshot, asking()).kept(TOGETHER) is None


def test_affinity_declares_that_it_reads_where_the_members_are() -> None:
    """The filter declares that it reads the rows of the members."""
    assert "group_rows" in TOGETHER.reads.request


APART = server_groups.build_anti_affinity()
A, B, C = Box("a"), Box("b"), Box("c")


def fleet(policy: GroupPolicy = GroupPolicy.ANTI_AFFINITY, most: int = 1) -> Snapshot:
    """Return two members on a, one on b and another group's instance on c."""
    members = [resident(uuid, box, group_uuid="g") for uuid, box in (("1", A), ("2", A), ("3", B))]
    return snapshot_of(
        [A, B, C],
        groups=[ServerGroup("g", "web", policy, max_server_per_host=most)],
        instances=[*members, resident("4", C, group_uuid="other")],
    )


@pytest.mark.parametrize(("most", "kept"), [(1, ["c"]), (2, ["b", "c"]), (3, ["a", "b", "c"])])
def test_hosts_with_few_members_stay(ask: Ask, most: int, kept: list[str]) -> None:
    """A host may have at most `max_server_per_host` members."""
    assert ask(fleet(most=most), REQUEST).kept(APART) == kept


def test_an_instance_may_stay_where_it_is(ask: Ask) -> None:
    """A member does not count against the host that it is on."""
    request = replace(REQUEST, instance_uuids=("3",))
    assert ask(fleet(), request).kept(APART) == ["b", "c"]


@pytest.mark.parametrize("policy", [p for p in GroupPolicy if p != "anti-affinity"])
def test_anti_affinity_passes_over_other_policies(ask: Ask, policy: GroupPolicy) -> None:
    """The filter does not apply to other policies, or without a known group."""
    assert ask(fleet(policy), REQUEST).kept(APART) is None
    assert ask(fleet(), asking()).kept(APART) is None
    assert ask(fleet(), replace(REQUEST, group_uuid="unknown")).kept(APART) is None


def test_the_reason_counts_members(ask: Ask) -> None:
    """The reason counts the members, the relaxation names the group."""
    asked = ask(fleet(most=2), REQUEST)
    assert asked.why(APART, 0) == "it has 2 members of the group, and the limit is 2"
    reason = ask(fleet(most=1), REQUEST).why(APART, 1)
    assert reason == "it has 1 member of the group, and the limit is 1"
    assert asked.relaxed(APART, [0]) == [("without the anti-affinity of group web: 1 host", ("a",))]


def test_anti_affinity_declares_that_it_reads_which_instance_is_placed() -> None:
    """The filter declares that it reads the instance uuid."""
    assert set(APART.reads.request) == {"group", "instance_uuid"}
