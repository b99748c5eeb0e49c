"""Arrays of one length that grow together."""

from collections.abc import Iterable

import numpy as np

from berth.tables.schema import Column


class ColumnSet:
    """Arrays of one length, one attribute each; `rows` is how many they can hold."""

    def __init__(self, columns: Iterable[Column], rows: int) -> None:
        self._schema = tuple(columns)
        self.rows = rows
        for column in self._schema:
            setattr(self, column.name, np.zeros(rows, dtype=column.dtype))

    def resize(self, rows: int) -> None:
        """Grow every array to `rows`; new rows are zero."""
        for column in self._schema:
            grown = np.zeros(rows, dtype=column.dtype)
            grown[: self.rows] = getattr(self, column.name)
            setattr(self, column.name, grown)
        self.rows = rows

    def clear(self, row: int) -> None:
        """Set a row to zero in every array."""
        for column in self._schema:
            getattr(self, column.name)[row] = 0
