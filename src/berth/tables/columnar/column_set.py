"""Arrays of equal length that grow together."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.schema import Column

_T = TypeVar("_T", bound=np.generic)


def grown(column: NDArray[_T], rows: int) -> NDArray[_T]:
    """Return a copy of a column, extended to `rows` rows; new rows are zero."""
    copy = np.zeros(rows, dtype=column.dtype)
    copy[: column.size] = column
    return copy


class ColumnSet:
    """Arrays of equal length as attributes, one per column that is not derived.

    `rows` is their length.
    """

    def __init__(self, columns: Iterable[Column], rows: int) -> None:
        self._schema = tuple(one for one in columns if not one.is_derived)
        self.rows = rows
        for column in self._schema:
            setattr(self, column.name, np.zeros(rows, dtype=column.dtype))

    def resize(self, rows: int) -> None:
        """Grow every array to `rows`; new rows are zero."""
        for column in self._schema:
            setattr(self, column.name, grown(getattr(self, column.name), rows))
        self.rows = rows

    def clear(self, row: int) -> None:
        """Set a row to zero in every array."""
        for column in self._schema:
            getattr(self, column.name)[row] = 0
