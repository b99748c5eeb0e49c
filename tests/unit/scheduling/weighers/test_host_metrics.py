"""Tests for MetricsWeigher."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.scheduling.weighers import host_metrics
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of(
    [
        Box("a", metrics={"cpu.percent": 0.5, "temperature": 40.0}),
        Box("b", metrics={"cpu.percent": 0.25}),
        Box("c"),
    ]
)


def test_metrics_add_up_in_their_ratios(ask: Ask) -> None:
    """The value is the weighted sum of metrics; a missing metric gives a fixed low value."""
    asked = ask(SNAPSHOT, asking())
    weigher = host_metrics.build(weight_setting={"cpu.percent": -2.0, "temperature": 0.1})
    assert asked.raw(weigher) == [3.0, -10_000.0, -10_000.0]
    assert asked.shares(weigher) == [(1 + 3 / 4) / 2, 0.0, 0.0]
    weigher = host_metrics.build(weight_setting={"cpu.percent": -2.0}, weight_of_unavailable=7.0)
    assert asked.raw(weigher) == [-1.0, -0.5, 7.0]
    assert asked.shares(weigher) == pytest.approx([1 / 4, 1 / 3, 0.0])


def test_a_metric_without_a_ratio_is_not_missed(ask: Ask) -> None:
    """A metric with a ratio of 0 may be missing, as in Nova."""
    asked = ask(SNAPSHOT, asking())
    weigher = host_metrics.build(weight_setting={"cpu.percent": 1.0, "temperature": 0.0})
    assert asked.raw(weigher) == [0.5, 0.25, -10_000.0]


def test_a_host_is_not_marked_down_where_the_weigher_is_off(ask: Ask) -> None:
    """A missing metric does not count where the multiplier is 0, as in Nova."""
    both = {"cpu.percent": 2.0, "temperature": 0.1}
    off = host_metrics.build(multiplier=0.0, weight_setting=both)
    assert ask(SNAPSHOT, asking()).raw(off) == [5.0, 0.5, 0.0]
    aggregates = [
        Aggregate(1, "1", "off", frozenset("b"), {"metrics_weight_multiplier": "0"}),
        Aggregate(2, "2", "on", frozenset("c"), {"metrics_weight_multiplier": "2"}),
    ]
    asked = ask(replace(SNAPSHOT, aggregates=tuple(aggregates)), asking())
    assert asked.raw(host_metrics.build(weight_setting=both)) == [5.0, 0.5, -10_000.0]
    assert asked.raw(off) == [5.0, 0.5, -10_000.0]


def test_the_share_has_a_scale(ask: Ask) -> None:
    """The share has a scale, which must be above 0."""
    asked = ask(SNAPSHOT, asking())
    weigher = host_metrics.build(weight_setting={"temperature": 1.0}, scale=40.0)
    assert asked.shares(weigher) == [3 / 4, 0.0, 0.0]
    with pytest.raises(ValueError, match="scale"):
        host_metrics.build(scale=0.0)


def test_without_settings_it_stands_aside(ask: Ask) -> None:
    """Without weighed metrics the weigher does not apply."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(host_metrics.build()) is None
    assert asked.shares(host_metrics.build(weight_setting={"temperature": 0.0})) is None


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova."""
    weigher = host_metrics.build()
    assert (weigher.name, weigher.multiplier) == ("MetricsWeigher", 1.0)
    assert weigher.multiplier_key == "metrics_weight_multiplier"
