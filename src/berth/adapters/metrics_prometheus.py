"""The metrics of a process, in the text format of Prometheus."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from berth.ports.measures import COUNTED
from berth.ports.telemetry import Measure, MetricType, Reading

# One measure has at most about this many series. Further label values are counted as `other`, so
# that no client can make the process use ever more memory.
_SERIES_MAX: Final = 500
_OTHER: Final = "other"

S = TypeVar("S")
_Labels = tuple[str, ...]
Read = Callable[[], Awaitable[Sequence[Reading]]]


@dataclass(slots=True)
class _Observed:
    """The observations of one series: their number in each bucket, and their sum."""

    counts: list[int]
    total: float = 0.0


class PrometheusMetrics:
    """Keeps the metrics of one process; see the ports `Metrics` and `Exposition`.

    Each series must be updated by one thread only, so that counting needs no lock; a lock would
    cost more than the counting itself. The exposition also contains the memory, the CPU time and
    the open files of the process.

    Args:
        series_max: the number of series after which a measure counts new label values as `other`.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, *, series_max: int = _SERIES_MAX) -> None:
        self._series_max = series_max
        self._read: Read | None = None
        self._kept = _Kept()
        self._counted, self._observed = self._kept.counted, self._kept.observed
        self._registry = CollectorRegistry()
        self._registry.register(self._kept)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def add(self, measure: Measure, labels: _Labels = (), amount: float = 1.0) -> None:
        """See `Metrics.add`."""
        series = self._counted[measure]
        if labels not in series:
            labels = self._bounded(len(series), labels)
        series[labels] = series.get(labels, 0.0) + amount

    def observe(self, measure: Measure, value: float, labels: _Labels = ()) -> None:
        """See `Metrics.observe`."""
        series = self._observed[measure]
        found = series.get(labels)
        if found is None:
            labels = self._bounded(len(series), labels)
            found = series.setdefault(labels, _nothing_observed(measure))
        found.counts[bisect_left(measure.bounds, value)] += 1
        found.total += value

    def counted(self, measure: Measure) -> Mapping[tuple[str, ...], float]:
        """Return the values of a counter by the values of its labels."""
        return self._counted[measure]

    def watch(self, read: Read) -> None:
        """Register the function that reads the gauges at each exposition."""
        self._read = read

    async def expose(self) -> bytes:
        """See `Exposition.expose`."""
        if self._read is not None:
            self._kept.readings = await self._read()
        return generate_latest(self._registry)

    def _bounded(self, known: int, labels: _Labels) -> _Labels:
        return (_OTHER,) * len(labels) if known >= self._series_max else labels


def _nothing_observed(measure: Measure) -> _Observed:
    return _Observed([0] * (len(measure.bounds) + 1))


class _Kept(Collector):
    """The collected values, as a collector of Prometheus's client library."""

    def __init__(self) -> None:
        self.readings: Sequence[Reading] = ()
        self.counted = _series_of(MetricType.COUNTER, dict[_Labels, float])
        self.observed = _series_of(MetricType.HISTOGRAM, dict[_Labels, _Observed])
        # A series that appears with its first event has no rate at that time, so those whose labels
        # are known appear at once.
        for measure in COUNTED:
            if measure.labels:
                continue
            if measure.shape is MetricType.COUNTER:
                self.counted[measure][()] = 0.0
            else:
                self.observed[measure][()] = _nothing_observed(measure)

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics."""
        for measure, counts in self.counted.items():
            counter = CounterMetricFamily(measure.name, measure.text, labels=measure.labels)
            # The series are copied, because other threads may add some in the meantime.
            for labels, amount in tuple(counts.items()):
                counter.add_metric(labels, amount)
            yield counter
        for measure, series in self.observed.items():
            histogram = HistogramMetricFamily(measure.name, measure.text, labels=measure.labels)
            for labels, found in tuple(series.items()):
                histogram.add_metric(labels, _buckets_of(measure, found.counts), found.total)
            yield histogram
        yield from _gauges_of(self.readings)


def _series_of(shape: MetricType, kind: Callable[[], S]) -> dict[Measure, S]:
    return {measure: kind() for measure in COUNTED if measure.shape is shape}


def _buckets_of(measure: Measure, counts: Sequence[int]) -> list[tuple[str, float]]:
    names = [*map(str, measure.bounds), "+Inf"]
    return list(zip(names, map(float, accumulate(counts)), strict=True))


def _gauges_of(readings: Iterable[Reading]) -> Iterable[Metric]:
    families: dict[Measure, GaugeMetricFamily] = {}
    for measure, value, labels in readings:
        family = families.get(measure)
        if family is None:
            family = GaugeMetricFamily(measure.name, measure.text, labels=measure.labels)
            families[measure] = family
        family.add_metric(labels, value)
    return families.values()
