"""Hosts with sane metrics; services up or not."""

import pytest

from berth.domain.compute.host import METRICS_MAX, UNKNOWN_LEVEL, Attestation, Host, Service
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("last_seen_s", "up"),
    [(100.0, True), (40.0, True), (39.9, False), (160.0, True), (160.1, False)],
)
def test_a_service_is_up_while_its_heartbeat_is_fresh(last_seen_s: float, up: bool) -> None:
    """A heartbeat from the future counts by its distance, as clocks may differ."""
    assert Service("h", "1", last_seen_s=last_seen_s).is_up(100.0, 60.0) is up


def test_a_service_forced_down_is_down() -> None:
    """Whatever its heartbeat says."""
    assert not Service("h", "1", forced_down=True, last_seen_s=100.0).is_up(100.0, 60.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_metric_is_a_finite_number(value: float) -> None:
    """A host that does not know one leaves it out."""
    with pytest.raises(InvalidInputError) as caught:
        Host("u", "h", "h", metrics={"x": 1.0, "cpu.percent": value})
    assert caught.value.field == "metrics.cpu.percent"


def test_very_many_metrics_are_refused() -> None:
    """So many as are allowed are taken."""
    metrics = {str(number): 0.0 for number in range(METRICS_MAX)}
    assert len(Host("u", "h", "h", metrics=metrics).metrics) == METRICS_MAX
    with pytest.raises(InvalidInputError, match="too many"):
        Host("u", "h", "h", metrics=metrics | {"one more": 0.0})


@pytest.mark.parametrize(
    ("now_s", "level"), [(0.0, "trusted"), (10.0, "trusted"), (10.1, UNKNOWN_LEVEL)]
)
def test_a_level_runs_out(now_s: float, level: str) -> None:
    """After its last second it is unknown."""
    assert Attestation("trusted", 10.0).level_at(now_s) == level


@pytest.mark.parametrize("end_s", [float("inf"), float("nan")])
def test_an_end_that_is_no_time_is_refused(end_s: float) -> None:
    """Nothing is trusted for ever."""
    with pytest.raises(InvalidInputError, match="valid_until_s"):
        Attestation("trusted", end_s)
