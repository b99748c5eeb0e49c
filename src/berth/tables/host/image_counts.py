"""Image counts: how many instances on each row have a value of an image property."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection, count_of, spread
from berth.tables.columnar.column_set import grown

Counts = NDArray[np.float64]

_FEW_ROWS = 64
_ROWS_TO_A_COUNT = 16
_FIRST_ROWS = 1024


class RowTally:
    """One count a row: a mapping while few rows have one, an array when many do.

    The array is made when it takes no more room than the mapping that it replaces.
    """

    def __init__(self) -> None:
        self.total = 0
        self._few: dict[int, int] | None = {}
        self._many = np.zeros(0, dtype=np.int32)
        self._row_max = 0

    def add(self, row: int, by: int) -> None:
        """Raise the count of a row by some, or lower it by what it was raised."""
        self.total += by
        self._row_max = max(self._row_max, row)
        if self._few is None:
            self._grow(row + 1)
            self._many[row] += by
            return
        count = self._few.get(row, 0) + by
        if count:
            self._few[row] = count
            self._make_array_of_many()
        else:
            del self._few[row]

    def of(self, rows: Selection) -> Counts:
        """Return the count of each of the rows."""
        if self._few is not None:
            return spread(self._few, rows)
        last = rows.stop - 1 if isinstance(rows, slice) else int(rows.max(initial=0))
        self._grow(last + 1)
        return self._many[rows].astype(np.float64)

    def _make_array_of_many(self) -> None:
        few = self._few
        if few is None or len(few) <= max(_FEW_ROWS, self._row_max // _ROWS_TO_A_COUNT):
            return
        self._few = None
        self._grow(self._row_max + 1)
        for row, count in few.items():
            self._many[row] = count

    def _grow(self, rows: int) -> None:
        if rows > self._many.size:
            self._many = grown(self._many, max(rows, 2 * self._many.size, _FIRST_ROWS))


class ImageCounts:
    """Counts by property and value, for the properties that some rule has asked for.

    Nothing is counted before that, as most policies have no such rule. What instances there are
    is told by whoever owns them: all of them after `keep` says so, then one by one by `add`.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._keeps_all = False
        self._counts: dict[tuple[str, str], RowTally] = {}

    @property
    def is_kept(self) -> bool:
        """Something is counted."""
        return self._keeps_all or bool(self._names)

    def keep(self, names: frozenset[str]) -> bool:
        """Count these properties from now on, all properties when there are no names.

        Returns:
            True when they were not counted until now: every instance has to be added anew.
        """
        if self._keeps_all or (names and names <= self._names):
            return False
        self._keeps_all = not names
        self._names |= names
        self._counts.clear()
        return True

    def add(self, row: int, properties: Mapping[str, str], by: int = 1) -> None:
        """Count an instance on a row; `by` -1 takes it away again."""
        for item in properties.items():
            if not self._keeps_all and item[0] not in self._names:
                continue
            counts = self._counts.get(item)
            if counts is None:
                counts = self._counts[item] = RowTally()
            counts.add(row, by)
            if not counts.total:
                del self._counts[item]

    def add_all(self, found: Iterable[tuple[int, Mapping[str, str]]]) -> None:
        """Count instances, given by row and image properties."""
        for row, properties in found:
            self.add(row, properties)

    def count(self, name: str, value: str, rows: Selection) -> Counts:
        """Return how many instances on each of the rows have that value of the property."""
        counts = self._counts.get((name, value))
        if counts is None:
            return np.zeros(count_of(rows), dtype=np.float64)
        return counts.of(rows)
