"""Tests for column sets, whose arrays grow together."""

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.column_set import ColumnSet, grown
from berth.tables.columnar.schema import Column


class Pairs(ColumnSet):
    """A column set with two arrays and a derived column."""

    count: NDArray[np.int64]
    is_odd: NDArray[np.bool_]

    def __init__(self, rows: int) -> None:
        columns = (
            Column("count", np.int64, "", "somewhere"),
            Column("is_odd", np.bool_, "", "somewhere"),
            Column("half", np.float64, "", "count", is_derived=True),
        )
        super().__init__(columns, rows)


def test_a_column_grows_by_zeros() -> None:
    """A grown column is a copy with zeros added, even if its size stays the same."""
    column = np.array([3, 4], dtype=np.int32)
    more = grown(column, 4)
    assert more.tolist() == [3, 4, 0, 0]
    assert more.dtype == np.int32
    same = grown(column, 2)
    same[0] = 9
    assert column.tolist() == [3, 4]


def test_every_array_grows_and_is_cleared_by_row() -> None:
    """Arrays grow and are cleared by row, and keep the types of the schema."""
    pairs = Pairs(2)
    pairs.count[:], pairs.is_odd[:] = (2, 3), (False, True)
    pairs.resize(3)
    assert (pairs.count.tolist(), pairs.is_odd.tolist()) == ([2, 3, 0], [False, True, False])
    assert pairs.rows == 3
    assert pairs.count.dtype == np.int64
    assert pairs.is_odd.dtype == np.bool_
    pairs.clear(1)
    assert (pairs.count.tolist(), pairs.is_odd.tolist()) == ([2, 0, 0], [False] * 3)


def test_a_derived_column_has_no_array() -> None:
    """A column set has no array for a derived column."""
    assert not hasattr(Pairs(1), "half")
