"""Combinations: a set of numbers a row, where few different sets are spread over many rows."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.tables.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columns import Floats

_FEW = 64
_COSTLIER = 8
"""A row looked at by itself costs about so many combinations looked at together."""


@dataclass(frozen=True, slots=True)
class _Flat:
    """All combinations one after another, so that numpy can fold each into one value.

    `members` are places: 0, which stands for nothing and opens every combination (an empty one
    must not fold its neighbour), or the place of a member. `starts[c]` is where c begins.
    """

    place_of: Mapping[int, int]
    members: Rows
    starts: Rows

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Return the places of those numbers that any combination has."""
        return [self.place_of[number] for number in numbers if number in self.place_of]


class Combinations:
    """One set of numbers a row. Equal sets are kept once, as one combination.

    What follows from a set is worked out once a combination and spread over the rows. A
    combination that no row has any more is given to the next, so that the memory used is that
    of the sets there are.

    Attributes:
        version: grows whenever a combination comes to stand for another set.
    """

    def __init__(self) -> None:
        self.version = 0
        self._sets: list[frozenset[int]] = [frozenset()]
        self._index_of: dict[frozenset[int], int] = {frozenset(): 0}
        self._rows_having = [0]
        self._unused: list[int] = []
        self._of_row: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._flat: _Flat | None = None

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones are empty sets."""
        grown = np.zeros(rows, dtype=np.int32)
        grown[: self._of_row.size] = self._of_row
        self._of_row = grown

    def put(self, row: int, numbers: frozenset[int]) -> None:
        """Make the set of a row exactly `numbers`."""
        before = int(self._of_row[row])
        if self._sets[before] == numbers:
            return
        index = self._index_of.get(numbers)
        if index is None:
            index = self._add(numbers)
        self._of_row[row] = index
        if index:  # the empty set is always there, and not counted
            self._rows_having[index] += 1
        if before:
            self._release(before)

    def get(self, row: int) -> frozenset[int]:
        """Return the set of a row."""
        return self._sets[int(self._of_row[row])]

    def has_any(self, numbers: Collection[int], rows: Selection) -> Mask:
        """Tell for each of the rows whether any of the numbers is in its set."""
        if not numbers:
            return np.zeros(count_of(rows), dtype=np.bool_)
        indices = self._of_row[rows]
        if indices.size <= max(_FEW, len(self._sets) // _COSTLIER):
            wanted = frozenset(numbers)
            mine = map(self._sets.__getitem__, indices.tolist())
            return np.array([not wanted.isdisjoint(one) for one in mine], dtype=np.bool_)
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

    def _add(self, numbers: frozenset[int]) -> int:
        if self._unused:
            index = self._unused.pop()
            self._sets[index] = numbers
        else:
            index = len(self._sets)
            self._sets.append(numbers)
            self._rows_having.append(0)
        self._index_of[numbers] = index
        self._flat = None
        self.version += 1
        return index

    def _release(self, index: int) -> None:
        self._rows_having[index] -= 1
        if not self._rows_having[index]:
            del self._index_of[self._sets[index]]
            self._sets[index] = frozenset()
            self._unused.append(index)

    def _flattened(self) -> _Flat:
        if self._flat is None:
            numbers = sorted({number for one in self._sets for number in one})
            place_of = {number: place for place, number in enumerate(numbers, start=1)}
            sizes = np.array([len(one) + 1 for one in self._sets], dtype=np.intp)
            starts = np.zeros(sizes.size, dtype=np.intp)
            starts[1:] = sizes.cumsum()[:-1]
            members = [place for one in self._sets for place in (0, *(place_of[n] for n in one))]
            self._flat = _Flat(place_of, np.array(members, dtype=np.intp), starts)
        return self._flat
