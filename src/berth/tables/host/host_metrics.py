"""The metrics that hosts report."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection

Floats = NDArray[np.float64]

_NONE: Mapping[str, float] = {}


class HostMetrics:
    """The metrics of each row; a metric becomes an array when it is first read.

    Agents report any number of metrics, which may differ from host to host, while policies read few
    of them. An array for every reported name would waste eight bytes per row.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._reported: dict[int, Mapping[str, float]] = {}
        self._asked: dict[str, Floats] = {}

    def values(self, name: str, rows: Selection) -> Floats:
        """Return the metric's value for each of the rows, NaN for hosts that do not report it.

        Args:
            name: the name of the metric.
            rows: K rows.

        Returns:
            (K,) float64, which the caller must not write to.
        """
        column = self._asked.get(name)
        if column is None:
            column = self._asked[name] = np.full(self._rows, np.nan)
            for row, metrics in self._reported.items():
                column[row] = metrics.get(name, np.nan)
        values: Floats = column[rows]
        return values

    def reported(self, row: int) -> Mapping[str, float]:
        """Return the metrics of a row; empty if it reports none."""
        return self._reported.get(row, _NONE)

    def put(self, row: int, metrics: Mapping[str, float]) -> None:
        """Replace the metrics of a row."""
        if metrics:
            self._reported[row] = metrics
        else:
            self._reported.pop(row, None)
        for name, column in self._asked.items():
            column[row] = metrics.get(name, np.nan)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows report nothing."""
        for name, column in self._asked.items():
            grown = self._asked[name] = np.full(rows, np.nan)
            grown[: self._rows] = column
        self._rows = rows
