"""Medians, minima and percentiles of times."""

import pytest

from bench.timing import Sample, percentile, summarise, timed, timed_often


def test_a_summary_has_medians_and_minima() -> None:
    """A summary has medians, which one disturbed sample does not move, and minima."""
    times = summarise([Sample(1, 10), Sample(2, 20), Sample(900, 9_000)])
    assert (times.cpu_us, times.wall_us) == (2, 20)
    assert (times.cpu_us_min, times.wall_us_min, times.samples) == (1, 10, 3)


def test_timing_hands_back_the_result() -> None:
    """`timed` returns the result of the call and non-negative times."""
    result, sample = timed(lambda: "done")
    assert result == "done"
    assert sample.cpu_us >= 0
    assert sample.wall_us >= 0


def test_many_calls_are_all_made() -> None:
    """`timed_often` makes all calls."""
    calls: list[int] = []
    timed_often(lambda: calls.append(1), 7)
    assert len(calls) == 7


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 3), (0.99, 4), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    """A percentile is one of the values and is not interpolated."""
    assert percentile([4, 2, 1, 3], share) == expected
