"""Cursors into the journal, and the verdicts of time-dependent filters for all profiles."""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.journal import VOLATILE, Journal
from berth.tables.host.hosts import HostTable

# A log of changed verdicts is trimmed to the newest `_LOG_MAX` once it has more than twice as many.
_LOG_MAX: Final = 65_536


class JournalCursor:
    """A reader's positions in the journal, in each group of columns that it reads.

    Volatile groups are tracked separately, so most calls skip the others, which seldom change.
    """

    def __init__(self, journal: Journal, groups: Iterable[str]) -> None:
        self._journal = journal
        self._step, self._lasting_step = journal.step, journal.lasting
        at = {group: journal.position(group) for group in groups}
        self._volatile = {group: at.pop(group) for group in VOLATILE & at.keys()}
        self._lasting = at

    def changed(self) -> dict[str, list[int]] | None:
        """Return the rows changed since the last call, by group.

        The result is None if the journal no longer contains all of these changes.
        """
        journal = self._journal
        if journal.step == self._step:
            return {}
        self._step = journal.step
        found = journal.advance(self._volatile)
        if found is None or journal.lasting == self._lasting_step:
            return found
        self._lasting_step = journal.lasting
        more = journal.advance(self._lasting)
        return None if more is None else found | more


class TimedVerdicts:
    """The verdicts of one time-dependent filter on all rows, and a log of changed verdicts.

    Heartbeats and passing time concern all profiles alike, so they are evaluated once; profiles
    read only the rows whose verdict has changed. The filter must read nothing of a query except the
    time.
    """

    def __init__(self, rule: Filter, hosts: HostTable, query: Query) -> None:
        self.rule = rule
        self._hosts = hosts
        self._turned: list[int] = []
        self._forgotten = 0
        self._until_s = self._evaluated_s = query.now_s
        self._evaluate(query)

    @property
    def position(self) -> int:
        """The position of the end of the log."""
        return self._forgotten + len(self._turned)

    def since(self, position: int) -> list[int] | None:
        """Return the rows whose verdict changed after a position, or None if they were trimmed."""
        start = position - self._forgotten
        return self._turned[start:] if start >= 0 else None

    def catch_up(self, query: Query) -> None:
        """Update the verdicts for the table and the time of the query."""
        changed = self._positions.changed()
        # The cursor has passed the changed rows. If the filter fails on them, the next call must
        # evaluate all rows, so the verdicts are marked as expired until this call succeeds.
        until_s, self._until_s = self._until_s, -math.inf
        # Before `_evaluated_s` and from `until_s` on, time alone may have changed verdicts.
        if changed is None or not self._evaluated_s <= query.now_s < until_s:
            old = self.verdicts
            self._evaluate(query)
            self._log(np.flatnonzero(self.verdicts != old))
            return
        if changed:
            rows = np.array(list({row for rows in changed.values() for row in rows}))
            verdicts = self._verdicts(query, rows)
            # The verdicts of these rows are known only from this time on. A later query with an
            # earlier time must evaluate all rows again.
            self._evaluated_s = query.now_s
            until_s = min(until_s, self._holds_until(query, rows))
            self._log(rows[verdicts != self.verdicts[rows]])
            self.verdicts[rows] = verdicts
        self._until_s = until_s

    def _evaluate(self, query: Query) -> None:
        self._positions = JournalCursor(self._hosts.journal, self.rule.reads.columns)
        rows = np.arange(len(self._hosts))
        verdicts, until_s = self._verdicts(query, rows), self._holds_until(query, rows)
        # These are assigned together after both calls. A failure between the calls would otherwise
        # leave changed verdicts without a log entry.
        self.verdicts, self._evaluated_s, self._until_s = verdicts, query.now_s, until_s

    def _verdicts(self, query: Query, rows: Rows) -> Mask:
        verdicts = self.rule.keep(self._hosts, query, rows)
        return np.ones(rows.size, dtype=np.bool_) if verdicts is None else verdicts

    def _holds_until(self, query: Query, rows: Rows) -> float:
        holds_until = self.rule.holds_until
        return query.now_s if holds_until is None else holds_until(self._hosts, query, rows)

    def _log(self, rows: Rows) -> None:
        self._turned.extend(rows.tolist())
        if len(self._turned) > 2 * _LOG_MAX:
            surplus = len(self._turned) - _LOG_MAX
            del self._turned[:surplus]
            self._forgotten += surplus
