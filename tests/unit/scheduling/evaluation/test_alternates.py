"""Tests for alternates, the hosts that are tried when a build fails."""

from dataclasses import replace

import pytest

from berth.domain.compute.request import Operation, Request
from berth.domain.inventory.resources import MEMORY_MB
from berth.scheduling.evaluation.policy import Plan
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, policy_of, snapshot_of


def fleet(**used: int) -> HostTable:
    """Return a table of hosts with these amounts of used memory; less is better."""
    return table_of(snapshot_of([Box(name, used={MEMORY_MB: mb}) for name, mb in used.items()]))


def plan(hosts: HostTable, request: Request, *, alternates: int = 2, shown: int = 3) -> Plan:
    """Return a plan with this many alternates and runners-up."""
    policy = replace(policy_of(runners_up=shown), alternates=alternates)
    policy = replace(policy, weighers=policy.weighers[:1])
    return policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=0)


@pytest.mark.parametrize("shown", [0, 3])
def test_the_best_that_come_next_are_alternates(shown: int) -> None:
    """The next best hosts are alternates, in order, whatever number of runners-up is recorded."""
    hosts = fleet(a=0, b=3, c=1, d=2)
    (first,) = plan(hosts, asking(), shown=shown).placements
    assert (first.host, first.alternates) == ("a", (("c", "c"), ("d", "d")))
    (alone,) = plan(hosts, asking(), alternates=0, shown=shown).placements
    assert alone.alternates == ()


def test_hosts_of_the_same_request_are_no_alternates() -> None:
    """The alternates of several instances are the best hosts after all are placed."""
    found = plan(fleet(a=0, b=300, c=1, d=200), asking(count=2)).placements
    assert [(one.host, one.alternates) for one in found] == [
        ("a", (("d", "d"), ("b", "b"))),
        ("c", (("d", "d"), ("b", "b"))),
    ]


def test_alternates_are_of_the_same_cell() -> None:
    """Alternates are in the same cell as the chosen host."""
    hosts = fleet(a=0, b=1, c=2)
    for name, cell in (("a", "1"), ("b", "2"), ("c", "1")):
        (row,) = hosts.host_names.of_name(name)
        hosts.put_host(replace(hosts.host(row), cell=cell))
    (first,) = plan(hosts, asking()).placements
    assert (first.host, first.alternates) == ("a", (("c", "c"),))


def test_better_hosts_of_other_cells_hide_no_alternates() -> None:
    """Alternates of the cell are found although better hosts of other cells come between."""
    hosts = fleet(a=0, b=1, c=2, d=3, e=4, f=5)
    for name, cell in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "2"), ("e", "1"), ("f", "1")):
        (row,) = hosts.host_names.of_name(name)
        hosts.put_host(replace(hosts.host(row), cell=cell))
    (first,) = plan(hosts, asking()).placements
    assert (first.host, first.alternates) == ("a", (("e", "e"), ("f", "f")))


def test_there_may_be_fewer_than_asked_for() -> None:
    """A plan has fewer alternates, or none, if there are not enough hosts."""
    assert plan(fleet(a=0), asking()).placements[0].alternates == ()
    assert plan(fleet(a=0, b=1), asking()).placements[0].alternates == (("b", "b"),)


def test_a_retry_takes_its_first_alternate_that_may_be_taken_now() -> None:
    """A retry takes the first alternate with room, even if other hosts are better now."""
    hosts = fleet(a=0, b=3, c=8192, d=2)
    retry = replace(
        asking(),
        operation=Operation.RETRY,
        retried=(("d", "d"),),
        alternates=(("gone", "gone"), ("d", "d"), ("c", "c"), ("b", "b"), ("a", "a")),
    )
    (placed,) = plan(hosts, retry).placements
    assert placed.host == "b"
    assert [one.host for one in placed.runners_up] == ["a"]


def test_a_retry_without_usable_alternates_is_decided_anew() -> None:
    """A retry without usable alternates is decided among all hosts."""
    (placed,) = plan(fleet(a=5, b=3), replace(asking(), alternates=(("x", "y"),))).placements
    assert placed.host == "b"
