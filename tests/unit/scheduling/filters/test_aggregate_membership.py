"""Tests for filters that confine requests to aggregates or exclude them."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.request import Request
from berth.scheduling.filters import aggregate_membership
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask


def aggregate(number: int, *hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate `agg-N`."""
    return Aggregate(number, f"uuid-{number}", f"agg-{number}", frozenset(hosts), metadata)


def of_project(project_id: str) -> Request:
    """Return a request of this project."""
    return replace(asking(), project_id=project_id)


BOXES = [Box("a"), Box("b"), Box("c")]
TENANTS = snapshot_of(
    BOXES,
    aggregates=[
        aggregate(1, "a", filter_tenant_id="p1, p2"),
        aggregate(2, "b", filter_tenant_id_2="p1", other="p3"),
        aggregate(3, filter_tenant_id="empty"),
        aggregate(4, "c", filter_tenant_id=""),
    ],
)


@pytest.mark.parametrize(
    ("project_id", "kept"),
    [
        ("p1", ["a", "b"]),
        ("p2", ["a"]),
        ("empty", []),
        ("p3", ["a", "b", "c"]),
        ("", ["a", "b", "c"]),
    ],
)
def test_a_project_stays_in_its_aggregates(ask: Ask, project_id: str, kept: list[str]) -> None:
    """A project with aggregates is confined to their hosts; other projects may go anywhere."""
    rule = aggregate_membership.build_tenant()
    assert ask(TENANTS, of_project(project_id)).kept(rule) == kept


def test_an_aggregate_may_be_required(ask: Ask) -> None:
    """With the option that requires an aggregate, projects without one get no host."""
    rule = aggregate_membership.build_tenant(placement_aggregate_required_for_tenants=True)
    assert ask(TENANTS, of_project("p2")).kept(rule) == ["a"]
    asked = ask(TENANTS, of_project("p3"))
    assert asked.kept(rule) == []
    assert (
        asked.why(rule, 0)
        == "project p3 has no aggregate (filter_tenant_id), and the policy requires one"
    )


def test_the_tenant_filter_can_be_switched_off(ask: Ask) -> None:
    """The filter is off without Nova's option `limit_tenants_to_placement_aggregate`."""
    rule = aggregate_membership.build_tenant(limit_tenants_to_placement_aggregate=False)
    assert ask(TENANTS, of_project("p1")).kept(rule) is None


def test_the_tenant_filter_names_the_aggregates(ask: Ask) -> None:
    """The reason names the project and its aggregates."""
    rule = aggregate_membership.build_tenant()
    asked = ask(TENANTS, of_project("p1"))
    assert asked.why(rule, 2) == ("project p1 is confined to agg-1, agg-2, and the host is outside")
    assert asked.relaxed(rule, [2]) == [
        ("without the limit of project p1 to its aggregates: 1 host", ("c",))
    ]


ZONES = snapshot_of(
    BOXES,
    aggregates=[
        aggregate(1, "a", availability_zone="az1"),
        aggregate(2, "b", availability_zone="az2,az1"),
        aggregate(3, availability_zone="empty"),
    ],
)
ZONE_RULE = aggregate_membership.build_zone()


@pytest.mark.parametrize(
    ("zone", "kept"),
    [
        ("az1", ["a", "b"]),
        ("az2", ["b"]),
        ("empty", []),
        ("nova", ["a", "b", "c"]),
        ("", None),
        (None, None),
    ],
)
def test_a_zone_is_its_aggregates(ask: Ask, zone: str | None, kept: list[str] | None) -> None:
    """A request is confined to the aggregates of its zone, if any aggregate has that zone."""
    assert ask(ZONES, replace(asking(), availability_zone=zone)).kept(ZONE_RULE) == kept


def test_the_zone_filter_names_both_sides(ask: Ask) -> None:
    """The reason names the zone's aggregates and the host's zones."""
    asked = ask(ZONES, replace(asking(), availability_zone="az2"))
    assert (
        asked.why(ZONE_RULE, 0)
        == "zone az2 consists of the aggregates agg-2, and the host is in az1"
    )
    assert asked.why(ZONE_RULE, 2) == (
        "zone az2 consists of the aggregates agg-2, and the host is in no availability zone"
    )
    assert asked.relaxed(ZONE_RULE, [0, 2]) == [
        ("without the availability zone az2: 2 hosts", ("a", "c"))
    ]


CLOSED = snapshot_of(
    BOXES,
    aggregates=[
        aggregate(1, "a", **{"trait:CUSTOM_GPU": "required", "trait:CUSTOM_OLD": "forbidden"}),
        aggregate(2, "a", "b", **{"trait:CUSTOM_SSD": "required"}),
    ],
)
CLOSED_RULE = aggregate_membership.build_isolated()


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({}, ["c"]),
        ({"trait:CUSTOM_SSD": "required"}, ["b", "c"]),
        ({"trait:CUSTOM_SSD": "required", "trait:CUSTOM_GPU": "required"}, ["a", "b", "c"]),
        ({"trait:CUSTOM_SSD": "forbidden"}, ["c"]),
        ({"trait1:CUSTOM_SSD": "required", "resources1:CUSTOM_DISK": "1"}, ["b", "c"]),
    ],
)
def test_closed_aggregates_want_all_their_traits_required(
    ask: Ask, specs: dict[str, str], kept: list[str]
) -> None:
    """A reserved aggregate needs all its traits required by the request or one of its groups."""
    assert ask(CLOSED, asking(specs=specs)).kept(CLOSED_RULE) == kept


def test_the_isolating_filter_can_be_switched_off(ask: Ask) -> None:
    """The filter is off without Nova's option `enable_isolated_aggregate_filtering`."""
    rule = aggregate_membership.build_isolated(enable_isolated_aggregate_filtering=False)
    assert ask(CLOSED, asking()).kept(rule) is None


def test_the_isolating_filter_names_aggregate_and_trait(ask: Ask) -> None:
    """The reason names each aggregate and the trait that the request does not require."""
    asked = ask(CLOSED, asking())
    assert asked.why(CLOSED_RULE, 0) == (
        "agg-1 is reserved for CUSTOM_GPU, agg-2 is reserved for CUSTOM_SSD, "
        "which the request does not require"
    )
    assert asked.relaxed(CLOSED_RULE, [0, 1]) == [
        ("without the reservation of aggregates for traits: 2 hosts", ("a", "b"))
    ]
