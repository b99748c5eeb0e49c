"""Tests for measures, which give the same values for one host and for many."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.scheduling.rules.measure import (
    ARRAYS,
    NUMBERS,
    BoundMeasure,
    Computed,
    Rule,
    check_scale,
    constant,
    filled,
    part,
    tilted,
)
from berth.scheduling.rules.rule import Query
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, asking

VALUES = st.lists(st.floats(allow_nan=False), min_size=2, max_size=6).map(np.array)
SCALES = st.floats(1e-6, 1e12)
ROUNDING = 1e-15
"""The tolerance for shares near 1, which may differ in the last bit."""


@given(free=VALUES, whole=st.floats(-5.0, 1e300))
def test_a_part_is_between_nothing_and_all(free: np.ndarray, whole: float) -> None:
    """A part is between 0 and 1, and 0 if the whole is not positive."""
    with np.errstate(over="ignore", invalid="ignore"):
        wholes = np.full(free.size, whole)
        shares = part(ARRAYS, free, wholes)
    assert ((shares >= 0) & (shares <= 1)).all()
    if whole <= 0:
        assert not shares.any()


def test_a_part_is_exact() -> None:
    """Integers are divided exactly."""
    free, whole = np.array([3, -1, 0, 5, 1]), np.array([4, 4, 0, 4, 0])
    assert part(ARRAYS, free, whole).tolist() == [0.75, 0.0, 0.0, 1.0, 0.0]


@given(counts=st.lists(st.integers(-5, 2**53), min_size=1).map(np.array), scale=SCALES)
def test_filled_rises_from_0_towards_1(counts: np.ndarray, scale: float) -> None:
    """`filled` rises monotonically from 0 towards 1 and is 1/2 at the scale."""
    shares = filled(ARRAYS, np.sort(counts), scale)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (np.diff(shares) >= -ROUNDING).all()
    assert filled(ARRAYS, np.array([scale, 0.0]), scale).tolist() == [0.5, 0.0]


@given(values=VALUES, scale=SCALES)
def test_tilted_rises_from_0_to_1(values: np.ndarray, scale: float) -> None:
    """`tilted` rises monotonically within [0, 1], even for infinities."""
    shares = tilted(np.sort(values), scale)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (np.diff(shares) >= -ROUNDING).all()


def test_tilted_is_a_half_at_0() -> None:
    """`tilted` is 1/2 at 0, and 0 for NaN."""
    shares = tilted(np.array([0.0, 2.0, -2.0, math.nan]), 2.0)
    assert shares.tolist() == [0.5, 0.75, 0.25, 0.0]


def test_a_scale_is_above_0() -> None:
    """A scale must be above 0."""
    assert check_scale(0.5) == 0.5
    with pytest.raises(ValueError, match=r"builds: 0\.0 must be above 0"):
        check_scale(0.0, "builds")


NUMBER = st.floats(-1e300, 1e300) | st.integers(-(2**53), 2**53)


@given(value=NUMBER, other=NUMBER)
def test_numbers_and_arrays_have_one_arithmetic(value: float, other: float) -> None:
    """The operations for numbers and for arrays give identical results."""
    one, many = np.array([value]), np.array([other])
    with np.errstate(over="ignore"):
        assert NUMBERS.least(value, other) == ARRAYS.least(one, many)[0]
        assert NUMBERS.greatest(value, other) == ARRAYS.greatest(one, many)[0]
        assert NUMBERS.ratio(value, other, 0.5) == ARRAYS.ratio(one, many, 0.5)[0]
        assert NUMBERS.rounded(value) == ARRAYS.rounded(one)[0]


def test_halves_are_rounded_to_even() -> None:
    """Halves are rounded to even in both forms."""
    halves = [0.5, 1.5, 2.5, -0.5]
    assert [NUMBERS.rounded(one) for one in halves] == ARRAYS.rounded(np.array(halves)).tolist()


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_few_rows_many_rows_and_one_row_agree(columns: int) -> None:
    """A measure gives equal values for one row, few rows and many rows."""
    made = [np.arange(40.0) * (number + 1) for number in range(columns)]
    measure = BoundMeasure(made, lambda ops, *values: ops.ratio(sum(values), values[0], -1.0))
    everyone = measure.of_rows(slice(0, 40))
    read = measure.of_row()
    assert [read(row) for row in range(40)] == everyone.tolist()
    assert measure.of_rows(np.array([7, 0])).tolist() == everyone[[7, 0]].tolist()
    assert measure.of_rows(slice(0, 3)).tolist() == everyone[:3].tolist()


def test_a_column_may_be_computed() -> None:
    """A computed column is read by rows or with its own function for one row."""
    column = Computed(lambda rows: np.arange(9)[rows] * 2)
    assert BoundMeasure((column,)).of_row()(4) == 8.0
    assert BoundMeasure((Computed(column.of, lambda row: row * 2),)).of_row()(4) == 8.0
    assert constant(0.25).of_rows(slice(0, 3)).tolist() == [0.25, 0.25, 0.25]
    assert constant(0.25).of_row()(1) == 0.25


def test_a_rule_may_not_apply() -> None:
    """A rule that does not apply has no values, nor do rules derived from it."""
    query = Query(asking(), asking().needs, NOW_S, None, "new-0")
    silent = Rule(lambda _hosts, _query: None)
    for rule in (silent, silent.then(lambda _, value: value + 1)):
        assert rule(HostTable(), query, slice(0, 0)) is None
        assert math.isnan(rule.of_row(HostTable(), query)(0))


def test_a_formula_may_follow_another() -> None:
    """Derived rules receive the value of the previous rule."""
    query = Query(asking(), asking().needs, NOW_S, None, "new-0")
    plain = Rule(lambda _hosts, _query: BoundMeasure((np.array([1.0, 2.0]),)))
    doubled = plain.then(lambda _, value: value * 2)
    more = doubled.then(lambda _, value: value + 1)
    assert more.of_row(HostTable(), query)(1) == 5.0
    found = more(HostTable(), query, np.array([1, 0]))
    assert found is not None
    assert found.tolist() == [5.0, 3.0]
