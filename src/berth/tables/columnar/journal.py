"""The journal of changed rows, which tells caches which rows to evaluate again."""

from array import array
from collections.abc import Sequence
from typing import Final

GROUPS = ("host", "used", "traits", "service", "seen", "aggregates", "instances")
"""Groups of columns, as rules name them in `Reads.columns`.

- `host`: name, node and profile.
- `used`: all columns of the resource classes, including inventories.
- `traits`: the traits.
- `service`: the state of the compute service; `seen`: its heartbeats.
- `aggregates`: the aggregates and availability zones.
- `instances`: the instances and the members of server groups.

A row that gets or loses a host changes in all groups."""

VOLATILE: Final = frozenset({"used", "instances"})
"""Groups that change with every placement."""

KEPT: Final = 65_536
"""At least this many of the newest changes are kept per group."""


class Journal:
    """A bounded log of changed rows per group of columns.

    A reader remembers its position in each group that it depends on, and reads the rows that
    changed after that position. Readers do not register. The journal trims the oldest half of a
    full group, and a reader whose position was trimmed gets None and must read the whole table.

    Attributes:
        step: the number of changes so far, in all groups.
        lasting: the number of changes so far in groups that are not volatile.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.step = 0
        self.lasting = 0
        self._kept = kept
        # An array takes four bytes per entry; a list would store a reference and a Python integer.
        self._rows = {group: array("i") for group in GROUPS}
        self._forgotten: dict[str, int] = dict.fromkeys(GROUPS, 0)

    def record(self, row: int, group: str) -> None:
        """Record that a row changed in a group."""
        self.step += 1
        if group not in VOLATILE:
            self.lasting += 1
        rows = self._rows[group]
        rows.append(row)
        if len(rows) > 2 * self._kept:
            self._shorten(group)

    def record_rows(self, rows: Sequence[int], group: str) -> None:
        """Record that several rows changed in a group."""
        self.step += len(rows)
        if group not in VOLATILE:
            self.lasting += len(rows)
        noted = self._rows[group]
        noted.extend(rows)
        while len(noted) > 2 * self._kept:
            self._shorten(group)

    def record_all(self, row: int) -> None:
        """Record that a row changed in every group."""
        self.step += len(self._rows)
        self.lasting += len(self._rows) - len(VOLATILE)
        for group, rows in self._rows.items():
            rows.append(row)
            if len(rows) > 2 * self._kept:
                self._shorten(group)

    def clear(self) -> None:
        """Drop all entries; positions that were taken before are outdated.

        Call this for a table that was just loaded from a snapshot: it has no reader yet, and the
        entries would only use memory.
        """
        for group, rows in self._rows.items():
            self._forgotten[group] += len(rows)
            # Positions are not reset, so an old one is recognised as outdated.
            self._rows[group] = array("i")

    def position(self, group: str) -> int:
        """Return the current position of a group."""
        return self._forgotten[group] + len(self._rows[group])

    def since(self, group: str, position: int) -> list[int] | None:
        """Return the rows that changed after a position, oldest first, possibly repeated.

        Returns:
            The rows, or None if some of them have been trimmed.
        """
        start = position - self._forgotten[group]
        return self._rows[group][start:].tolist() if start >= 0 else None

    def advance(self, positions: dict[str, int]) -> dict[str, list[int]] | None:
        """Return the rows that changed after each position, by group, and advance the positions.

        Args:
            positions: the positions by group, updated in place.

        Returns:
            The rows by group, without groups that have no changes; or None if some rows have been
            trimmed, after which the positions are unusable.
        """
        found: dict[str, list[int]] = {}
        for group, position in positions.items():
            rows = self._rows[group]
            start = position - self._forgotten[group]
            if start == len(rows):
                continue
            if start < 0:
                return None
            found[group] = rows[start:].tolist()
            positions[group] = position + len(rows) - start
        return found

    def _shorten(self, group: str) -> None:
        # A trim copies the entries that are left. Trimming half of all entries keeps the cost per
        # entry constant.
        del self._rows[group][: self._kept]
        self._forgotten[group] += self._kept
