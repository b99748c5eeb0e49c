"""Tests for derived columns, which are read like arrays."""

import numpy as np

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.class_columns import ClassColumns


def test_a_derived_column_reads_like_an_array() -> None:
    """A derived column is indexed by a row, an array of rows or a slice."""
    columns = ClassColumns(3)
    columns.put(0, Inventory(10, 2, allocation_ratio=2.0))
    columns.put(2, Inventory(20, 0, max_unit=5))
    columns.put_used(0, 4)
    for column, values in (
        (columns.reserved, [2, 0, 0]),
        (columns.capacity, [16, 0, 20]),
        (columns.unit_max, [10, 0, 5]),
        (columns.ratio, [2.0, 0.0, 1.0]),
    ):
        assert column[slice(0, 3)].tolist() == column[:3].tolist() == values
        assert column[np.array([2, 0])].tolist() == [values[2], values[0]]
        assert column[2] == column.item(2) == values[2]
        assert f"{column[0]:,}" == f"{values[0]:,}"
        assert column[np.array([0])].dtype == column.dtype
