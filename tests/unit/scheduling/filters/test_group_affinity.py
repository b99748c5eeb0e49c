"""ServerGroupAffinityFilter: all members on one host."""

from dataclasses import replace

import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.filters import group_affinity
from berth.tables.host.feed import resident_of
from berth.tables.host.orphans import LocatedResident
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = group_affinity.build()
REQUEST = replace(asking(), group_uuid="g")
A, B = Box("a"), Box("b")
GROUP = ServerGroup("g", "web", GroupPolicy.AFFINITY)


def test_the_first_member_may_go_anywhere(ask: Ask) -> None:
    """An empty group removes nothing."""
    assert ask(snapshot_of([A, B], groups=[GROUP]), REQUEST).kept(RULE) == ["a", "b"]


def test_hosts_with_a_member_stay(ask: Ask) -> None:
    """Members of other groups do not count."""
    here = [resident("1", B, group_uuid="g"), resident("2", A, group_uuid="other")]
    asked = ask(snapshot_of([A, B], groups=[GROUP], instances=here), REQUEST)
    assert asked.kept(RULE) == ["b"]
    assert asked.why(RULE, 0) == "it has no member of the group, and other hosts have"
    assert asked.relaxed(RULE, [0]) == [("without the affinity of group web: 1 host", ("a",))]


def test_a_member_on_an_unknown_host_removes_every_other(ask: Ask) -> None:
    """As with Nova: the group is together there, or nowhere, until that host is back."""
    away = [resident("1", Box("gone"), group_uuid="g")]
    asked = ask(snapshot_of([A, B], groups=[GROUP], instances=away), REQUEST)
    assert asked.kept(RULE) == []
    asked.hosts.put_host(Box("gone").host)
    assert asked.kept(RULE) == ["gone"]
    asked.hosts.remove_instance("1")
    assert asked.kept(RULE) == ["a", "b", "gone"]


def test_a_member_on_its_way_keeps_others_out(ask: Ask) -> None:
    """It may end on either host, so neither is the group's; a resize in place splits nothing."""
    home, move = resident("1", A, group_uuid="g"), resident("m", B, group_uuid="g")
    asked = ask(snapshot_of([A, B], groups=[GROUP], instances=[home]), REQUEST)
    for at, kept in ((B, []), (A, ["a"])):
        asked.hosts.put_instance(at.host.uuid, replace(resident_of(move), is_move=True))
        assert asked.kept(RULE) == kept
        if not kept:
            assert "on its way between two hosts" in asked.why(RULE, 0)
    asked.hosts.remove_instance("m")
    assert asked.kept(RULE) == ["a"]


def test_a_member_on_its_way_to_an_unknown_host_keeps_others_out(ask: Ask) -> None:
    """Until the host is back, or the move has ended."""
    home = resident("1", A, group_uuid="g")
    asked = ask(snapshot_of([A, B], groups=[GROUP], instances=[home]), REQUEST)
    resident_there = replace(resident_of(resident("m", B, group_uuid="g")), is_move=True)
    asked.hosts.put_orphan(LocatedResident(resident_there, "gone", "gone"))
    assert asked.kept(RULE) == []
    asked.hosts.remove_instance("m")
    assert asked.kept(RULE) == ["a"]


@pytest.mark.parametrize("policy", [p for p in GroupPolicy if p != "affinity"])
def test_other_policies_are_not_its_business(ask: Ask, policy: GroupPolicy) -> None:
    """Neither is a request without a group."""
    here = [resident("1", B, group_uuid="g")]
    snapshot = snapshot_of([A, B], groups=[replace(GROUP, policy=policy)], instances=here)
    assert ask(snapshot, REQUEST).kept(RULE) is None
    assert ask(snapshot, asking()).kept(RULE) is None


def test_it_says_that_it_looks_at_where_the_members_are() -> None:
    """A row's verdict changes when another host gets the first member."""
    assert "group_rows" in RULE.reads.request
