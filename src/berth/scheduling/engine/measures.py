"""The values that the weighers of a request profile have for hosts."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.engine.readings import Matrix, Readings
from berth.scheduling.evaluation.weighing import reader_of, reader_of_one
from berth.scheduling.rules.rule import Normalisation, Query, ReadOne, Scores, Weigher, by_array
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.journal import VOLATILE
from berth.tables.host.hosts import HostTable


class NonFiniteValueError(Exception):
    """A value or score is not finite, so extremes are undefined: evaluate the request in full."""


def check_finite(values: Matrix) -> None:
    """Check that all values are finite.

    Raises:
        NonFiniteValueError: a value is not finite.
    """
    # Scores do not always reveal an infinite value: clipping makes it finite, and a weigher with
    # multiplier 0 hides it.
    if not are_finite(values):
        raise NonFiniteValueError


def are_finite(values: NDArray[np.float64]) -> bool:
    """Return whether all values are finite, judged by the greatest and the least.

    NaN propagates through both. A sum would be faster, but large finite values may overflow it.
    """
    return not values.size or (
        math.isfinite(np.maximum.reduce(values, axis=None))
        and math.isfinite(np.minimum.reduce(values, axis=None))
    )


class Measures:
    """The values of a profile's weighers, taken from `Readings` or else computed.

    Attributes:
        own: the indices of weighers without a line, mostly because they read the request; their
            values are *own values*.
        reads_request: whether `own` is not empty; reading values then costs more than indexing an
            array.
        lines: the line of each weigher in the readings, -1 for those in `own`.
    """

    def __init__(
        self,
        hosts: HostTable,
        weighers: Sequence[Weigher],
        normalisation: Normalisation,
        query: Query,
        readings: Readings,
    ) -> None:
        self._hosts = hosts
        self._readings = readings
        self._reads = [reader_of(weigher, normalisation) for weigher in weighers]
        self._reads_of_one = [reader_of_one(weigher, normalisation) for weigher in weighers]
        self._lines = [readings.line(weigher) for weigher in weighers]
        self._are_lines = self._lines == list(range(len(readings.values)))
        self.own = [i for i, line in enumerate(self._lines) if line is None]
        self.reads_request = bool(self.own)
        self.lines = tuple(-1 if line is None else line for line in self._lines)
        self._volatile = [_is_volatile(weighers[i]) for i in self.own]
        self._structure: tuple[int, int, int] | None = None
        # A reader of one row for each weigher of `own`, valid while `hosts.structure` is
        # `_structure`.
        self._each: list[ReadOne] = []
        self._query = query

    def values(self, query: Query, rows: Selection) -> Matrix:
        """Return the values of K rows, (W, K); NaN for a weigher that no longer applies."""
        self._query = query
        if self._are_lines:
            kept: Matrix = self._readings.values[:, rows]
            return kept
        found = np.empty((len(self._lines), count_of(rows)), dtype=np.float64)
        for index, line in enumerate(self._lines):
            if line is not None:
                found[index] = self._readings.values[line, rows]
        for index in self.own:
            values = self._reads[index](self._hosts, query, rows)
            found[index] = np.nan if values is None else values
        return found

    def own_values(self, query: Query, rows: Rows) -> list[list[float]]:
        """Return the own values of each row, one per weigher of `own`.

        A weigher that no longer applies has the value NaN.
        """
        self._query = query
        found = np.empty((len(self.own), rows.size), dtype=np.float64)
        for line, index in enumerate(self.own):
            values = self._reads[index](self._hosts, query, rows)
            found[line] = np.nan if values is None else values
        listed: list[list[float]] = found.T.tolist()
        return listed

    def own_values_of_one(
        self, query: Query, row: int, known: Sequence[float] | None = None
    ) -> list[float]:
        """Return the own values of one row.

        Args:
            query: a request of the profile.
            row: the row.
            known: the own values from before volatile columns of the row changed, if they are
                cached, else None. If given, only weighers that read volatile columns are evaluated
                again.
        """
        self._query = query
        if self._structure != self._hosts.structure:
            self._learn_to_read(query)
        if known is None:
            return [read(row) for read in self._each]
        each = zip(self._each, self._volatile, known, strict=True)
        return [read(row) if sees else value for read, sees, value in each]

    def whole(self, row: int, own: Sequence[float]) -> list[float]:
        """Return the values of all weighers for a row, given its own values."""
        kept: list[float] = self._readings.values[:, row].tolist()
        if self._are_lines:
            return kept
        mine = iter(own)
        return [next(mine) if line is None else kept[line] for line in self._lines]

    def _learn_to_read(self, query: Query) -> None:
        hosts = self._hosts
        self._structure = hosts.structure
        self._each.clear()
        for index in self.own:
            of_one = self._reads_of_one[index]
            self._each.append(
                by_array(self._reads[index], hosts, query)
                if of_one is None
                else of_one(hosts, query)
            )

    def signed(self, index: int, rows: Selection, passes: Mask, sign: int) -> Scores:
        """Return a weigher's values for K rows, (K,), with -inf for rows that do not pass.

        Args:
            index: the index of the weigher.
            rows: K rows.
            passes: (K,) True for rows that pass every filter.
            sign: 1, or -1 to negate the values.
        """
        values = self.of(index, rows)
        # NaN is not checked here: `check_finite` follows wherever scores are computed.
        return np.where(passes, values if sign > 0 else -values, -np.inf)

    def of(self, index: int, rows: Selection) -> Scores:
        """Return the values of one weigher for K rows: (K,).

        Raises:
            NonFiniteValueError: the weigher applied to the profile, but no longer does.
        """
        line = self._lines[index]
        if line is not None:
            kept: Scores = self._readings.values[line, rows]
            return kept
        values = self._reads[index](self._hosts, self._query, rows)
        if values is None:
            raise NonFiniteValueError
        return values


def _is_volatile(weigher: Weigher) -> bool:
    return not VOLATILE.isdisjoint(weigher.reads.columns)
