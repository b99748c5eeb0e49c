"""Rules about sizes, counts and aggregates agree with the plain model and explain removals."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points

import numpy as np
from hypothesis import event, given

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S
from berth.testing.tagging import tagged_requests, tagged_snapshots
from tests.property.reference_aggregates import BUILDS_MAX, INSTANCES_MAX, RULES, kept

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "IoOpsFilter": {"max_io_ops_per_host": BUILDS_MAX},
    "AggregateIoOpsFilter": {"max_io_ops_per_host": BUILDS_MAX},
    "NumInstancesFilter": {"max_instances_per_host": INSTANCES_MAX},
    "AggregateNumInstancesFilter": {"max_instances_per_host": INSTANCES_MAX},
}
FILTERS: Mapping[str, Filter] = {
    point.name: point.load()(**OPTIONS.get(point.name, {}))
    for point in entry_points(group="berth.filters")
    if point.name in RULES
}
SIZES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "root_gb"}
"""The field of a flavor that holds the amount of a class."""


def query_of(request: Request) -> Query:
    """Return a query with no needs, because these rules read the request alone."""
    return Query(request, Needs({}), NOW_S, None, request.instance_uuids[0])


def kept_rows(rule: Filter, hosts: HostTable, request: Request) -> Rows:
    """Return the rows that a filter keeps."""
    mask = rule.keep(hosts, query_of(request), hosts.all_rows)
    return np.arange(len(hosts)) if mask is None else np.flatnonzero(mask)


def test_every_rule_of_the_model_is_installed() -> None:
    """Every filter of the model is installed under the same name."""
    assert FILTERS.keys() == RULES.keys()


@given(snapshot=tagged_snapshots(least=2), request=tagged_requests())
def test_a_rule_keeps_what_the_model_keeps(snapshot: Snapshot, request: Request) -> None:
    """Each filter keeps exactly the hosts that the model keeps."""
    hosts = table_of(snapshot)
    for name, rule in FILTERS.items():
        rows = kept_rows(rule, hosts, request)
        keys = {(hosts.host(row).name, hosts.host(row).node) for row in rows.tolist()}
        expected = kept(snapshot, request, name)
        how_many = "some" if 0 < len(expected) < len(hosts) else "all" if expected else "none"
        event(f"{name} keeps {how_many}")
        assert (name, keys) == (name, expected)


@given(snapshot=tagged_snapshots(least=2), request=tagged_requests())
def test_what_a_rule_removes_it_explains(snapshot: Snapshot, request: Request) -> None:
    """Every removed host has a reason, and each relaxation wins the hosts that it counts."""
    hosts = table_of(snapshot)
    for rule in FILTERS.values():
        removed = np.setdiff1d(np.arange(len(hosts)), kept_rows(rule, hosts, request))
        assert all(rule.why(hosts, query_of(request), row) for row in removed.tolist())
        if removed.size:
            for relaxation in rule.relax(hosts, query_of(request), removed):
                check_relaxation(rule, hosts, request, removed, relaxation)


def check_relaxation(
    rule: Filter, hosts: HostTable, request: Request, removed: Rows, relaxation: Relaxation
) -> None:
    """Check the hosts of a relaxation against those that the changed request wins."""
    assert 0 < relaxation.hosts <= removed.size
    assert set(relaxation.examples) <= set(hosts.names(removed))
    if relaxation.subject not in SIZES or relaxation.change is None:
        return
    size = SIZES[relaxation.subject]
    changed_size = getattr(request.flavor, size) + relaxation.change
    if changed_size < 0:  # the rest of the disk is ephemeral or swap
        return
    changed = replace(request, flavor=replace(request.flavor, **{size: changed_size}))
    won = np.intersect1d(kept_rows(rule, hosts, changed), removed)
    event(f"{rule.name} relaxed by {'more' if relaxation.change > 0 else 'less'}")
    assert won.size == relaxation.hosts
