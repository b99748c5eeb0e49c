"""Tests that blocked maxima equal those of a full scan after any changes."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.scheduling.engine.blocks import BlockedScores, Extreme
from berth.tables.columnar.bitsets import Rows

VALUES = st.sampled_from((-np.inf, -np.inf, -1.0, 0.0, 0.5, 0.5, 1.0, 7.0))
LISTS = st.lists(VALUES, max_size=200)
CHANGES = st.lists(st.tuples(st.integers(0, 199), VALUES), max_size=40)


def expected(values: list[float], count: int) -> list[int]:
    """Return the best positions by sorting: greatest first, ties by position."""
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    return [i for i in order if values[i] > -np.inf][:count]


@given(values=LISTS, changes=CHANGES, count=st.integers(1, 8))
def test_the_best_are_those_of_a_sort(
    values: list[float], changes: list[tuple[int, float]], count: int
) -> None:
    """The best positions equal those of a sort, before and after scores change."""
    blocked = BlockedScores(np.array(values, dtype=np.float64))
    assert blocked.best(count) == expected(values, count)
    for index, value in changes:
        if index < len(values):
            values[index] = value
            blocked.put(np.array([index]), np.array([value]))
    assert blocked.best(count) == blocked.best(count) == expected(values, count)


@given(seed=st.integers(0, 2**32), count=st.sampled_from((1, 7, 64, 65, 4_000)))
def test_many_of_the_best_are_those_of_a_sort(seed: int, count: int) -> None:
    """Any number of best positions is found across several blocks."""
    values = Random(seed).choices((-np.inf, -1.0, 0.0, 0.5, 7.0), k=2_500)
    assert BlockedScores(np.array(values)).best(count) == expected(values, count)


@given(values=LISTS, bound=st.sampled_from((-1.0, 0.25, 0.5, 8.0)))
def test_all_above_a_bound_are_found(values: list[float], bound: float) -> None:
    """The positions of scores at or above the bound are returned in ascending order."""
    blocked = BlockedScores(np.array(values, dtype=np.float64))
    assert blocked.at_least(bound).tolist() == [i for i, v in enumerate(values) if v >= bound]


@pytest.mark.parametrize("count", [70_000, 300_000])
def test_many_values_have_longer_blocks_and_the_same_best(count: int) -> None:
    """Ties go to the lowest position for every block length."""
    values = np.zeros(count)
    values[[5, 40_000, count - 1]] = (2.0, 3.0, 3.0)
    assert BlockedScores(values).best(5) == [40_000, count - 1, 5, 0, 1]


@given(values=st.lists(VALUES, min_size=1, max_size=200), changes=CHANGES)
def test_an_extreme_is_the_greatest_of_all(
    values: list[float], changes: list[tuple[int, float]]
) -> None:
    """The extreme equals the maximum after each change of a value."""
    now = np.array(values, dtype=np.float64)

    def values_of(rows: Rows) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return now[rows]

    extreme = Extreme(now.copy(), values_of)
    assert extreme.value == max(values)
    for index, value in changes:
        if index < now.size:
            now[index] = value
            rows = np.array([index])
            extreme.update(rows, {index}, now[rows], value)
            assert extreme.value == now.max()
