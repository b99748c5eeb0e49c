"""Tests for AvailabilityZoneFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.scheduling.filters import in_availability_zone
from berth.testing.fleets import Box, asking, snapshot_of, zone
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        zone("az1", "a", "b", number=1),
        zone("az2, az3", "b", number=2),
        Aggregate(3, "u", "no zone", frozenset({"c"}), {"ssd": "true"}),
    ],
)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (None, None),
        ("", None),
        ("az1", ["a", "b"]),
        ("az3", ["b"]),
        ("az2, az3", []),
        ("AZ1", []),
        ("nova", ["c", "d"]),
        ("nowhere", []),
    ],
)
def test_hosts_of_the_zone_stay(ask: Ask, asked: str | None, kept: list[str] | None) -> None:
    """Hosts in the zone stay; a host in no zone is in the default zone."""
    request = replace(asking(), availability_zone=asked)
    assert ask(SNAPSHOT, request).kept(in_availability_zone.build()) == kept


def test_the_default_zone_is_an_option(ask: Ask) -> None:
    """The default zone is an option and may also be the zone of an aggregate."""
    rule = in_availability_zone.build(default_availability_zone="az1")
    request = replace(asking(), availability_zone="az1")
    assert ask(SNAPSHOT, request).kept(rule) == ["a", "b", "c", "d"]


def test_the_reason_names_both_zones(ask: Ask) -> None:
    """The reason names the host's zones and the requested one."""
    asked = ask(SNAPSHOT, replace(asking(), availability_zone="az9"))
    rule = in_availability_zone.build()
    assert asked.why(rule, 1) == "it is in az1, az2, az3, not in az9"
    assert asked.why(rule, 3) == "it is in nova, not in az9"
    assert asked.relaxed(rule, [3, 0]) == [
        ("without the availability zone az9: 2 hosts", ("a", "d"))
    ]
