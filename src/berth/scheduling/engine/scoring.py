"""Scoring: the weighers of one request class, their extremes and their scales."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.engine.blocks import Extreme
from berth.scheduling.engine.stages import VOLATILE
from berth.scheduling.rule import Normalisation, Query, Raw, Scores, Weigher
from berth.scheduling.weighing import UNSCALED, Scale, multipliers, scale_of
from berth.tables.bitsets import Mask, Rows, Selection, count_of
from berth.tables.hosts import HostTable

Passing = Callable[[Selection], Mask]
"""(rows) -> (K,) bool: they pass every filter."""

Matrix = NDArray[np.float64]
"""(W, K): the value of each weigher for each row."""

_SLACK: Final = 1e-9
"""Relative; far above what rounding can do to a sum of a few products."""


class UnfitError(Exception):
    """A value is not finite, so its extremes cannot be kept; evaluate in full instead."""


def check_finite(values: Matrix) -> None:
    """Refuse values that are not finite.

    Where no fixed ends hide them, scores that are made of them are not finite either, so that
    a look at the scores is enough.

    Raises:
        UnfitError: one is not.
    """
    if not np.isfinite(values).all():
        raise UnfitError


@dataclass(frozen=True, slots=True)
class Scales:
    """One scale a weigher, as columns: `low`, `span` and `factor` are (W, 1).

    A weigher whose values are all equal has span 1 and factor 0, which adds nothing.
    """

    all: tuple[Scale, ...]
    low: Matrix
    span: Matrix
    factor: Matrix


class Part(NamedTuple):
    """The score of a row, and what every weigher gave it."""

    score: float
    raw: tuple[float, ...]
    normalised: tuple[float, ...]
    factors: tuple[float, ...]


class Scoring:
    """The weighers of a request class, with their extremes among the rows that pass.

    Scores come out as `weighing.weigh` makes them, operation by operation.
    """

    def __init__(
        self,
        hosts: HostTable,
        weighers: Sequence[Weigher],
        normalisation: Normalisation,
        query: Query,
        passing: Passing,
    ) -> None:
        self.weighers = tuple(weighers)
        self.names = tuple(weigher.name for weigher in weighers)
        self._hosts = hosts
        self._by_share = normalisation is Normalisation.SHARE
        self._reads = [_reader(weigher, by_share=self._by_share) for weigher in weighers]
        self._volatile = [i for i, w in enumerate(weighers) if _is_volatile(w)]
        self._query = query
        self._passing = passing
        ends = ((w.floor, w.ceiling) for w in weighers)
        bounds = [(-np.inf if f is None else f, np.inf if c is None else c) for f, c in ends]
        self._floors = _column([low for low, _ in bounds])
        self._ceilings = _column([high for _, high in bounds])
        self.clips = not self._by_share and bool(np.isfinite((self._floors, self._ceilings)).any())
        self._most: list[Extreme | None] = [None] * len(weighers)
        self._least: list[Extreme | None] = [None] * len(weighers)
        self._plain_factors = tuple(float(weigher.multiplier) for weigher in weighers)
        self._scales: tuple[Scale, ...] | None = None
        self.varies = any(self._varies(weigher) for weigher in weighers)
        self.slack = _SLACK * (1.0 + sum(abs(weigher.multiplier) for weigher in weighers))
        if not self._by_share:
            self._begin(passing(hosts.everyone))

    # ---- values and extremes ----------------------------------------------------------------

    def values(self, query: Query, rows: Selection) -> Matrix:
        """Return the values of rows, one line a weigher; see `check_finite`."""
        self._query = query
        found = np.empty((len(self._reads), count_of(rows)), dtype=np.float64)
        for index, read in enumerate(self._reads):
            values = read(self._hosts, query, rows)
            found[index] = np.nan if values is None else values
        return found

    def values_after_use(self, query: Query, rows: Rows, known: Sequence[float]) -> Matrix:
        """Return the values of one row that was consumed, asking only weighers that see that.

        Args:
            query: the request at hand.
            rows: (1,) the row.
            known: its values before.
        """
        self._query = query
        found = np.array(known, dtype=np.float64).reshape(-1, 1)
        for index in self._volatile:
            values = self._reads[index](self._hosts, query, rows)
            found[index] = np.nan if values is None else values
        return found

    def note(self, rows: Rows, changed: set[int], values: Matrix, passes: Mask) -> None:
        """Take in the values that some rows have now.

        Args:
            rows: (K,) the rows, K >= 1.
            changed: the same as a set.
            values: (W, K).
            passes: (K,) they pass every filter.
        """
        if self._by_share:
            return
        self._scales = None
        highest = np.where(passes, values, -np.inf)
        for index, top in enumerate(highest.max(axis=1).tolist()):
            extreme = self._most[index]
            if extreme is not None:
                extreme.note(rows, changed, highest[index], top)
        if any(self._least):
            lowest = np.where(passes, -values, -np.inf)
            for index, top in enumerate(lowest.max(axis=1).tolist()):
                extreme = self._least[index]
                if extreme is not None:
                    extreme.note(rows, changed, lowest[index], top)

    def _begin(self, passes: Mask) -> None:
        """Find the extremes among the rows that pass."""
        everyone = self._hosts.everyone
        for index, weigher in enumerate(self.weighers):
            if weigher.ceiling is None:
                self._most[index] = Extreme(
                    self._one(index, everyone, passes, 1), self._of(index, 1)
                )
            if weigher.floor is None:
                self._least[index] = Extreme(
                    self._one(index, everyone, passes, -1), self._of(index, -1)
                )

    def _of(self, index: int, sign: int) -> Callable[[Rows], Scores]:
        return lambda rows: self._one(index, rows, self._passing(rows), sign)

    def _one(self, index: int, rows: Selection, passes: Mask, sign: int) -> Scores:
        """Return one weigher's values, or their negatives; -inf for rows that do not pass."""
        values = self._reads[index](self._hosts, self._query, rows)
        if values is None or not np.isfinite(values).all():
            raise UnfitError
        return np.where(passes, sign * values, -np.inf)

    # ---- scales and scores --------------------------------------------------------------------

    def scales(self) -> tuple[Scale, ...]:
        """Return the scales that the hosts which pass now give."""
        if self._scales is None:
            self._scales = self._find_scales()
        return self._scales

    def _find_scales(self) -> tuple[Scale, ...]:
        if self._by_share:
            return (UNSCALED,) * len(self.weighers)
        found = tuple(
            # A side that is not followed has a fixed end, which is all that counts of it.
            scale_of(
                0.0 if least is None else -least.value,
                0.0 if most is None else most.value,
                weigher.floor,
                weigher.ceiling,
            )
            for weigher, least, most in zip(self.weighers, self._least, self._most, strict=True)
        )
        if not all(math.isfinite(scale.span) for scale in found):
            raise UnfitError
        return found

    def prepared(self, scales: tuple[Scale, ...]) -> Scales:
        """Return scales in the form that `scores` takes."""
        each = list(zip(self.weighers, scales, strict=True))
        return Scales(
            all=scales,
            low=_column([scale.low if scale.span else 0.0 for scale in scales]),
            span=_column([scale.span or 1.0 for scale in scales]),
            factor=_column([weigher.multiplier if scale.span else 0.0 for weigher, scale in each]),
        )

    def scores(self, values: Matrix, scales: Scales, rows: Selection) -> Scores:
        """Sum what the weighers give to rows, in the order of the policy.

        Args:
            values: (W, K).
            scales: to put them on.
            rows: the K rows.
        """
        if self._by_share and not self.varies:
            return _summed(values * scales.factor)
        # Values far off their scale may make what is no number; who asks looks for that.
        with np.errstate(over="ignore", invalid="ignore"):
            gains = self._normalised(values, scales)
            gains *= self._factors(rows, scales) if self.varies else scales.factor
            return _summed(gains)

    def parts(self, rows: Rows, raw: Sequence[Sequence[float]]) -> list[Part]:
        """Return the scores of rows now, and what each weigher gave each row.

        They are few, so numbers are put on their scales one by one, which rounds no differently.

        Args:
            rows: K rows, in which multipliers may differ.
            raw: for each of them the value of every weigher.
        """
        scales = self.scales()
        found: list[Part] = []
        for values, factors in zip(raw, self._factors_of_each(rows), strict=True):
            given = tuple(values)
            normalised = given if self._by_share else self._all_normal(given, scales)
            score = 0.0
            for normal, factor in zip(normalised, factors, strict=True):
                score += normal * factor
            found.append(Part(score, given, normalised, factors))
        return found

    def _all_normal(
        self, values: tuple[float, ...], scales: tuple[Scale, ...]
    ) -> tuple[float, ...]:
        each = zip(values, self.weighers, scales, strict=True)
        return tuple(self._normal(value, weigher, scale) for value, weigher, scale in each)

    def _normal(self, value: float, weigher: Weigher, scale: Scale) -> float:
        if not scale.span:
            return 0.0
        if weigher.floor is not None:
            value = max(value, weigher.floor)
        if weigher.ceiling is not None:
            value = min(value, weigher.ceiling)
        return (value - scale.low) / scale.span

    def _factors_of_each(self, rows: Rows) -> list[tuple[float, ...]]:
        """Return for each row the multiplier of every weigher."""
        if not self.varies:
            return [self._plain_factors] * rows.size
        factors = np.empty((len(self.weighers), rows.size), dtype=np.float64)
        for index, weigher in enumerate(self.weighers):
            factors[index] = multipliers(self._hosts, weigher, rows)
        return [tuple(line) for line in factors.T.tolist()]

    def drift(self, was: tuple[Scale, ...], now: tuple[Scale, ...]) -> tuple[float, float]:
        """Return the least and most that scores on an earlier scale may be wrong by.

        The difference of two scales is linear between the ends that values can have, so it is
        greatest and least at an end.
        """
        if was == now:
            return 0.0, 0.0
        least = most = 0.0
        for weigher, old, new in zip(self.weighers, was, now, strict=True):
            if old == new:
                continue
            ends = (new.low, new.low + new.span)
            changes = [_at(end, new) - _at(end, old) for end in ends]
            every = [factor * change for factor in self._extent(weigher) for change in changes]
            least += min(every)
            most += max(every)
        return least, most

    def has_switched(self) -> bool:
        """Tell whether multipliers began or ceased to differ between hosts."""
        return self.varies != any(self._varies(weigher) for weigher in self.weighers)

    def _normalised(self, values: Matrix, scales: Scales) -> Matrix:
        if self._by_share:
            return values.copy()
        if self.clips:
            values = np.minimum(np.maximum(values, self._floors), self._ceilings)
        normalised: Matrix = values - scales.low
        normalised /= scales.span
        return normalised

    def _factors(self, rows: Selection, scales: Scales) -> Matrix:
        """Return the multiplier of each weigher for each row; 0 where all values are equal."""
        found = np.empty((len(self.weighers), count_of(rows)), dtype=np.float64)
        for index, (weigher, scale) in enumerate(zip(self.weighers, scales.all, strict=True)):
            found[index] = multipliers(self._hosts, weigher, rows) if scale.span else 0.0
        return found

    def _extent(self, weigher: Weigher) -> tuple[float, ...]:
        """Return the least and greatest multiplier that any host has."""
        found = multipliers(self._hosts, weigher, self._hosts.everyone)
        if isinstance(found, float | int):
            return (found,)
        return float(found.min()), float(found.max())

    def _varies(self, weigher: Weigher) -> bool:
        none = np.zeros(0, dtype=np.intp)
        return not isinstance(multipliers(self._hosts, weigher, none), float | int)


def _reader(weigher: Weigher, *, by_share: bool) -> Raw:
    if not by_share:
        return weigher.raw
    if weigher.share is None:
        raise ValueError(f"{weigher.name} has no share form")
    return weigher.share


def _summed(gains: Matrix) -> Scores:
    """Sum lines one after another, from the first to the last, as `weighing` does."""
    if gains.shape[1] == 1:
        # Along a single column numpy adds in another order.
        return np.array([_sum_of(gains[:, 0].tolist())])
    total: Scores = np.add.reduce(gains, axis=0, initial=0.0)
    return total


def _sum_of(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def _is_volatile(weigher: Weigher) -> bool:
    return not VOLATILE.isdisjoint(weigher.reads.columns)


def _column(values: Sequence[float]) -> Matrix:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def _at(value: float, scale: Scale) -> float:
    return (value - scale.low) / scale.span if scale.span else 0.0
