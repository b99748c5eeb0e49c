"""Tests for ComputeFilter."""

from dataclasses import replace

import pytest

from berth.domain.ledger.change import Snapshot
from berth.scheduling.filters import service_is_up
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

BOXES = (
    Box("up"),
    Box("edge", silent_s=60.0),
    Box("silent", silent_s=60.5),
    Box("ahead", silent_s=-61.0),
    Box("disabled", disabled=True),
    Box("forced", forced_down=True),
    Box("both", disabled=True, silent_s=500.0),
    Box("unknown"),
)


@pytest.fixture
def snapshot() -> Snapshot:
    """Return a snapshot with a host in each state; the last host has no service."""
    snapshot = snapshot_of(BOXES)
    return replace(snapshot, services=snapshot.services[1:])


def test_hosts_that_are_up_and_enabled_stay(ask: Ask, snapshot: Snapshot) -> None:
    """Hosts stay if enabled and with a heartbeat at most `service_down_time_s` from now."""
    asked = ask(snapshot, asking())
    assert asked.kept(service_is_up.build()) == ["up", "edge"]
    patient = service_is_up.build(service_down_time_s=61.0)
    assert asked.kept(patient) == ["up", "edge", "silent", "ahead"]


def test_each_state_has_its_reason(ask: Ask, snapshot: Snapshot) -> None:
    """The reason names the state of the service."""
    asked, rule = ask(snapshot, asking()), service_is_up.build()
    assert asked.why(rule, 2) == "its last heartbeat was 60 s ago"
    assert asked.why(rule, 4) == "its service is disabled (no reason given)"
    assert asked.why(rule, 5) == "its service was forced down"
    assert asked.why(rule, 7) == "it has no compute service"


def test_what_would_help_is_told_apart(ask: Ask, snapshot: Snapshot) -> None:
    """A host that is both disabled and silent is counted separately."""
    asked, rule = ask(snapshot, asking()), service_is_up.build()
    assert asked.relaxed(rule, [2, 3, 4, 5, 6, 7]) == [
        ("1 more compute service enabled", ("disabled",)),
        ("3 more compute services up", ("ahead", "forced", "silent")),
        ("2 more compute services enabled and up", ("both", "unknown")),
    ]


def test_it_says_that_it_reads_the_time() -> None:
    """The filter declares that it reads the time."""
    assert service_is_up.build().reads.request == ("now_s",)
