"""The journal: which rows have changed since when."""

from array import array
from collections.abc import Sequence
from typing import Final

GROUPS = ("host", "used", "traits", "service", "seen", "aggregates", "instances")
"""Groups of columns, as entries name them.

`host` has name, node and profile; `used` has all columns of the resource classes, inventories
too; `traits` the traits; `service` what the compute service says, `seen` its heartbeats;
`aggregates` the aggregates and availability zones; `instances` the instances and server group
members. A row that gets a host or loses it changes in all groups.
"""

VOLATILE: Final = frozenset({"used", "instances"})
"""Groups of columns that change with every placement."""

KEPT: Final = 65_536
"""Changes of a group that are remembered, at least."""


class Journal:
    """A bounded log of changed rows for each group of columns.

    Whoever keeps something derived from the table remembers the position that it was true at, by
    group, and asks for the rows changed since.

    Attributes:
        step: a count of all changes, in whatever group.
        lasting: a count of those in groups that are not volatile.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.step = 0
        self.lasting = 0
        self._kept = kept
        self._rows = {group: array("i") for group in GROUPS}
        self._forgotten: dict[str, int] = dict.fromkeys(GROUPS, 0)

    def record(self, row: int, group: str) -> None:
        """Record that a row changed."""
        self.step += 1
        if group not in VOLATILE:
            self.lasting += 1
        rows = self._rows[group]
        rows.append(row)
        if len(rows) > 2 * self._kept:
            self._shorten(group)

    def record_rows(self, rows: Sequence[int], group: str) -> None:
        """Record that rows changed."""
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
        """Forget all changes, as when a table was just loaded and nobody has read it yet."""
        for group, rows in self._rows.items():
            self._forgotten[group] += len(rows)
            self._rows[group] = array("i")

    def position(self, group: str) -> int:
        """Return where a group stands now."""
        return self._forgotten[group] + len(self._rows[group])

    def since(self, group: str, position: int) -> list[int] | None:
        """Return the rows that changed after a position, oldest first and perhaps more than once.

        None when that is forgotten.
        """
        start = position - self._forgotten[group]
        return self._rows[group][start:].tolist() if start >= 0 else None

    def advance(self, positions: dict[str, int]) -> dict[str, list[int]] | None:
        """Return the rows that changed after each position, by group, and move these on.

        None when some are forgotten; the positions are of no use then.

        Args:
            positions: by group; groups that have not changed are left out of what is returned.
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
        del self._rows[group][: self._kept]
        self._forgotten[group] += self._kept
