"""Sets of names as bits: the traits and the availability zones of each row."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.column_set import grown

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
Selection: TypeAlias = "Rows | slice[int, int, int]"
"""Rows to read: an index array, or a slice of all rows (`HostTable.all_rows`)."""

_BITS = 64
# Up to this many rows, reading a mapping row by row is faster than filling an array.
_FEW = 256


class Bitset:
    """One set of names per row, stored as one array per 64 names.

    Each name gets an index at its first appearance and keeps it. Because each word of 64 names is
    an array of its own, a test for one name reads eight bytes per row.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._words: list[NDArray[np.uint64]] = []
        self._rows = 0

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have empty sets."""
        self._words = [grown(word, rows) for word in self._words]
        self._rows = rows

    def put(self, row: int | Rows, names: Iterable[str]) -> None:
        """Replace the set of a row, or of each of several rows, by `names`."""
        for word in self._words:
            word[row] = 0
        # Names are collected first so that each word is written once: one NumPy write costs as much
        # as handling several names in Python.
        words: dict[int, int] = {}
        for name in names:
            place, bit = divmod(self._number(name), _BITS)
            words[place] = words.get(place, 0) | 1 << bit
        for place, bits in words.items():
            self._words[place][row] = bits

    def get(self, row: int) -> frozenset[str]:
        """Return the names in the set of a row."""
        return frozenset(n for n, number in self.names.items() if self._bit(row, number))

    def holds(self, row: int, name: str) -> bool:
        """Return whether a name is in the set of one row."""
        number = self.names.get(name)
        return number is not None and self._bit(row, number)

    def has(self, name: str, rows: Selection) -> Mask:
        """Return, for each row, whether the name is in its set."""
        number = self.names.get(name)
        if number is None:
            return np.zeros(count_of(rows), dtype=np.bool_)
        word = self._words[number // _BITS][rows]
        found: Mask = (word & np.uint64(1 << (number % _BITS))) != 0
        return found

    def has_any(self, names: Iterable[str], rows: Selection) -> Mask:
        """Return, for each row, whether any of the names is in its set."""
        found = np.zeros(count_of(rows), dtype=np.bool_)
        for name in names:
            found |= self.has(name, rows)
        return found

    def count_among(self, words: Sequence[int], rows: Selection) -> NDArray[np.int64]:
        """Return, for each row, the number of names of a given set that are in its own set.

        Args:
            words: the given set, from `words_of`.
            rows: K rows.

        Returns:
            (K,) int64.
        """
        counts = np.zeros(count_of(rows), dtype=np.int64)
        # `strict` is False because words that were added later contain none of the names.
        for word, bits in zip(self._words, words, strict=False):
            if bits:
                counts += np.bitwise_count(word[rows] & np.uint64(bits))
        return counts

    def words_of(self, names: Iterable[str]) -> list[int]:
        """Return a set of names as one integer per word; names that no row ever had are ignored."""
        words = [0] * len(self._words)
        for name in names:
            number = self.names.get(name)
            if number is not None:
                words[number // _BITS] |= 1 << (number % _BITS)
        return words

    def is_empty(self, rows: Selection) -> Mask:
        """Return, for each row, whether its set is empty."""
        empty = np.ones(count_of(rows), dtype=np.bool_)
        for word in self._words:
            empty &= word[rows] == 0
        return empty

    def _number(self, name: str) -> int:
        number = self.names.setdefault(name, len(self.names))
        if number // _BITS >= len(self._words):
            self._words.append(np.zeros(self._rows, dtype=np.uint64))
        return number

    def _bit(self, row: int, number: int) -> bool:
        return bool(int(self._words[number // _BITS][row]) >> (number % _BITS) & 1)


def count_of(rows: Selection) -> int:
    """Return the number of rows in a selection; a slice must be `slice(0, count)`."""
    return rows.stop if isinstance(rows, slice) else rows.size


def is_row(row: int, rows: Selection) -> Mask:
    """Return, for each row, whether it is `row`."""
    every = np.arange(rows.stop) if isinstance(rows, slice) else rows
    same: Mask = every == row
    return same


def spread(values: Mapping[int, float], rows: Selection) -> NDArray[np.float64]:
    """Return the value of each of the rows, 0 for rows without a value.

    Args:
        values: values by row; most rows may be missing.
        rows: K rows.

    Returns:
        (K,) float64.
    """
    if not isinstance(rows, slice) and rows.size <= _FEW:
        return np.fromiter((values.get(row, 0) for row in rows.tolist()), np.float64, rows.size)
    count = rows.stop if isinstance(rows, slice) else int(rows.max(initial=-1)) + 1
    spread_out = np.zeros(count, dtype=np.float64)
    for row, value in values.items():
        if row < count:
            spread_out[row] = value
    return spread_out if isinstance(rows, slice) else spread_out[rows]
