"""Tests for host metrics, which become arrays when they are first read."""

import numpy as np

from berth.tables.host.feed import table_of
from berth.tables.host.host_metrics import HostMetrics
from berth.testing.fleets import Box, snapshot_of


def test_values_are_those_that_hosts_report() -> None:
    """A row has the value that its host reports, or NaN."""
    hosts = table_of(
        snapshot_of([Box("a", metrics={"x": 1.5}), Box("b"), Box("c", metrics={"y": 2.0})])
    )
    np.testing.assert_array_equal(hosts.metrics.values("x", hosts.all_rows), [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(hosts.metrics.values("y", np.array([2, 0])), [2.0, np.nan])
    assert np.isnan(hosts.metrics.values("z", hosts.all_rows)).all()


def test_a_metric_that_was_read_follows_later_reports() -> None:
    """Values of a metric that was read follow later reports, which replace former metrics."""
    metrics = HostMetrics(2)
    metrics.put(0, {"x": 1.0})
    both = np.array([0, 1])
    np.testing.assert_array_equal(metrics.values("x", both), [1.0, np.nan])
    metrics.put(1, {"x": 2.0, "y": 3.0})
    metrics.put(0, {})
    np.testing.assert_array_equal(metrics.values("x", both), [np.nan, 2.0])
    np.testing.assert_array_equal(metrics.values("y", both), [np.nan, 3.0])


def test_growing_keeps_values() -> None:
    """New rows have NaN, and old rows keep their values."""
    metrics = HostMetrics(1)
    metrics.put(0, {"x": 1.0})
    metrics.values("x", np.array([0]))
    metrics.resize(3)
    metrics.put(2, {"x": 4.0})
    np.testing.assert_array_equal(metrics.values("x", np.array([0, 1, 2])), [1.0, np.nan, 4.0])


def test_a_host_that_goes_takes_its_metrics_along() -> None:
    """A removed host's metrics are not visible in its row, even after the row is reused."""
    hosts = table_of(snapshot_of([Box("a", metrics={"x": 1.0})]))
    assert hosts.metrics.values("x", hosts.all_rows).tolist() == [1.0]
    hosts.remove_host("a/a")
    assert np.isnan(hosts.metrics.values("x", hosts.all_rows)).all()
    hosts.put_host(Box("b").host)
    assert np.isnan(hosts.metrics.values("x", hosts.all_rows)).all()


def test_new_metrics_are_recorded_as_a_change_of_the_host() -> None:
    """A change of metrics is recorded in the journal as a change of the host."""
    hosts = table_of(snapshot_of([Box("a", metrics={"x": 1.0})]))
    before = hosts.journal.position("host")
    hosts.put_host(Box("a", metrics={"x": 2.0}).host)
    assert hosts.journal.since("host", before) == [0]
    assert hosts.metrics.values("x", hosts.all_rows).tolist() == [2.0]
