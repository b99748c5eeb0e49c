"""Aggregates and their availability zones."""

import pytest

from berth.domain.compute.aggregate import Aggregate


@pytest.mark.parametrize(
    ("text", "zones"),
    [("az1", {"az1"}), ("az1, az2", {"az1", "az2"}), (" ,", set()), ("", set()), ("a b", {"a b"})],
)
def test_zones_are_a_comma_list(text: str, zones: set[str]) -> None:
    """Blanks around names and empty names do not count."""
    assert Aggregate(1, "u", "n", metadata={"availability_zone": text}).availability_zones == zones


def test_an_aggregate_without_the_key_is_in_no_zone() -> None:
    """Other metadata makes no zone."""
    assert Aggregate(1, "u", "n", metadata={"ssd": "true"}).availability_zones == frozenset()
