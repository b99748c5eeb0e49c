"""Aggregates that a request is kept in, found among all of them."""

from dataclasses import replace

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.request import Request
from berth.domain.ledger.change import RecordRemoved
from berth.domain.ledger.record import Kind
from berth.scheduling.filters import fits_resources, in_tenant_aggregate, in_zone_aggregate
from berth.scheduling.rules.dedicated_aggregates import (
    names_of,
    project_aggregates,
    zone_aggregates,
)
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, policy_of, snapshot_of

BOTH = Aggregate(
    7, "u7", "both", metadata={"filter_tenant_id_x": "p1,p2", "availability_zone": "az1"}
)
OTHER = Aggregate(2, "u2", "other", frozenset({"a"}), {"filter_tenant_id": "p1", "x": "p3"})
REQUEST = replace(asking(), project_id="p1", availability_zone="az1")


def query_of(request: Request) -> Query:
    """Make a request ready."""
    return Query(request, request.needs, NOW_S, None, "new-0")


def test_aggregates_without_hosts_count_too() -> None:
    """A project does not get out of its aggregate by the last host that leaves it."""
    hosts = table_of(snapshot_of([Box("a")], aggregates=[BOTH, OTHER]))
    assert project_aggregates(hosts, query_of(REQUEST)) == {2, 7}
    assert zone_aggregates(hosts, query_of(REQUEST)) == {7}
    assert names_of(hosts, frozenset({7, 2})) == "other, both"
    for request in (asking(), replace(REQUEST, project_id="p3", availability_zone="az2")):
        assert project_aggregates(hosts, query_of(request)) == frozenset()
        assert zone_aggregates(hosts, query_of(request)) == frozenset()


POLICY = policy_of(
    filters=(fits_resources.build(), in_tenant_aggregate.build(), in_zone_aggregate.build())
)


def is_placed(hosts: HostTable) -> bool:
    """Tell whether the request finds a host, by rules that keep what they know."""
    plan = POLICY.driver.plan(hosts, REQUEST, POLICY, now_s=NOW_S, seed=0)
    return bool(plan.placements)


def test_an_engine_notices_an_aggregate_without_hosts() -> None:
    """It concerns no row, and yet every verdict of the project's requests."""
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
