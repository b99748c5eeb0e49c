"""Timing: CPU time and wall time, and their medians."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from berth.adapters.system import spare_the_collector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample:
    """The time of one call, in microseconds; CPU time is that of all threads of the process."""

    cpu_us: float
    wall_us: float


@dataclass(frozen=True, slots=True)
class Times:
    """Medians and minima of several samples, in microseconds; `cpu_us` is least disturbed."""

    cpu_us: float
    wall_us: float
    cpu_us_min: float
    wall_us_min: float
    samples: int


def timed(call: Callable[[], T]) -> tuple[T, Sample]:
    """Return the result and the time of a call; the caller collects garbage before it."""
    wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    result = call()
    cpu_ns, wall_ns = time.process_time_ns() - cpu_ns, time.perf_counter_ns() - wall_ns
    return result, Sample(cpu_ns / 1e3, wall_ns / 1e3)


def timed_often(call: Callable[[], object], calls: int) -> Sample:
    """Return the mean time of many calls, for calls of a few microseconds."""

    def all_calls() -> None:
        for _ in range(calls):
            call()

    _, sample = timed(all_calls)
    return Sample(sample.cpu_us / calls, sample.wall_us / calls)


def summarise(samples: Sequence[Sample]) -> Times:
    """Return medians and minima of at least one sample."""
    cpu_us = [sample.cpu_us for sample in samples]
    wall_us = [sample.wall_us for sample in samples]
    return Times(
        cpu_us=round(statistics.median(cpu_us), 3),
        wall_us=round(statistics.median(wall_us), 3),
        cpu_us_min=round(min(cpu_us), 3),
        wall_us_min=round(min(wall_us), 3),
        samples=len(samples),
    )


def middle(samples: Sequence[Sample]) -> Sample:
    """Return the medians of at least one sample, as one sample."""
    return Sample(
        statistics.median(sample.cpu_us for sample in samples),
        statistics.median(sample.wall_us for sample in samples),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` (0 to 1) of the values do not exceed, of at least one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def collect_garbage() -> None:
    """Collect garbage, so it does not count in the next sample.

    The collector is configured as in every process of Berth, because a collection over a million
    hosts takes seconds.
    """
    spare_the_collector()
