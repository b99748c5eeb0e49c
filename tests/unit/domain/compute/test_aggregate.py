"""Tests for aggregates and their availability zones."""

import pytest

from berth.domain.compute.aggregate import Aggregate


@pytest.mark.parametrize(
    ("text", "zones"),
    [("az1", {"az1"}), ("az1, az2", {"az1", "az2"}), (" ,", set()), ("", set()), ("a b", {"a b"})],
)
def test_zones_are_a_comma_list(text: str, zones: set[str]) -> None:
    """Availability zones are split at commas; surrounding blanks and empty names are ignored."""
    assert Aggregate(1, "u", "n", metadata={"availability_zone": text}).availability_zones == zones


def test_an_aggregate_without_the_key_is_in_no_zone() -> None:
    """An aggregate whose metadata lacks `availability_zone` is in no zone."""
    assert Aggregate(1, "u", "n", metadata={"ssd": "true"}).availability_zones == frozenset()
