"""Blocked maxima, which find the greatest of many values without a scan when few values change.

The values are cut into blocks, and the maximum of each block, or an upper bound of it, is stored.
Setting a value costs at most a pass over its block. Finding the best few costs a pass over the
block maxima and over the few blocks that can contain the best.
"""

import math
from bisect import insort
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from berth.scheduling.rules.rule import Scores
from berth.tables.columnar.bitsets import Rows

# An `Extreme` updates its bounds when more changed rows than this are pending.
_PENDING_MAX: Final = 4_096

# Up to this many values are cut into blocks of 32.
_LITTLE: Final = 1 << 15

# Up to this many values are cut into blocks of 64, and more values into blocks of 128.
_MUCH: Final = 1 << 18

# A search for at most this many positions keeps leaders; a search for more sorts candidates.
_FEW: Final = 64

# Up to this many block maxima are partitioned to find the best blocks. If there are more, the best
# blocks are taken one by one.
_DENSE: Final = 4_096

# The least score that a host can have without being excluded; excluded hosts have -inf.
_LEAST: Final = float(np.finfo(np.float64).min)

# A search for leaders finds at least this many.
_LED_MIN: Final = 8

# A search finds this many additional leaders while scores change rarely.
_AHEAD: Final = 24

# Scores change rarely if there were at most this many changes per call of `BlockedScores.best`
# since the last search.
_STEADY: Final = 2


def _shift_of(count: int) -> int:
    """Return the binary logarithm of the block length, which grows with the number of values."""
    return 5 if count <= _LITTLE else 6 if count <= _MUCH else 7


def padded(values: Scores, shift: int) -> Scores:
    """Return the values, padded with -inf to a whole number of blocks, at least one.

    Args:
        values: (K,).
        shift: the binary logarithm of the block length.

    Returns:
        (B << shift,) for B blocks.
    """
    size = max(-(-values.size >> shift), 1) << shift
    grown = np.full(size, -np.inf, dtype=np.float64)
    grown[: values.size] = values
    return grown


# (negated score, position) of a host: the smallest key is the best, and positions break ties.
_Key = tuple[float, int]

_NO_KEY: Final[_Key] = (-math.inf, -1)
_ALL: Final[_Key] = (math.inf, -1)


class BlockedScores:
    """Scores by position, with a search for the greatest few of them.

    The best positions of the last search are kept as *leaders* and updated with every change. As
    long as enough of them are left, they are the best: every other position comes after `_last`,
    the worst leader at the time of the search.

    Attributes:
        shift: the binary logarithm of the block length.
        values: (B << shift,) the scores, padded with -inf.
        greatest: (B,) the greatest score of each block.
    """

    def __init__(self, scores: Scores) -> None:
        self._leaders: list[_Key] = []
        # Every position that is not a leader comes after this key.
        self._last = _NO_KEY
        self._put = self._looks = 0
        self.shift = _shift_of(scores.size)
        self._inside = (1 << self.shift) - 1
        self.values = padded(scores, self.shift)
        self._lines = self.values.reshape(-1, 1 << self.shift)
        self.greatest = self._lines.max(axis=1)

    def fill(self, scores: Scores) -> None:
        """Replace all scores; their number must not change."""
        self.values[: scores.size] = scores
        np.maximum.reduce(self._lines, axis=1, out=self.greatest)
        self._leaders.clear()
        self._last = _NO_KEY

    def put(self, positions: Rows, scores: Scores) -> None:
        """Set the scores at the given positions; -inf excludes a host."""
        self.values[positions] = scores
        blocks = positions >> self.shift
        self.greatest[blocks] = np.maximum.reduce(self._lines[blocks], axis=1)
        self._put += positions.size
        # After this many changes since the last search, another search is cheaper than updating the
        # leaders.
        if self._put > _AHEAD + _LED_MIN:
            self._leaders.clear()
            self._last = _NO_KEY
        else:
            self._lead(positions.tolist(), scores.tolist())

    def put_one(self, position: int, score: float) -> None:
        """Set the score at one position; -inf excludes the host."""
        block = position >> self.shift
        greatest = self.greatest.item(block)
        falls = score < greatest == self.values.item(position)
        self.values[position] = score
        if falls:
            self.greatest[block] = np.maximum.reduce(self._lines[block])
        elif score > greatest:
            self.greatest[block] = score
        self._put += 1
        self._lead((position,), (score,))

    def best(self, count: int) -> list[int]:
        """Return the positions of the `count` greatest scores, best first, ties by position.

        Excluded positions are left out, so the result may be shorter.
        """
        if count > _FEW:
            return self._sorted(count)
        self._looks += 1
        if len(self._leaders) < count and self._last < _ALL:
            ahead = _AHEAD if self._put <= _STEADY * self._looks else 0
            self._find_leaders(max(count, _LED_MIN) + ahead)
        return [position for _, position in self._leaders[:count]]

    def _find_leaders(self, count: int) -> None:
        found = self._searched(count)
        values = self.values
        self._leaders = [(-values.item(position), position) for position in found]
        self._last = self._leaders[-1] if len(found) == count else _ALL
        self._put = self._looks = 0

    def _lead(self, positions: Sequence[int], scores: Sequence[float]) -> None:
        """Update the leaders for changed scores."""
        if self._last == _NO_KEY:
            return
        changed = set(positions)
        self._leaders = [one for one in self._leaders if one[1] not in changed]
        for position, score in zip(positions, scores, strict=True):
            key = (-score, position)
            if key <= self._last and score != -math.inf:
                insort(self._leaders, key)

    def _searched(self, count: int) -> list[int]:
        """Return the best positions by sorting only the blocks that can contain them."""
        blocks, bound = self._best_blocks(count)
        values = self._lines[blocks].ravel()
        (near,) = (values >= bound).nonzero()
        near = near[np.argsort(-values[near], kind="stable")[:count]]
        return [
            (blocks[index >> self.shift] << self.shift) + (index & self._inside)
            for index in near.tolist()
        ]

    def _best_blocks(self, count: int) -> tuple[list[int], float]:
        """Return the blocks with the `count` greatest maxima, ascending, and a bound of scores.

        None of the `count` best scores is below the bound, because each of these blocks contains a
        score that is not below it. The first of several equal blocks is taken, as among positions.
        If at most `count` blocks contain a score, the bound is the least finite number.
        """
        greatest = self.greatest
        if greatest.size <= count:
            return list(range(greatest.size)), _LEAST
        if greatest.size > _DENSE:
            return self._best_of_many_blocks(count)
        last = greatest.size - count
        bound = np.partition(greatest, last).item(last)
        if bound == -math.inf:
            return (greatest > bound).nonzero()[0].tolist(), _LEAST
        above: list[int] = (greatest > bound).nonzero()[0].tolist()
        equal: list[int] = (greatest == bound).nonzero()[0][: count - len(above)].tolist()
        return sorted(above + equal), bound

    def _best_of_many_blocks(self, count: int) -> tuple[list[int], float]:
        greatest = self.greatest
        taken: dict[int, float] = {}
        for _ in range(count):
            block = int(greatest.argmax())
            score = greatest.item(block)
            if score == -math.inf:
                break
            taken[block] = score
            # The block is hidden until all are found, so that `argmax` finds the next one.
            greatest[block] = -np.inf
        for block, score in taken.items():
            greatest[block] = score
        return sorted(taken), min(taken.values()) if len(taken) == count else _LEAST

    def _sorted(self, count: int) -> list[int]:
        """Return the best positions by sorting all scores from a bound up.

        The bound is the `count`-th greatest block maximum.
        """
        bound = _LEAST
        if self.greatest.size > count:
            last = self.greatest.size - count
            bound = max(bound, float(np.partition(self.greatest, last)[last]))
        near = self.at_least(bound)
        chosen: list[int] = near[np.argsort(-self.values[near], kind="stable")[:count]].tolist()
        return chosen

    def at_least(self, bound: float) -> Rows:
        """Return all positions with a score of at least `bound`, ascending."""
        blocks = np.flatnonzero(self.greatest >= bound)
        which, where = np.nonzero(self._lines[blocks] >= bound)
        positions: Rows = (blocks[which] << self.shift) + where
        return positions


ValuesOf = Callable[[Rows], Scores]
"""Takes K rows and returns their values, (K,) float64, with -inf for rows to leave out."""


class Extreme:
    """The greatest value of all rows, updated as rows change.

    The values are not stored, which would cost eight bytes per row, weigher and profile. `_bounds`
    contains an upper bound for each block. A row whose value falls leaves the bound of its block
    too high; a search evaluates the block with the greatest bound, corrects the bound, and repeats
    until a bound is exact. `_holder` is a row with the greatest value, so a search is needed only
    when the value of this row falls.

    Args:
        values: (N,) the values of all rows, -inf for rows to leave out.
        values_of: returns the current values of rows.

    Attributes:
        value: the greatest value; -inf when all rows are left out.
    """

    def __init__(self, values: Scores, values_of: ValuesOf) -> None:
        self._shift = _shift_of(values.size)
        grown = padded(values, self._shift)
        self._values_of = values_of
        self._count = values.size
        self._bounds = grown.reshape(-1, 1 << self._shift).max(axis=1)
        self._pending: list[Rows] = []
        self._pending_rows = 0
        self._holder = int(grown.argmax())
        self.value = float(grown[self._holder])

    def update(self, rows: Rows, changed: set[int], values: Scores, greatest: float) -> bool:
        """Update for the current values of the given rows.

        Args:
            rows: (K,) the rows, K >= 1.
            changed: the same rows as a set.
            values: (K,) their values, -inf for rows to leave out.
            greatest: the greatest of these values.

        Returns:
            Whether `value` has changed.
        """
        old = self.value
        # Bounds are updated in bulk, because only a search relies on them.
        self._pending.append(rows)
        self._pending_rows += rows.size
        if greatest >= old:
            self.value, self._holder = greatest, int(rows[values.argmax()])
        elif self._holder in changed:
            self._search()
        if self._pending_rows > _PENDING_MAX:
            self._flush()
        return self.value != old

    def update_one(self, row: int, value: float) -> bool:
        """Update for the current value of one row; see `update`."""
        old = self.value
        block = row >> self._shift
        if value > self._bounds.item(block):
            self._bounds[block] = value
        if value >= old:
            self.value, self._holder = value, row
        elif self._holder == row:
            self._search()
        return self.value != old

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        np.maximum.at(self._bounds, rows >> self._shift, self._values_of(rows))
        self._pending.clear()
        self._pending_rows = 0

    def _search(self) -> None:
        """Find the greatest value again, correcting bounds that are too high."""
        self._flush()
        bounds = self._bounds
        while True:
            block = int(bounds.argmax())
            start = block << self._shift
            rows = np.arange(start, min(start + (1 << self._shift), self._count))
            values = self._values_of(rows)
            index = int(values.argmax())
            greatest = float(values[index])
            if greatest >= bounds[block]:
                self.value, self._holder = greatest, start + index
                return
            bounds[block] = greatest
