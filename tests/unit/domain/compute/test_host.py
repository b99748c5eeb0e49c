"""Tests for host metrics, service heartbeats and attestation levels."""

import pytest

from berth.domain.compute.host import METRICS_MAX, UNKNOWN_LEVEL, Attestation, Host, Service
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("last_seen_s", "up"),
    [(100.0, True), (40.0, True), (39.9, False), (160.0, True), (160.1, False)],
)
def test_a_service_is_up_while_its_heartbeat_is_fresh(last_seen_s: float, up: bool) -> None:
    """A service is up while its heartbeat is at most 60 seconds in the past or in the future."""
    assert Service("h", "1", last_seen_s=last_seen_s).is_up(100.0, 60.0) is up


def test_a_service_forced_down_is_down() -> None:
    """A service that is forced down is down even with a fresh heartbeat."""
    assert not Service("h", "1", forced_down=True, last_seen_s=100.0).is_up(100.0, 60.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_metric_is_a_finite_number(value: float) -> None:
    """A metric that is NaN or infinite is refused."""
    with pytest.raises(InvalidInputError) as caught:
        Host("u", "h", "h", metrics={"x": 1.0, "cpu.percent": value})
    assert caught.value.field == "metrics.cpu.percent"


def test_very_many_metrics_are_refused() -> None:
    """A host may have METRICS_MAX metrics; one more is refused."""
    metrics = {str(number): 0.0 for number in range(METRICS_MAX)}
    assert len(Host("u", "h", "h", metrics=metrics).metrics) == METRICS_MAX
    with pytest.raises(InvalidInputError, match="too many"):
        Host("u", "h", "h", metrics=metrics | {"one more": 0.0})


@pytest.mark.parametrize(
    ("now_s", "level"), [(0.0, "trusted"), (10.0, "trusted"), (10.1, UNKNOWN_LEVEL)]
)
def test_a_level_runs_out(now_s: float, level: str) -> None:
    """An attestation keeps its level until it expires and is unknown afterwards."""
    assert Attestation("trusted", 10.0).level_at(now_s) == level


@pytest.mark.parametrize("end_s", [float("inf"), float("nan")])
def test_an_end_that_is_no_time_is_refused(end_s: float) -> None:
    """An attestation must expire at a finite time."""
    with pytest.raises(InvalidInputError, match="valid_until_s"):
        Attestation("trusted", end_s)
