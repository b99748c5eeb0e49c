"""Shares: any numbers come out in [0, 1], in their order."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.scheduling.rules.shares import check_scale, filled, part, tilted

NUMBERS = st.lists(st.floats(allow_nan=False), min_size=2, max_size=6).map(np.array)
SCALES = st.floats(1e-6, 1e12)
ROUNDING = 1e-15
"""Two shares near 1 may differ in the last bit, either way."""


@given(free=NUMBERS, whole=st.floats(-5.0, 1e300))
def test_a_part_is_between_nothing_and_all(free: np.ndarray, whole: float) -> None:
    """Less than nothing is nothing; where there is no whole there is no part."""
    with np.errstate(over="ignore", invalid="ignore"):
        shares = part(free, np.full(free.size, whole))
    assert ((shares >= 0) & (shares <= 1)).all()
    if whole <= 0:
        assert not shares.any()


def test_a_part_is_exact() -> None:
    """Integers are divided as numbers."""
    free, whole = np.array([3, -1, 0, 5, 1]), np.array([4, 4, 0, 4, 0])
    assert part(free, whole).tolist() == [0.75, 0.0, 0.0, 1.0, 0.0]


@given(counts=st.lists(st.integers(-5, 2**53), min_size=1).map(np.array), scale=SCALES)
def test_filled_rises_from_0_towards_1(counts: np.ndarray, scale: float) -> None:
    """More never counts less."""
    shares = filled(np.sort(counts), scale)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (np.diff(shares) >= -ROUNDING).all()
    assert filled(np.array([scale, 0.0]), scale).tolist() == [0.5, 0.0]


@given(values=NUMBERS, scale=SCALES)
def test_tilted_rises_from_0_to_1(values: np.ndarray, scale: float) -> None:
    """More never counts less, infinities too."""
    shares = tilted(np.sort(values), scale)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (np.diff(shares) >= -ROUNDING).all()


def test_tilted_is_a_half_at_0() -> None:
    """And what is no number is the least."""
    shares = tilted(np.array([0.0, 2.0, -2.0, math.nan]), 2.0)
    assert shares.tolist() == [0.5, 0.75, 0.25, 0.0]


def test_a_scale_is_above_0() -> None:
    """The message names the option."""
    assert check_scale(0.5) == 0.5
    with pytest.raises(ValueError, match=r"builds: 0\.0 must be above 0"):
        check_scale(0.0, "builds")
