"""Tests for what several rules assign to an instance together."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment
from berth.scheduling.evaluation.assignments import assign
from berth.scheduling.filters import fits_resources, gives_groups
from berth.scheduling.rules.rule import Assign, Filter, Query
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import (
    GPU_MILLI,
    NOW_S,
    Box,
    all_filters,
    asking,
    child_uuid,
    gpus,
    policy_of,
    snapshot_of,
)

SHARE = {f"resources1:{GPU_MILLI}": "600"}


def query_of(specs: dict[str, str], count: int = 1) -> Query:
    """Return the query of a request with these extra specs."""
    request = asking(specs=specs, count=count)
    return Query(request, request.needs, NOW_S, None, request.instance_uuids[0])


def giving(assignment: Assignment | None) -> Filter:
    """Return a filter that gives this assignment."""
    give: Assign = lambda _hosts, _query, _row: assignment  # noqa: E731 - a new one each time
    return replace(fits_resources.build(), assign=give)


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of two hosts with two GPUs each."""
    boxes = [Box(name, children=gpus(1000, 1000)) for name in ("a", "b")]
    return table_of(snapshot_of(boxes))


def test_what_rules_assign_is_put_together(hosts: HostTable) -> None:
    """The assignments of several rules are merged, and rules that assign nothing are ignored."""
    one, other = Assignment({"x": {"A": 1}}), Assignment({"x": {"A": 2}})
    plain = replace(fits_resources.build(), assign=None)
    query = query_of({})
    assert assign(hosts, query, 0, [plain, giving(one), giving(None), giving(other)]) == (
        Assignment({"x": {"A": 3}})
    )
    assert assign(hosts, query, 0, [plain]) is None


def test_rules_that_share_a_function_are_asked_once(hosts: HostTable) -> None:
    """Rules with the same assign function are called once."""
    found = assign(hosts, query_of(SHARE), 0, [fits_resources.build(), gives_groups.build()])
    assert found is not None
    assert list(found.allocations.values()) == [{GPU_MILLI: 600}]


def test_groups_need_a_filter_that_knows_them(hosts: HostTable) -> None:
    """A request with groups is refused if no filter assigns groups."""
    with pytest.raises(InvalidInputError, match="add GranularGroupsFilter"):
        assign(hosts, query_of(SHARE), 0, [fits_resources.build()])


def test_each_instance_of_a_request_sees_what_those_before_it_got(hosts: HostTable) -> None:
    """Each instance of a request sees what earlier ones got, and the table is restored."""
    request = query_of(SHARE, count=4).request
    policy = policy_of(weighers=())
    plan = policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=1)
    given = [
        (uuid, dict(amounts))
        for placement in plan.placements
        if placement.assignment is not None
        for uuid, amounts in placement.assignment.allocations.items()
    ]
    expected = [
        (child_uuid(hosts.host(row).uuid, f"GPU {number}"), {GPU_MILLI: 600})
        for row in (0, 1)
        for number in (0, 1)
    ]
    assert given == expected
    assert all(not hosts.trees.used(slot) for row in (0, 1) for slot in hosts.trees.on_row(row))
    more = replace(request, instance_uuids=(*request.instance_uuids, "one more"))
    refused = policy.driver.plan(hosts, more, policy, now_s=NOW_S, seed=1)
    assert refused.refusal is not None
    assert refused.refusal.placed == 4
    removed = {one.name for one in refused.refusal.filters if one.before > one.after}
    assert removed == {"GranularGroupsFilter"}


def test_forced_hosts_have_to_give_groups_too(hosts: HostTable) -> None:
    """GranularGroupsFilter applies to forced hosts."""
    forced = [rule for rule in all_filters() if rule.on_forced]
    assert any(rule.name == gives_groups.NAME for rule in forced)
    query = query_of({f"resources1:{GPU_MILLI}": "1001"})
    verdict = gives_groups.build().keep(hosts, query, np.arange(2))
    assert verdict is not None
    assert not verdict.any()
