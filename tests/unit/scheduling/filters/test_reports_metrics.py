"""Tests for MetricsFilter."""

from berth.scheduling.filters import reports_metrics
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = reports_metrics.build(weight_setting={"cpu.percent": 1.0, "temperature": -0.5})
SNAPSHOT = snapshot_of(
    [
        Box("both", metrics={"cpu.percent": 0.0, "temperature": -3.5, "other": 1.0}),
        Box("one", metrics={"temperature": 40.0}),
        Box("none"),
    ]
)


def test_every_metric_has_to_be_reported(ask: Ask) -> None:
    """A host must report every weighed metric, whatever its value and its ratio."""
    assert ask(SNAPSHOT, asking()).kept(RULE) == ["both"]
    rule = reports_metrics.build(weight_setting={"temperature": 0.0})
    assert ask(SNAPSHOT, asking()).kept(rule) == ["both", "one"]


def test_without_a_setting_there_is_nothing_to_say(ask: Ask) -> None:
    """The filter does not apply without weighed metrics."""
    assert ask(SNAPSHOT, asking()).kept(reports_metrics.build()) is None


def test_the_reason_names_what_is_missing(ask: Ask) -> None:
    """The reason names the missing and the reported metrics."""
    asked = ask(SNAPSHOT, asking())
    assert asked.why(RULE, 1) == "it does not report cpu.percent; it reports temperature"
    assert asked.why(RULE, 2) == "it does not report cpu.percent, temperature; it reports nothing"
    assert asked.relaxed(RULE, [1, 2]) == [
        ("without the metrics cpu.percent, temperature: 2 hosts", ("none", "one"))
    ]
