"""Combinations: a set of numbers a row, where few different sets are spread over many rows."""

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
_COSTLIER = 8
"""A row looked at by itself costs about so many combinations looked at together."""

_EMPTY: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Flat:
    """All combinations one after another, so that numpy can fold each into one value.

    `members` are places: 0, which stands for nothing and opens every combination (an empty one
    must not fold its neighbour), or the place of a member. `starts[c]` is where c begins.
    """

    version: int
    place_of: Mapping[int, int]
    members: Rows
    starts: Rows

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Return the places of those numbers that any combination has."""
        return [self.place_of[number] for number in numbers if number in self.place_of]


class AggregateSets:
    """One set of numbers a row. Equal sets are kept once, as one combination.

    What follows from a set is worked out once a combination and spread over the rows.

    Attributes:
        version: grows whenever a combination comes to stand for another set.
    """

    def __init__(self) -> None:
        self.version = 0
        self._sets = Interned(_EMPTY)
        self._of_row: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._flat: _Flat | None = None

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones are empty sets."""
        self._of_row = grown(self._of_row, rows)

    def put(self, row: int, numbers: frozenset[int]) -> None:
        """Make the set of a row exactly `numbers`."""
        before = self._of_row.item(row)
        if self._sets.all[before] != numbers:
            self._of_row[row] = self._sets.take(numbers)
            self._sets.release(before)
            self.version = self._sets.version

    def get(self, row: int) -> frozenset[int]:
        """Return the set of a row."""
        return self._sets.all[self._of_row.item(row)] or _EMPTY

    def rows_with(self, number: int) -> Rows:
        """Return the rows that have a number in their set, ascending."""
        return np.flatnonzero(self.has_any((number,), slice(0, self._of_row.size)))

    def grouped(self, rows: Rows) -> Iterator[tuple[frozenset[int], Rows]]:
        """Return each set that any of the rows has, and those of them that have it."""
        indices = self._of_row[rows]
        order = indices.argsort(kind="stable")
        found, starts = np.unique(indices[order], return_index=True)
        parts = np.split(rows[order], starts[1:])
        for index, mine in zip(found.tolist(), parts, strict=False):  # no rows are one part, too
            yield self._sets.all[index] or _EMPTY, mine

    def has_any(self, numbers: Collection[int], rows: Selection) -> Mask:
        """Tell for each of the rows whether any of the numbers is in its set."""
        if not numbers:
            return np.zeros(count_of(rows), dtype=np.bool_)
        indices = self._of_row[rows]
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
        """Return the least value that any member of each combination has.

        Args:
            values: by number, finite; numbers may be missing.

        Returns:
            (C,) float64, NaN for combinations of which no member has a value; `spread` gives
            them to rows. True until `version` grows.
        """
        flat = self._flattened()
        by_place = np.full(len(flat.place_of) + 1, np.nan)
        known = [number for number in values if number in flat.place_of]
        by_place[flat.places(known)] = [values[number] for number in known]
        least: Floats = np.fmin.reduceat(by_place[flat.members], flat.starts)
        return least

    def spread(self, values: NDArray[np.float64], rows: Selection) -> Floats:
        """Give each of the rows the value of its combination.

        Args:
            values: (C,), as `least` returned it.
            rows: K rows.
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
