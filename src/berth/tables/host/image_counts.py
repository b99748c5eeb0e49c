"""Numbers of instances by row and image property."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection, count_of, spread
from berth.tables.columnar.column_set import grown

Counts = NDArray[np.float64]

# A mapping is used for up to this many rows with a count, whatever the size of the table.
_FEW_ROWS = 64
# A mapping entry takes about as much memory as this many elements of an int32 array.
_ROWS_TO_A_COUNT = 16
_FIRST_ROWS = 1024


class RowTally:
    """A count per row: a mapping while few rows have one, an array when many do.

    The mapping is converted once an array would need no more memory.
    """

    def __init__(self) -> None:
        self.total = 0
        self._few: dict[int, int] | None = {}
        self._many = np.zeros(0, dtype=np.int32)
        self._row_max = 0

    def add(self, row: int, by: int) -> None:
        """Add `by`, which may be negative, to the count of a row."""
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
    """Counts of instances by image property and value, for the properties that rules read.

    Counting begins with the first `keep`, because the rules of most policies read no properties.
    The owner adds the existing instances after `keep` returns True, and reports every later change
    with `add`.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._keeps_all = False
        self._counts: dict[tuple[str, str], RowTally] = {}

    @property
    def is_kept(self) -> bool:
        """Whether anything is counted."""
        return self._keeps_all or bool(self._names)

    def keep(self, names: frozenset[str]) -> bool:
        """Start counting the given properties, or all properties if `names` is empty.

        Returns:
            True if some of them were not counted before; the owner must then add every instance
            again.
        """
        if self._keeps_all or (names and names <= self._names):
            return False
        self._keeps_all = not names
        self._names |= names
        self._counts.clear()
        return True

    def add(self, row: int, properties: Mapping[str, str], by: int = 1) -> None:
        """Add an instance to the counts of a row, or subtract it with `by=-1`."""
        for item in properties.items():
            if not self._keeps_all and item[0] not in self._names:
                continue
            counts = self._counts.get(item)
            if counts is None:
                counts = self._counts[item] = RowTally()
            counts.add(row, by)
            # Clients choose the values of properties, so unused ones must not accumulate.
            if not counts.total:
                del self._counts[item]

    def add_all(self, found: Iterable[tuple[int, Mapping[str, str]]]) -> None:
        """Count instances, given as (row, image properties)."""
        for row, properties in found:
            self.add(row, properties)

    def count(self, name: str, value: str, rows: Selection) -> Counts:
        """Return, for each row, the number of instances with the given value of a property."""
        counts = self._counts.get((name, value))
        if counts is None:
            return np.zeros(count_of(rows), dtype=np.float64)
        return counts.of(rows)
