"""Sets of aggregate ids by row, for tables in which few distinct sets occur."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats
from berth.tables.columnar.column_set import grown
from berth.tables.columnar.interned import Interned

_FEW = 64

# Testing the set of one row in Python takes about as long as testing this many sets with NumPy.
_COSTLIER = 8

_EMPTY: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Flat:
    """All distinct sets concatenated, so that NumPy can reduce each of them to one value.

    `place_of` maps each id that occurs in a set to a place, from 1. `members` contains the places
    of the members of each set, after a leading 0, because `reduceat` would otherwise return the
    first member of the next set for an empty one. `starts[s]` is the index in `members` where set s
    begins.
    """

    version: int
    place_of: Mapping[int, int]
    members: Rows
    starts: Rows

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Return the places of the given ids, without ids that occur in no set."""
        return [self.place_of[number] for number in numbers if number in self.place_of]


class AggregateSets:
    """One set of aggregate ids per row; equal sets are stored once.

    Results are computed once per distinct set and then spread over the rows. A fleet has thousands
    of hosts, but few combinations of aggregates.

    Attributes:
        version: increases whenever a stored set changes; results of `least` are then outdated.
    """

    def __init__(self) -> None:
        self.version = 0
        self._sets = Interned(_EMPTY)
        self._of_row: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._flat: _Flat | None = None

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have empty sets."""
        self._of_row = grown(self._of_row, rows)

    def put(self, row: int, numbers: frozenset[int]) -> None:
        """Replace the set of a row by the aggregate ids `numbers`."""
        before = self._of_row.item(row)
        if self._sets.all[before] != numbers:
            self._of_row[row] = self._sets.take(numbers)
            self._sets.release(before)
            self.version = self._sets.version

    def get(self, row: int) -> frozenset[int]:
        """Return the aggregate ids in the set of a row."""
        return self._sets.all[self._of_row.item(row)] or _EMPTY

    def rows_with(self, number: int) -> Rows:
        """Return the rows whose set contains the given id, ascending."""
        return np.flatnonzero(self.has_any((number,), slice(0, self._of_row.size)))

    def grouped(self, rows: Rows) -> Iterator[tuple[frozenset[int], Rows]]:
        """Yield each distinct set of the given rows, with the rows that have it."""
        indices = self._of_row[rows]
        order = indices.argsort(kind="stable")
        found, starts = np.unique(indices[order], return_index=True)
        parts = np.split(rows[order], starts[1:])
        # `strict` is False because `np.split` of no rows still returns one part, which is empty.
        for index, mine in zip(found.tolist(), parts, strict=False):
            yield self._sets.all[index] or _EMPTY, mine

    def has_any(self, numbers: Collection[int], rows: Selection) -> Mask:
        """Return, for each row, whether its set contains any of the ids."""
        if not numbers:
            return np.zeros(count_of(rows), dtype=np.bool_)
        indices = self._of_row[rows]
        # For few rows, testing their sets one by one is faster than testing all distinct sets.
        if indices.size <= max(_FEW, len(self._sets.all) // _COSTLIER):
            wanted = frozenset(numbers)
            mine = map(self._sets.all.__getitem__, indices.tolist())
            found = [one is not None and not wanted.isdisjoint(one) for one in mine]
            return np.array(found, dtype=np.bool_)
        flat = self._flattened()
        wanted_places = np.zeros(len(flat.place_of) + 1, dtype=np.bool_)
        wanted_places[flat.places(numbers)] = True
        verdicts: Mask = np.logical_or.reduceat(wanted_places[flat.members], flat.starts)
        return verdicts.take(indices)

    def least(self, values: Mapping[int, float]) -> Floats:
        """Return the least value among the members of each distinct set.

        Args:
            values: finite values by id; ids may be missing.

        Returns:
            (S,) float64, NaN for sets in which no member has a value. The result is valid until
            `version` increases; `spread` maps it to rows.
        """
        flat = self._flattened()
        by_place = np.full(len(flat.place_of) + 1, np.nan)
        known = [number for number in values if number in flat.place_of]
        by_place[flat.places(known)] = [values[number] for number in known]
        # `fmin` ignores NaN, which stands for members without a value.
        least: Floats = np.fmin.reduceat(by_place[flat.members], flat.starts)
        return least

    def spread(self, values: NDArray[np.float64], rows: Selection) -> Floats:
        """Return the value of each row's set.

        Args:
            values: (S,), a result of `least`.
            rows: K rows.

        Returns:
            (K,) float64.
        """
        return values.take(self._of_row[rows])

    def _flattened(self) -> _Flat:
        if self._flat is None or self._flat.version != self.version:
            sets = [one or _EMPTY for one in self._sets.all]
            place_of = {
                number: place for place, number in enumerate(sorted(_EMPTY.union(*sets)), 1)
            }
            sizes = np.array([len(one) + 1 for one in sets], dtype=np.intp)
            starts = np.zeros(sizes.size, dtype=np.intp)
            starts[1:] = sizes.cumsum()[:-1]
            members = [place for one in sets for place in (0, *(place_of[n] for n in one))]
            self._flat = _Flat(self.version, place_of, np.array(members, dtype=np.intp), starts)
        return self._flat
