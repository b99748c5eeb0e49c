"""Metrics: what hosts measure of themselves, by the names that they give."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection

Floats = NDArray[np.float64]

_NONE: Mapping[str, float] = {}


class HostMetrics:
    """The metrics of each row; one that was asked for once stands in an array from then on.

    Names come from agents, and any number of them may differ from host to host; the names that
    are asked for come from policies and are few.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._reported: dict[int, Mapping[str, float]] = {}
        self._asked: dict[str, Floats] = {}

    def values(self, name: str, rows: Selection) -> Floats:
        """Return the value of each of the rows, NaN where the host does not report it.

        Args:
            name: the metric.
            rows: K rows.

        Returns:
            (K,) float64, not to be written to.
        """
        column = self._asked.get(name)
        if column is None:
            column = self._asked[name] = np.full(self._rows, np.nan)
            for row, metrics in self._reported.items():
                column[row] = metrics.get(name, np.nan)
        values: Floats = column[rows]
        return values

    def reported(self, row: int) -> Mapping[str, float]:
        """Return the metrics of a row."""
        return self._reported.get(row, _NONE)

    def put(self, row: int, metrics: Mapping[str, float]) -> None:
        """Make the metrics of a row exactly these."""
        if metrics:
            self._reported[row] = metrics
        else:
            self._reported.pop(row, None)
        for name, column in self._asked.items():
            column[row] = metrics.get(name, np.nan)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones report nothing."""
        for name, column in self._asked.items():
            grown = self._asked[name] = np.full(rows, np.nan)
            grown[: self._rows] = column
        self._rows = rows
