"""The values of weighers that read nothing of the request, shared by all request profiles."""

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
"""(W, K) float64: the value of each weigher for each row."""

# Up to this many changed rows are read one by one, as plain numbers, which is faster than arrays.
_ONE_BY_ONE: Final = 4

# If more than 1/4 of the rows have changed, all values are read again.
_CHANGED_SHARE: Final = 4


class _OfOne(NamedTuple):
    """A weigher's reader of one row, and the weigher's line in the readings or its idle value.

    A weigher with neither does not apply to any host.
    """

    read: Callable[[int], float | None]
    line: Scores | None
    idle: float | None


class Readings:
    """The values of the policy's weighers that read nothing of the request.

    Weighers with multiplier 0 and weighers that do not apply have no line.

    Many weighers have the same value for every host of a fleet. Under Nova's normalisation, and if
    its scale has no fixed end, such a weigher adds nothing to any score, so it is *idle*: no line
    is stored until the value of some host differs. From then on it stays awake: each return to idle
    would change the lines, and all profiles would have to be rebuilt.

    Attributes:
        values: (W, N) float64, one line per awake weigher, in the order of the policy.
        epoch: increases when the set of lines changes.
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
        # The readers of one row, by the groups that have changed, valid while `hosts.structure` is
        # `_structure`.
        self._of_one: dict[tuple[str, ...], list[_OfOne]] = {}
        self._structure: tuple[int, int, int] | None = None
        self.epoch = 0

    def line(self, weigher: Weigher) -> int | None:
        """Return the index of a weigher's line in `values`, or None if it has no line."""
        return self._lines.get(id(weigher))

    def idle_value(self, weigher: Weigher) -> float | None:
        """Return the value of an idle weigher for every host; None when it is not idle."""
        return self._idle.get(id(weigher))

    def reset(self) -> None:
        """Make the next `catch_up` read all values, because rows now hold other hosts."""
        self._positions = None

    def catch_up(self, query: Query) -> None:
        """Update the values from the table; `query` is passed to weighers, which ignore it."""
        positions, self._positions = self._positions, None
        found = None if positions is None else positions.changed()
        if found is None or not self._read_changed(query, found):
            positions = self._read_all(query)
        # The cursor is assigned last: if a weigher fails, the next call reads everything again.
        self._positions = positions

    def _read_changed(self, query: Query, found: dict[str, list[int]]) -> bool:
        """Update the changed rows, given by group; return False when all must be read again."""
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
        """Update a few changed rows; return False when all must be read again."""
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
        """Return a reader of one row for each weigher that reads any of the groups."""
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
        """Return whether a weigher without a line still needs none."""
        value = self._idle.get(number)
        if value is None or values is None:
            return value is None and values is None
        return values.tolist().count(value) == rows.size or bool(
            (values[self._hosts.alive[rows]] == value).all()
        )

    def _read_all(self, query: Query) -> JournalCursor:
        """Read all weighers for all hosts, and determine the idle ones."""
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
        # The lines are views, because setting an element of a line is faster than of a matrix.
        self._each = list(self.values)
        return positions

    def _only_value(self, weigher: Weigher, values: Scores) -> float | None:
        """Return a weigher's value for all hosts if the weigher may be idle, else None."""
        has_ends = (weigher.floor, weigher.ceiling) != (None, None)
        if self._by_share or has_ends or id(weigher) in self._awake or not values.size:
            return None
        first = float(values[0])
        return first if math.isfinite(first) and bool((values == first).all()) else None


def _one_by_array(read: Raw, hosts: HostTable, query: Query) -> Callable[[int], float | None]:
    """Return a reader of one row that goes through arrays; None if the weigher does not apply."""

    def read_one(row: int) -> float | None:
        values = read(hosts, query, np.array((row,), dtype=np.intp))
        return None if values is None else values.item(0)

    return read_one
