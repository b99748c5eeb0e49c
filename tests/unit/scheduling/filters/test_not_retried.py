"""Tests for RetryFilter."""

from dataclasses import replace

from berth.scheduling.filters import not_retried
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = not_retried.build()
SNAPSHOT = snapshot_of([Box("a", "n1"), Box("a", "n2"), Box("b")])


def test_no_failed_build_asks_nothing(ask: Ask) -> None:
    """The filter does not apply before a build has failed."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None


def test_host_and_node_have_to_match(ask: Ask) -> None:
    """Only the host and node of a failed build are removed."""
    request = replace(asking(), retried=(("a", "n1"), ("b", "other"), ("gone", "gone")))
    asked = ask(SNAPSHOT, request)
    assert asked.kept(RULE) == ["a", "b"]
    assert asked.why(RULE, 0) == "a build of this request failed there"
    assert asked.relaxed(RULE, [0]) == [
        ("without the exclusion of hosts where a build failed: 1 host", ("a",))
    ]
