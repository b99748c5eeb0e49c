"""The trust level of each host, and the time when its attestation expires."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.host import Attestation
from berth.tables.columnar.bitsets import Mask, Selection, count_of

Floats = NDArray[np.float64]

_NONE = 0


class Attestations:
    """The attestation of each row: the id of its level, and its expiry in Unix seconds.

    A service has one attestation per node. The arrays are allocated with the first attestation,
    because most fleets have none.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._numbers: dict[str, int] = {}
        self._level: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._until_s: Floats = np.zeros(0)

    def has(self, level: str, rows: Selection, now_s: float) -> Mask:
        """Return, for each row, whether it is attested at a level at `now_s` (Unix seconds)."""
        number = self._numbers.get(level)
        if number is None:
            return np.zeros(count_of(rows), dtype=np.bool_)
        found: Mask = (self._level[rows] == number) & self.is_valid(rows, now_s)
        return found

    def is_valid(self, rows: Selection, now_s: float) -> Mask:
        """Return, for each row, whether it is attested at any level at `now_s` (Unix seconds)."""
        valid: Mask = self.until_s(rows) >= now_s
        return valid

    def until_s(self, rows: Selection) -> Floats:
        """Return the expiry of each row's attestation in Unix seconds; -inf if it has none."""
        if not self._numbers:
            return np.full(count_of(rows), -np.inf)
        until_s: Floats = self._until_s[rows]
        return until_s

    def put(self, row: int, node: str, by_node: Mapping[str, Attestation]) -> None:
        """Set the attestation of a row to the one for its node; remove it if there is none."""
        found = by_node.get(node)
        if found is not None:
            level = self._number(found.level)
            self._level[row], self._until_s[row] = level, found.valid_until_s
        elif self._numbers:
            self._level[row], self._until_s[row] = _NONE, -np.inf

    def clear(self, row: int) -> None:
        """Remove the attestation of a row."""
        self.put(row, "", {})

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows are not attested."""
        more = rows - self._rows
        self._rows = rows
        if self._numbers:
            self._level = np.pad(self._level, (0, more))
            self._until_s = np.pad(self._until_s, (0, more), constant_values=-np.inf)

    def _number(self, level: str) -> int:
        if not self._numbers:
            self._level = np.zeros(self._rows, dtype=np.int32)
            self._until_s = np.full(self._rows, -np.inf)
        return self._numbers.setdefault(level, len(self._numbers) + 1)
