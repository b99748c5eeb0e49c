"""Tests for the metadata of aggregates that rules read."""

from dataclasses import replace

import numpy as np

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.request import Request
from berth.domain.ledger.change import RecordRemoved
from berth.domain.ledger.record import Kind
from berth.scheduling.filters import aggregate_membership, fits_resources
from berth.scheduling.rules.aggregates import (
    admits,
    listed,
    names_of,
    project_aggregates,
    zone_aggregates,
)
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, policy_of, snapshot_of

HOSTS = table_of(
    snapshot_of(
        [Box("a"), Box("b"), Box("c")],
        aggregates=[
            Aggregate(1, "u1", "n1", frozenset("ab"), {"for": "x,", "also": "y"}),
            Aggregate(2, "u2", "n2", frozenset("b"), {"for": "z, w"}),
        ],
    )
)


def test_a_word_on_any_list_admits() -> None:
    """A host admits a word in any list of its aggregates, or without a list."""
    everyone = HOSTS.all_rows
    assert admits(HOSTS, ["for"], "x", everyone).tolist() == [True, True, True]
    assert admits(HOSTS, ["for"], "z", everyone).tolist() == [False, True, True]
    assert admits(HOSTS, ["for"], "y", everyone).tolist() == [False, False, True]
    assert admits(HOSTS, ["for", "also"], "y", np.array([2, 0])).tolist() == [True, True]
    assert admits(HOSTS, ["other"], "y", everyone).tolist() == [True, True, True]
    assert admits(HOSTS, [], "y", everyone).tolist() == [True, True, True]


def test_an_empty_word_is_on_no_list() -> None:
    """The empty word is in no list, even if a list ends with a comma."""
    assert admits(HOSTS, ["for"], "", HOSTS.all_rows).tolist() == [False, False, True]


def test_lists_are_said_in_order() -> None:
    """The words of all lists of a host are sorted, without empty ones."""
    assert listed(HOSTS, ["for"], 1) == "w, x, z"
    assert listed(HOSTS, ["for", "also"], 0) == "x, y"
    assert listed(HOSTS, ["for"], 2) == "nothing"


BOTH = Aggregate(
    7, "u7", "both", metadata={"filter_tenant_id_x": "p1,p2", "availability_zone": "az1"}
)
OTHER = Aggregate(2, "u2", "other", frozenset({"a"}), {"filter_tenant_id": "p1", "x": "p3"})
REQUEST = replace(asking(), project_id="p1", availability_zone="az1")


def query_of(request: Request) -> Query:
    """Return the query of a request."""
    return Query(request, request.needs, NOW_S, None, "new-0")


def test_aggregates_without_hosts_count_too() -> None:
    """Aggregates without hosts count for projects and zones."""
    hosts = table_of(snapshot_of([Box("a")], aggregates=[BOTH, OTHER]))
    assert project_aggregates(hosts, query_of(REQUEST)) == {2, 7}
    assert zone_aggregates(hosts, query_of(REQUEST)) == {7}
    assert names_of(hosts, frozenset({7, 2})) == "other, both"
    for request in (asking(), replace(REQUEST, project_id="p3", availability_zone="az2")):
        assert project_aggregates(hosts, query_of(request)) == frozenset()
        assert zone_aggregates(hosts, query_of(request)) == frozenset()


POLICY = policy_of(
    filters=(
        fits_resources.build(),
        aggregate_membership.build_tenant(),
        aggregate_membership.build_zone(),
    )
)


def is_placed(hosts: HostTable) -> bool:
    """Return whether the request finds a host with cached rules."""
    plan = POLICY.driver.plan(hosts, REQUEST, POLICY, now_s=NOW_S, seed=0)
    return bool(plan.placements)


def test_an_engine_notices_an_aggregate_without_hosts() -> None:
    """Cached verdicts follow changes of an aggregate without hosts."""
    hosts = table_of(snapshot_of([Box("a"), Box("b")]))
    assert all(is_placed(hosts) for _ in range(3))
    apply_event(hosts, BOTH)
    assert not any(is_placed(hosts) for _ in range(3))
    apply_event(hosts, replace(BOTH, hosts=frozenset({"b"})))
    assert is_placed(hosts)
    apply_event(hosts, BOTH)
    assert not is_placed(hosts)
    apply_event(hosts, RecordRemoved(Kind.AGGREGATE, "7"))
    assert is_placed(hosts)
