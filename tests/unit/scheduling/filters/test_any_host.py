"""Tests for AllHostsFilter, which keeps every host."""

from berth.scheduling.filters import any_host
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask


def test_it_has_nothing_to_say(ask: Ask) -> None:
    """The filter never applies and gives no relaxation."""
    rule = any_host.build()
    assert ask(snapshot_of([Box("a")]), asking()).kept(rule) is None
    assert ask(snapshot_of([Box("a")]), asking()).relaxed(rule, [0]) == []
