"""Attestations: the trust level of each host, and until when it counts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from berth.domain.attestation import Attestation
from berth.tables.bitsets import Mask, Selection

Floats = NDArray[np.float64]

_NONE = 0


class Attestations:
    """The attestation of each row: a number of its level, and Unix seconds when it ends.

    A service has attestations by the name of the node, so a row is told its node first.
    """

    def __init__(self, rows: int) -> None:
        self._numbers: dict[str, int] = {}
        self._node: dict[int, str] = {}
        self._level: NDArray[np.int32] = np.zeros(rows, dtype=np.int32)
        self._until_s: Floats = np.full(rows, -np.inf)

    def has(self, level: str, rows: Selection, now_s: float) -> Mask:
        """Tell for each of the rows whether it is attested at that level now."""
        number = self._numbers.get(level, -1)
        found: Mask = (self._level[rows] == number) & self.is_valid(rows, now_s)
        return found

    def is_valid(self, rows: Selection, now_s: float) -> Mask:
        """Tell for each of the rows whether it is attested now, at whatever level."""
        valid: Mask = self._until_s[rows] >= now_s
        return valid

    def until_s(self, rows: Selection) -> Floats:
        """Return when the attestation of each of the rows ends; -inf where there is none."""
        until_s: Floats = self._until_s[rows]
        return until_s

    def put_node(self, row: int, node: str) -> None:
        """Note which node a row is; its attestation is to be put again after that."""
        self._node[row] = node

    def put(self, row: int, by_node: Mapping[str, Attestation]) -> None:
        """Set a row to what the attestations of its service say of its node."""
        found = by_node.get(self._node.get(row, ""))
        if found is None:
            self._level[row], self._until_s[row] = _NONE, -np.inf
            return
        self._level[row] = self._numbers.setdefault(found.level, len(self._numbers) + 1)
        self._until_s[row] = found.valid_until_s

    def clear(self, row: int) -> None:
        """Forget a row."""
        self._node.pop(row, None)
        self.put(row, {})

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones are not attested."""
        more = rows - self._level.size
        self._level = np.pad(self._level, (0, more))
        self._until_s = np.pad(self._until_s, (0, more), constant_values=-np.inf)
