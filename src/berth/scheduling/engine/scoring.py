"""The weighers of one request profile: their extremes, scales and scores."""

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from berth.scheduling.engine.blocks import Extreme
from berth.scheduling.engine.kernel import Board
from berth.scheduling.engine.measures import Measures, NonFiniteValueError
from berth.scheduling.engine.readings import Matrix, Readings
from berth.scheduling.engine.scales import Ends, Scales, column, ends_of
from berth.scheduling.evaluation.weighing import UNSCALED, Scale, multipliers, scale_of
from berth.scheduling.rules.rule import Normalisation, Query, Scores, Weigher
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

Passing = Callable[[Selection], Mask]
"""Takes K rows and returns (K,) bool, True for those that pass every filter."""

# The slack for rounding, relative to the sum of the multipliers: far above the rounding errors of a
# sum of a few products.
_SLACK: Final = 1e-9


class ScoreParts(NamedTuple):
    """The score of a row, with the raw value, normalised value and multiplier of every weigher."""

    score: float
    raw: tuple[float, ...]
    normalised: tuple[float, ...]
    factors: tuple[float, ...]


class Scoring:
    """The weighers of a request profile, with their extremes among the rows that pass.

    Scores equal those of `weighing.weigh`, operation by operation. Idle weighers (see `Readings`)
    appear in the parts of a score, and nowhere else.

    Attributes:
        weighers: the weighers of the profile that are not idle.
        names: the names of all weighers of the profile.
        measures: the values of the weighers that are not idle.
        plain_factors: the policy's multipliers of all weighers, which an aggregate may override.
        reference: the scales of the stored scores.
        slack: an upper bound of the rounding error of any score.
        varies: whether multipliers may differ between hosts, because an aggregate overrides one.
        by_share: whether values are shares in [0, 1]; extremes are then not tracked.
    """

    def __init__(
        self,
        hosts: HostTable,
        weighers: Sequence[Weigher],
        normalisation: Normalisation,
        query: Query,
        passing: Passing,
        readings: Readings,
    ) -> None:
        """Create the scoring of a profile without extremes; `begin` finds them."""
        self.names = tuple(weigher.name for weigher in weighers)
        self._all_weighers = tuple((weigher, readings.idle_value(weigher)) for weigher in weighers)
        weighers = self.weighers = tuple(
            weigher for weigher, idle in self._all_weighers if idle is None
        )
        self._hosts = hosts
        self.by_share = normalisation is Normalisation.SHARE
        self.measures = Measures(hosts, weighers, normalisation, query, readings)
        self._passing = passing
        ends = ((w.floor, w.ceiling) for w in weighers)
        bounds = [(-np.inf if f is None else f, np.inf if c is None else c) for f, c in ends]
        self._floors = column([low for low, _ in bounds])
        self._ceilings = column([high for _, high in bounds])
        self._clips = not self.by_share and bool(np.isfinite((self._floors, self._ceilings)).any())
        self._most: list[Extreme | None] = [None] * len(weighers)
        self._least: list[Extreme | None] = [None] * len(weighers)
        self.plain_factors = tuple(float(weigher.multiplier) for weigher, _ in self._all_weighers)
        self._scales: tuple[Scale, ...] | None = None
        self.reference: tuple[Scale, ...] = ()
        self._ends_at: tuple[Scale, ...] | None = None
        self._ends: tuple[Ends, ...] = ()
        self.varies = any(self._varies(weigher) for weigher, _ in self._all_weighers)
        self.slack = _SLACK * (1.0 + sum(abs(weigher.multiplier) for weigher in weighers))
        self._board: Board | None = None

    # ---- extremes -----------------------------------------------------------------------------

    def update(self, rows: Rows, changed: set[int], values: Matrix, passes: Mask) -> None:
        """Update the extremes for the current values of the given rows.

        Args:
            rows: (K,) the rows, K >= 1.
            changed: the same rows as a set.
            values: (W, K) the values of the weighers.
            passes: (K,) True for rows that pass every filter.
        """
        if self.by_share or not self.weighers:
            return
        highest = np.where(passes, values, -np.inf)
        for index, top in enumerate(np.maximum.reduce(highest, axis=1).tolist()):
            extreme = self._most[index]
            if extreme is not None and extreme.update(rows, changed, highest[index], top):
                self._scales = None
        if any(self._least):
            lowest = np.where(passes, -values, -np.inf)
            for index, top in enumerate(np.maximum.reduce(lowest, axis=1).tolist()):
                extreme = self._least[index]
                if extreme is not None and extreme.update(rows, changed, lowest[index], top):
                    self._scales = None

    def update_one(self, row: int, values: Sequence[float], *, passes: bool) -> None:
        """Update the extremes for the current values of one row; see `update`."""
        if self.by_share:
            return
        for most, least, value in zip(self._most, self._least, values, strict=True):
            if most is not None and most.update_one(row, value if passes else -math.inf):
                self._scales = None
            if least is not None and least.update_one(row, -value if passes else -math.inf):
                self._scales = None

    def begin(self, board: Board | None = None) -> None:
        """Find the extremes among the rows that pass; the kernel board, if any, tracks them."""
        self._board = board
        if self.by_share:
            return
        passes = self._passing(self._hosts.all_rows)
        for index, weigher in enumerate(self.weighers):
            if weigher.ceiling is None:
                self._most[index] = self._extreme(index, passes, 1)
            if weigher.floor is None:
                self._least[index] = self._extreme(index, passes, -1)

    def _extreme(self, index: int, passes: Mask, sign: int) -> Extreme | None:
        everyone = self._hosts.all_rows
        if self._board is None:
            values = self.measures.signed(index, everyone, passes, sign)
            return Extreme(values, self._of(index, sign))
        self._board.begin(index, sign, self.measures.of(index, everyone))
        return None

    def explained_terms(self) -> tuple[tuple[int, float, float], ...] | None:
        """Return the argument of `kernel.Board.set_told`, or None when multipliers vary by host."""
        if self.varies:
            return None
        indices = count()
        return tuple(
            (next(indices), 0.0, factor) if idle is None else (-1, idle, factor)
            for (_, idle), factor in zip(self._all_weighers, self.plain_factors, strict=True)
        )

    def invalidate_scales(self) -> None:
        """Drop the cached scales after the board's extremes have changed."""
        self._scales = None

    def search(self, index: int, sign: int, start: int, stop: int) -> Scores:
        """See `kernel.Search`."""
        rows = np.arange(start, stop)
        return self.measures.signed(index, rows, self._passing(rows), sign)

    def _of(self, index: int, sign: int) -> Callable[[Rows], Scores]:
        return lambda rows: self.measures.signed(index, rows, self._passing(rows), sign)

    # ---- scales and scores --------------------------------------------------------------------

    def scales(self) -> tuple[Scale, ...]:
        """Return the scales of the weighers, for the hosts that pass now.

        Raises:
            NonFiniteValueError: the span of a scale is not finite.
        """
        if self._scales is None:
            found = self._find_scales()
            # Equal scales become the same object, which makes later comparisons an identity test.
            self._scales = self.reference if found == self.reference else found
        return self._scales

    def _find_scales(self) -> tuple[Scale, ...]:
        if self.by_share:
            return (UNSCALED,) * len(self.weighers)
        # A side without a tracked extreme has a fixed end, so `scale_of` ignores its value.
        ends = self._board.extremes() if self._board is not None else self._extremes()
        found = tuple(
            scale_of(least, most, weigher.floor, weigher.ceiling)
            for weigher, (least, most) in zip(self.weighers, ends, strict=True)
        )
        if not all(math.isfinite(scale.span) for scale in found):
            raise NonFiniteValueError
        return found

    def _extremes(self) -> list[tuple[float, float]]:
        pairs = zip(self._least, self._most, strict=True)
        return [(-low.value if low else 0.0, top.value if top else 0.0) for low, top in pairs]

    def scores(self, values: Matrix, scales: Scales, rows: Selection) -> Scores:
        """Return the scores of K rows, summing the weighers in the order of the policy.

        Args:
            values: (W, K) the values of the weighers.
            scales: the scales of the weighers.
            rows: the K rows.
        """
        # Values far outside their scale may overflow; the caller checks the result.
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.varies:
                return self._scores_by_line(values, scales)
            gains = self._normalised(values, scales)
            gains *= self.factors(rows, scales)
            return _summed(gains)

    def _scores_by_line(self, values: Matrix, scales: Scales) -> Scores:
        """Return the scores of K rows, skipping operations that change no value; see `scores`.

        The scores are computed weigher by weigher: one line of many rows fits in the processor's
        cache, and for few rows a number is faster than a column.
        Skipping is exact: adding 0, dividing by 1 and clipping at infinity return the same bits.
        """
        total = np.zeros(values.shape[1], dtype=np.float64)
        for line, (floor, ceiling, low, span, factor) in zip(values, scales.each, strict=True):
            if not factor:
                continue
            gain = line
            if not self.by_share:
                if floor != -math.inf:
                    gain = np.maximum(gain, floor)
                if ceiling != math.inf:
                    gain = np.minimum(gain, ceiling)
                if low:
                    gain = gain - low
                if span != 1.0:
                    gain = gain / span
            total += gain if factor == 1.0 else gain * factor
        return total

    def score_of_one(self, values: Sequence[float], scales: Scales, row: int) -> float:
        """Return the score of one row; see `scores`."""
        if self.varies:
            column = np.array(values, dtype=np.float64).reshape(-1, 1)
            return self.scores(column, scales, np.array((row,), dtype=np.intp)).item(0)
        score = 0.0
        if self.by_share:
            for value, (_, _, _, _, factor) in zip(values, scales.each, strict=True):
                score += value * factor
            return score
        for value, (floor, ceiling, low, span, factor) in zip(values, scales.each, strict=True):
            clipped = floor if value < floor else min(value, ceiling)
            score += (clipped - low) / span * factor
        return score

    def parts(self, rows: Sequence[int], raw: Sequence[Sequence[float]]) -> list[ScoreParts]:
        """Return the score of each row on the current scales, with its parts.

        The rows are few, so plain numbers are used, which round exactly as arrays do.

        Args:
            rows: the rows.
            raw: for each row the values of all weighers that are not idle.

        Raises:
            NonFiniteValueError: the span of a scale is not finite.
        """
        scales = self.scales()
        if self._ends_at is not scales:
            self._ends_at, self._ends = scales, ends_of(self.weighers, scales)
        found: list[ScoreParts] = []
        for values, factors in zip(raw, self._factors_of_each(rows), strict=True):
            normalised = values if self.by_share else _on_scales(values, self._ends, scales)
            if len(values) < len(factors):
                values, normalised = self._with_idle(values, normalised)  # noqa: PLW2901
            score = 0.0
            for share, factor in zip(normalised, factors, strict=True):
                score += share * factor
            found.append(ScoreParts(score, tuple(values), tuple(normalised), factors))
        return found

    def _with_idle(
        self, values: Sequence[float], normalised: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Return the values and normalised values of a row, including those of idle weighers."""
        given, shares = iter(values), iter(normalised)
        return (
            [next(given) if idle is None else idle for _, idle in self._all_weighers],
            [next(shares) if idle is None else 0.0 for _, idle in self._all_weighers],
        )

    def _factors_of_each(self, rows: Sequence[int]) -> list[tuple[float, ...]]:
        """Return the multipliers of all weighers for each row."""
        if not self.varies:
            return [self.plain_factors] * len(rows)
        factors = np.empty((len(self._all_weighers), len(rows)), dtype=np.float64)
        selected = np.array(rows, dtype=np.intp)
        for index, (weigher, _) in enumerate(self._all_weighers):
            factors[index] = multipliers(self._hosts, weigher, selected)
        return [tuple(line) for line in factors.T.tolist()]

    def has_switched(self) -> bool:
        """Return whether multipliers have started or stopped varying between hosts."""
        return self.varies != any(self._varies(weigher) for weigher, _ in self._all_weighers)

    def _normalised(self, values: Matrix, scales: Scales) -> Matrix:
        if self.by_share:
            return values.copy()
        if self._clips:
            values = np.minimum(np.maximum(values, self._floors), self._ceilings)
        normalised: Matrix = values - scales.low
        normalised /= scales.span
        return normalised

    def factors(self, rows: Selection, scales: Scales) -> Matrix:
        """Return the multipliers of W weighers for K rows: (W, K); 0 for a weigher without a span.

        Args:
            rows: K rows.
            scales: the scales of the weighers that are not idle.
        """
        found = np.empty((len(self.weighers), count_of(rows)), dtype=np.float64)
        for index, (weigher, scale) in enumerate(zip(self.weighers, scales.all, strict=True)):
            found[index] = multipliers(self._hosts, weigher, rows) if scale.span else 0.0
        return found

    def extent(self, weigher: Weigher) -> tuple[float, ...]:
        """Return a weigher's least and greatest multiplier, or the one that all hosts share."""
        found = multipliers(self._hosts, weigher, self._hosts.all_rows)
        if isinstance(found, float | int):
            return (found,)
        return float(found.min()), float(found.max())

    def _varies(self, weigher: Weigher) -> bool:
        none = np.zeros(0, dtype=np.intp)
        return not isinstance(multipliers(self._hosts, weigher, none), float | int)


def _on_scales(
    values: Sequence[float], ends: Sequence[Ends], scales: Sequence[Scale]
) -> list[float]:
    """Return the values of one row, normalised to the scales of their weighers."""
    found: list[float] = []
    for value, (floor, ceiling, low, span, _), scale in zip(values, ends, scales, strict=True):
        clipped = floor if value < floor else min(value, ceiling)
        found.append((clipped - low) / span if scale.span else 0.0)
    return found


def _summed(gains: Matrix) -> Scores:
    """Return the sum of lines in order from first to last, as `weighing` adds them."""
    if gains.shape[1] == 1:
        # For a single column, NumPy sums pairwise, which rounds differently.
        return np.array([_sum_of(gains[:, 0].tolist())])
    total: Scores = np.add.reduce(gains, axis=0, initial=0.0)
    return total


def _sum_of(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
