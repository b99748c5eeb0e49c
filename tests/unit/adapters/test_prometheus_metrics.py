"""Metrics in the exposition format of Prometheus."""

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from berth.adapters.metrics_prometheus import PrometheusMetrics
from berth.ports.measures import (
    CLAIMS,
    COMMIT_UNITS,
    COUNTED,
    DECISION_SECONDS,
    GAUGES,
    HOSTS,
    HTTP_REQUESTS,
    RETRIES,
)
from berth.ports.telemetry import MetricType, Reading


async def samples_of(metrics: PrometheusMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the exposed values by name and label values."""
    text = (await metrics.expose()).decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def test_a_counter_adds_up_by_labels() -> None:
    """Each combination of labels has its own series."""
    metrics = PrometheusMetrics()
    metrics.add(CLAIMS, ("committed",))
    metrics.add(CLAIMS, ("committed",), 2)
    metrics.add(CLAIMS, ("stale",))
    found = await samples_of(metrics)
    assert found["berth_claims_total", ("committed",)] == 3
    assert found["berth_claims_total", ("stale",)] == 1
    assert metrics.counted(CLAIMS) == {("committed",): 3, ("stale",): 1}


async def test_series_without_labels_begin_at_zero() -> None:
    """A counter or histogram without labels is exposed before its first event."""
    metrics = PrometheusMetrics()
    found = await samples_of(metrics)
    assert found["berth_claim_retries_total", ()] == 0
    assert found["berth_ledger_commit_units_count", ()] == 0
    assert found["berth_ledger_commit_units_bucket", ("+Inf",)] == 0
    metrics.add(RETRIES)
    metrics.observe(COMMIT_UNITS, 3)
    found = await samples_of(metrics)
    assert found["berth_claim_retries_total", ()] == 1
    assert found["berth_ledger_commit_units_count", ()] == 1


async def test_a_histogram_counts_and_sums() -> None:
    """A histogram exposes its count, its sum and its buckets."""
    metrics = PrometheusMetrics()
    for seconds in (0.0002, 0.02):
        metrics.observe(DECISION_SECONDS, seconds, ("create",))
    found = await samples_of(metrics)
    assert found["berth_decision_seconds_count", ("create",)] == 2
    assert found["berth_decision_seconds_sum", ("create",)] == 0.0202
    assert found["berth_decision_seconds_bucket", ("0.00025", "create")] == 1


async def test_a_measure_has_a_limited_number_of_series() -> None:
    """Label values beyond the limit are counted together as `other`, so memory is bounded."""
    metrics = PrometheusMetrics(series_max=10)
    for number in range(1000):
        metrics.add(HTTP_REQUESTS, ("GET", f"/{number}", "2xx"))
    found = await samples_of(metrics)
    counts = {labels: n for (name, labels), n in found.items() if name == HTTP_REQUESTS.name}
    assert len(counts) == 11
    assert counts["other", "other", "other"] == 990


async def test_gauges_are_read_when_somebody_looks() -> None:
    """A gauge is read at each exposition and not in between."""
    metrics = PrometheusMetrics()
    looks = 0

    async def read() -> Sequence[Reading]:
        nonlocal looks
        looks += 1
        return [Reading(HOSTS, looks, ("up",)), Reading(HOSTS, 0, ("down",))]

    metrics.watch(read)
    assert looks == 0
    assert (await samples_of(metrics))["berth_hosts", ("up",)] == 1
    assert (await samples_of(metrics))["berth_hosts", ("up",)] == 2


def test_names_say_shape_and_unit() -> None:
    """Names begin with `berth_`, counters end in `_total`, and only histograms have bounds."""
    names = [measure.name for measure in (*COUNTED, *GAUGES)]
    assert len(names) == len(set(names))
    for measure in (*COUNTED, *GAUGES):
        assert measure.name.startswith("berth_")
        assert (measure.shape is MetricType.COUNTER) == measure.name.endswith("_total")
        assert (measure.shape is MetricType.HISTOGRAM) == bool(measure.bounds)
        assert list(measure.bounds) == sorted(measure.bounds)
