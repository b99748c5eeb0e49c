"""Tests for IoOpsFilter, NumInstancesFilter and their variants for aggregates."""

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.instance import Task
from berth.scheduling.filters.below_host_limits import (
    build_aggregate_io_ops,
    build_aggregate_num_instances,
    build_io_ops,
    build_num_instances,
)
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

A, B, C = Box("a"), Box("b"), Box("c")
INSTANCES = [
    resident("a1", A, task=Task.SPAWNING),
    resident("a2", A, task=Task.SPAWNING),
    resident("a3", A),
    resident("b1", B, task=Task.SPAWNING),
]
AGGREGATES = [
    Aggregate(1, "u1", "one", frozenset("ab"), {"max_io_ops_per_host": "2"}),
    Aggregate(2, "u2", "two", frozenset("b"), {"max_io_ops_per_host": "1"}),
    Aggregate(3, "u3", "odd", frozenset("bc"), {"max_io_ops_per_host": "lots"}),
    Aggregate(4, "u4", "few", frozenset("ac"), {"max_instances_per_host": "3"}),
]
FLEET = snapshot_of([A, B, C], instances=INSTANCES, aggregates=AGGREGATES)


@pytest.mark.parametrize(
    ("limit", "kept"), [(0, []), (1, ["c"]), (2, ["b", "c"]), (3, list("abc"))]
)
def test_builds_stay_below_the_limit(ask: Ask, limit: int, kept: list[str]) -> None:
    """A host passes while it builds fewer instances than the limit."""
    rule = build_io_ops(max_io_ops_per_host=limit)
    assert ask(FLEET, asking()).kept(rule) == kept


@pytest.mark.parametrize(("limit", "kept"), [(1, ["c"]), (2, ["b", "c"]), (4, list("abc"))])
def test_instances_stay_below_the_limit(ask: Ask, limit: int, kept: list[str]) -> None:
    """A host passes while it has fewer instances than the limit."""
    rule = build_num_instances(max_instances_per_host=limit)
    assert ask(FLEET, asking()).kept(rule) == kept


def test_defaults_are_those_of_nova() -> None:
    """The default limits are those of Nova."""
    assert build_io_ops().options == {"max_io_ops_per_host": 8}
    assert build_aggregate_io_ops().options == {"max_io_ops_per_host": 8}
    assert build_num_instances().options == {"max_instances_per_host": 50}
    assert build_aggregate_num_instances().options == {"max_instances_per_host": 50}


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    """A limit below its minimum is refused."""
    with pytest.raises(ValueError, match="max_instances_per_host: 0 must be at least 1"):
        build_num_instances(max_instances_per_host=0)
    with pytest.raises(ValueError, match="max_io_ops_per_host: -1 must be at least 0"):
        build_aggregate_io_ops(max_io_ops_per_host=-1)


def test_the_least_number_of_the_aggregates_holds(ask: Ask) -> None:
    """The least number of a host's aggregates applies, or the option if there is none."""
    asked = ask(FLEET, asking())
    assert asked.kept(build_aggregate_io_ops(max_io_ops_per_host=1)) == ["c"]
    assert asked.kept(build_aggregate_io_ops(max_io_ops_per_host=0)) == []
    few = build_aggregate_num_instances(max_instances_per_host=1)
    assert asked.kept(few) == ["c"]
    assert asked.kept(build_aggregate_num_instances()) == ["b", "c"]


def test_the_reason_names_count_limit_and_aggregate(ask: Ask) -> None:
    """The reason names the count, the limit and the aggregate that sets it."""
    asked = ask(FLEET, asking())
    builds = build_aggregate_io_ops()
    assert asked.why(build_io_ops(max_io_ops_per_host=1), 1) == (
        "its disks are loaded by 1 instance, and max_io_ops_per_host is 1"
    )
    assert asked.why(builds, 1) == (
        "its disks are loaded by 1 instance, and max_io_ops_per_host is 1 in aggregate two"
    )
    assert asked.why(build_aggregate_num_instances(), 0) == (
        "it has 3 instances, and max_instances_per_host is 3 in aggregate few"
    )


def test_the_smallest_raise_is_told(ask: Ask) -> None:
    """The relaxation names the smallest raise of the limit and the hosts that it wins."""
    asked = ask(FLEET, asking())
    one = build_io_ops(max_io_ops_per_host=1)
    assert asked.relaxed(one, [0, 1]) == [("max_io_ops_per_host raised by 1: 1 host", ("b",))]
    by_aggregate = build_aggregate_io_ops()
    assert asked.relaxed(by_aggregate, [0, 1]) == [
        ("max_io_ops_per_host raised by 1: 2 hosts", ("a", "b"))
    ]


def test_a_limit_need_not_be_whole(ask: Ask) -> None:
    """A limit of 2.5 allows two instances before the next one."""
    half = Aggregate(1, "u1", "one", frozenset("ab"), {"max_instances_per_host": "2.5"})
    asked = ask(snapshot_of([A, B, C], instances=INSTANCES, aggregates=[half]), asking())
    rule = build_aggregate_num_instances()
    assert asked.kept(rule) == ["b", "c"]
    assert asked.why(rule, 0) == (
        "it has 3 instances, and max_instances_per_host is 2.50 in aggregate one"
    )
    assert asked.relaxed(rule, [0]) == [("max_instances_per_host raised by 1: 1 host", ("a",))]


def test_consumption_changes_the_verdict() -> None:
    """The filters run for each instance of a request."""
    for build in (build_io_ops, build_num_instances, build_aggregate_io_ops):
        assert not build().once_per_request
