"""Readings: what weighers measure of every host, whatever is asked, read once for all classes."""

import math
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.engine.timed import JournalCursor
from berth.scheduling.evaluation.weighing import reader_of, reader_of_one
from berth.scheduling.rules.rule import Normalisation, Query, Raw, Scores, Weigher
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

Matrix = NDArray[np.float64]
"""(W, K): the value of each weigher for each row."""

_ONE_BY_ONE: Final = 4
"""So many changed rows take less time as plain numbers than as arrays."""

_CHANGED_SHARE: Final = 4
"""When more than one row in so many has changed, everything is read anew."""


class _OfOne(NamedTuple):
    """How a weigher is read of one row, and the line that it has, or else its idle value.

    One that has neither has nothing to say, of whatever host.
    """

    read: Callable[[int], float | None]
    line: Scores | None
    idle: float | None


class Readings:
    """The values of those weighers of a policy that read nothing of a request.

    Many of them say the same of every host of a fleet, and where their scale has no fixed end,
    that adds nothing to any score. Such a weigher is idle: nothing of it is kept until it says
    something else of some host, or of all of them. From then on it is awake, for good, so that
    classes are not made anew each time.

    Attributes:
        values: (W, N) float64, one line a weigher that is awake, in the order of the policy.
        epoch: changes with the lines.
    """

    def __init__(
        self, hosts: HostTable, weighers: Iterable[Weigher], normalisation: Normalisation
    ) -> None:
        self._hosts = hosts
        self._reads = {
            id(one): (one, reader_of(one, normalisation), reader_of_one(one, normalisation))
            for one in weighers
            if not one.reads.request and one.multiplier
        }
        self._by_share = normalisation is Normalisation.SHARE
        self._groups = {group for one, *_ in self._reads.values() for group in one.reads.columns}
        self._lines: dict[int, int] = {}
        self._idle: dict[int, float] = {}
        self._awake: set[int] = set()
        self._positions: JournalCursor | None = None
        self.values: Matrix = np.zeros((0, 0), dtype=np.float64)
        self._each: list[Scores] = []
        self._of_one: dict[tuple[str, ...], list[_OfOne]] = {}
        self._structure: tuple[int, int, int] | None = None
        """How one row is read after changes in some groups, on a table of that form."""
        self.epoch = 0

    def line(self, weigher: Weigher) -> int | None:
        """Return the line of `values` that a weigher has; None when it has none."""
        return self._lines.get(id(weigher))

    def idle_value(self, weigher: Weigher) -> float | None:
        """Return what an idle weigher says of every host; None when it is not idle."""
        return self._idle.get(id(weigher))

    def reset(self) -> None:
        """Forget everything: other hosts have the rows now."""
        self._positions = None

    def catch_up(self, query: Query) -> None:
        """Make the values true to the table; `query` is handed to weighers that ignore it."""
        positions, self._positions = self._positions, None
        found = None if positions is None else positions.changed()
        if found is None or not self._read_changed(query, found):
            positions = self._read_all(query)
        # Not before here: a weigher that fails half-way leaves nothing to build on.
        self._positions = positions

    def _read_changed(self, query: Query, found: dict[str, list[int]]) -> bool:
        """Take in rows that changed, by group of columns; False when all is to be read."""
        if not found:
            return True
        changed = {row for rows in found.values() for row in rows}
        if len(changed) <= _ONE_BY_ONE:
            return self._read_few(query, changed, tuple(found))
        if len(changed) * _CHANGED_SHARE > len(self._hosts):
            return False
        rows = np.array(list(changed), dtype=np.intp)
        for number, (weigher, read, _) in self._reads.items():
            if not found.keys().isdisjoint(weigher.reads.columns):
                values = read(self._hosts, query, rows)
                line = self._lines.get(number)
                if line is not None and values is not None:
                    self._each[line][rows] = values
                elif not self._stays_idle(number, rows, values):
                    return False
        return True

    def _read_few(self, query: Query, rows: set[int], groups: tuple[str, ...]) -> bool:
        """Do what `_read_changed` does for a few rows that changed in some of the groups."""
        hosts = self._hosts
        if self._structure != hosts.structure:
            self._of_one.clear()
            self._structure = hosts.structure
        concerned = self._of_one.get(groups)
        if concerned is None:
            concerned = self._concerned_by(groups, query)
        for row in rows:
            for read_one, line, idle in concerned:
                value = read_one(row)
                if line is not None and value is not None:
                    line[row] = value
                elif value != idle and (idle is None or hosts.alive.item(row)):
                    return False
        return True

    def _concerned_by(self, groups: tuple[str, ...], query: Query) -> list[_OfOne]:
        """Return how to read one row, for each weigher that reads some of the groups."""
        hosts = self._hosts
        found = self._of_one[groups] = [
            _OfOne(
                _one_by_array(read, hosts, query) if of_one is None else of_one(hosts, query),
                self._each[self._lines[number]] if number in self._lines else None,
                self._idle.get(number),
            )
            for number, (weigher, read, of_one) in self._reads.items()
            if not set(groups).isdisjoint(weigher.reads.columns)
        ]
        return found

    def _stays_idle(self, number: int, rows: Rows, values: Scores | None) -> bool:
        """Tell whether a weigher without a line goes on without one."""
        value = self._idle.get(number)
        if value is None or values is None:
            return value is None and values is None
        return values.tolist().count(value) == rows.size or bool(
            (values[self._hosts.alive[rows]] == value).all()
        )

    def _read_all(self, query: Query) -> JournalCursor:
        """Read every weigher of every host, and see which are idle."""
        positions = JournalCursor(self._hosts.journal, self._groups)
        alive = self._hosts.alive
        found: list[Scores] = []
        lines: dict[int, int] = {}
        idle: dict[int, float] = {}
        for number, (weigher, read, _) in self._reads.items():
            values = read(self._hosts, query, self._hosts.all_rows)
            if values is None:
                continue
            value = self._only_value(weigher, values[alive])
            if value is None or value != self._idle.get(number, value):
                lines[number] = len(found)
                found.append(values)
            else:
                idle[number] = value
        self._awake.update(lines)
        if lines != self._lines:
            self.epoch += 1
        self._lines, self._idle = lines, idle
        self.values = np.array(found, dtype=np.float64).reshape(len(found), len(self._hosts))
        self._of_one.clear()
        # Views, because a line alone takes less time to set than a part of a matrix.
        self._each = list(self.values)
        return positions

    def _only_value(self, weigher: Weigher, values: Scores) -> float | None:
        """Return the one value that a weigher gives, if that may be left out of scores."""
        has_ends = (weigher.floor, weigher.ceiling) != (None, None)
        if self._by_share or has_ends or id(weigher) in self._awake or not values.size:
            return None
        first = float(values[0])
        return first if math.isfinite(first) and bool((values == first).all()) else None


def _one_by_array(read: Raw, hosts: HostTable, query: Query) -> Callable[[int], float | None]:
    """Return how to read one row by way of arrays; unlike `by_array` it tells None apart."""

    def read_one(row: int) -> float | None:
        values = read(hosts, query, np.array((row,), dtype=np.intp))
        return None if values is None else values.item(0)

    return read_one
