"""The filters of one request profile: for every host, the first filter that removes it."""

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.decision import FilterCount
from berth.scheduling.engine.timed import TimedVerdicts
from berth.scheduling.rules.rule import Filter, Limit, Query
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.journal import VOLATILE
from berth.tables.host.hosts import HostTable

Small = NDArray[np.uint8]

FILTERS_MAX: Final = 250
"""The maximum number of filters that the engine supports: every stage must fit in a byte."""


class Stages:
    """The verdicts of the filters on all rows for one request profile.

    The stage of a host is the index of the first filter that removes it, or `passed`. The result of
    the filters that read nothing volatile is stored separately as `settled`, so only the volatile
    filters are evaluated again after a placement.

    Attributes:
        passed: the stage of hosts that pass every filter.
        stage: (N,) the stage of each row; `passed` + 1 for unused rows.
        settled: (N,) the stage of each row according to the filters that read nothing volatile.
        counts: the number of rows in each stage.
        groups: the groups of columns that verdicts depend on, apart from timed verdicts.
    """

    def __init__(
        self,
        hosts: HostTable,
        filters: Sequence[Filter],
        timed: Sequence[TimedVerdicts],
        query: Query,
    ) -> None:
        self._hosts = hosts
        self._filters = filters
        self.passed = len(filters)
        self._timed = {
            i: one for i, rule in enumerate(filters) for one in timed if one.rule is rule
        }
        self._lasting: list[int] = []
        self._volatile: list[int] = []
        self.stage, self.settled = self._first(query)
        self.counts = self._count(self.stage)
        self._filter_counts: tuple[FilterCount, ...] | None = None
        own = (i for i in (*self._lasting, *self._volatile) if i not in self._timed)
        self.groups = frozenset(group for i in own for group in filters[i].reads.columns)

    @property
    def count(self) -> int:
        """The number of hosts that pass all filters."""
        return self.counts[self.passed]

    @property
    def is_sticky(self) -> bool:
        """Whether a volatile filter must be evaluated only once for all instances of a request."""
        return any(self._filters[i].once_per_request for i in self._volatile)

    @property
    def reads_groups(self) -> bool:
        """Whether a verdict depends on the hosts of the members of the request's server group."""
        indices = (*self._lasting, *self._volatile)
        return any("group_rows" in self._filters[i].reads.request for i in indices)

    def filter_counts(self) -> tuple[FilterCount, ...]:
        """Return the numbers of hosts before and after each filter."""
        if self._filter_counts is None:
            before = sum(self.counts[: self.passed + 1])
            found: list[FilterCount] = []
            for rule, removed in zip(self._filters, self.counts, strict=False):
                found.append(FilterCount(rule.name, before, before - removed))
                before -= removed
            self._filter_counts = tuple(found)
        return self._filter_counts

    def update(self, query: Query, rows: Rows, settled_too: Rows | None) -> Mask:
        """Evaluate the filters again on changed rows; return, for each of them, whether it passes.

        Args:
            query: a request of the profile.
            rows: (K,) the changed rows, each once.
            settled_too: the rows among them that changed in columns that are not volatile, or None
                if there are none.
        """
        if settled_too is not None:
            self.update_settled(query, settled_too)
        stage = self.evaluate(query, rows)
        old = self.stage[rows]
        if np.logical_or.reduce(old != stage):
            self._recount(old, stage)
            self.stage[rows] = stage
        passes: Mask = stage == self.passed
        return passes

    def update_settled(self, query: Query, rows: Rows) -> None:
        """Evaluate the non-volatile filters again on rows; the caller must then update `stage`."""
        self.settled[rows] = self._settle(query, rows)

    def evaluate(self, query: Query, rows: Rows) -> Small:
        """Return the current stages of the given rows, from `settled` and the volatile filters."""
        stage = self.settled[rows]
        for i in self._volatile:
            verdict = self._filters[i].keep(self._hosts, query, rows)
            if verdict is not None and not np.logical_and.reduce(verdict):
                stage[~verdict & (stage > i)] = i
        return stage

    def limits(self, query: Query) -> list[Limit] | None:
        """Return limits equivalent to the only volatile filter, whose index is `limited_stage`.

        The list is empty if no filter is volatile. The result is None if several filters are
        volatile, or if limits cannot express the filter.
        """
        if not self._volatile:
            return []
        rule = self._filters[self.limited_stage]
        if len(self._volatile) > 1 or rule.limits is None:
            return None
        return rule.limits(self._hosts, query)

    @property
    def limited_stage(self) -> int:
        """The index of the first volatile filter; `passed` when there is none."""
        return self._volatile[0] if self._volatile else self.passed

    def invalidate_counts(self) -> None:
        """Drop the cached filter counts after the kernel has changed stages and counts."""
        self._filter_counts = None

    def update_one(self, query: Query, row: int) -> bool:
        """Evaluate the volatile filters again on one row, and return whether it passes."""
        stage = self.settled.item(row)
        rows = np.array((row,), dtype=np.intp)
        for i in self._volatile:
            if i >= stage:
                break
            verdict = self._filters[i].keep(self._hosts, query, rows)
            if verdict is not None and not verdict.item(0):
                stage = i
                break
        old = self.stage.item(row)
        if old != stage:
            self._filter_counts = None
            self.counts[old] -= 1
            self.counts[stage] += 1
            self.stage[row] = stage
        return stage == self.passed

    def passing(self, rows: Selection) -> Mask:
        """Return, for each of the rows, whether it passes all filters."""
        passes: Mask = self.stage[rows] == self.passed
        return passes

    def _first(self, query: Query) -> tuple[Small, Small]:
        """Return the stages and settled stages of all rows, and record the filters that apply."""
        everyone = self._hosts.all_rows
        settled = np.full(len(self._hosts), self.passed, dtype=np.uint8)
        if not self._hosts.alive.all():
            settled[~self._hosts.alive] = self.passed + 1
        volatile: list[tuple[int, Mask]] = []
        for i, rule in enumerate(self._filters):
            verdict = self._verdict(i, query, everyone)
            if verdict is None:
                continue
            if VOLATILE.isdisjoint(rule.reads.columns):
                self._lasting.append(i)
                if not verdict.all():
                    settled[~verdict & (settled == self.passed)] = i
            else:
                self._volatile.append(i)
                volatile.append((i, verdict))
        stage = settled.copy()
        for i, verdict in volatile:
            if verdict.all():
                continue
            stage[~verdict & (stage <= self.passed) & (stage > i)] = i
        return stage, settled

    def _settle(self, query: Query, rows: Rows) -> Small:
        settled = np.full(rows.size, self.passed, dtype=np.uint8)
        for i in self._lasting:
            verdict = self._verdict(i, query, rows)
            if verdict is not None:
                settled[~verdict & (settled == self.passed)] = i
        return settled

    def _verdict(self, i: int, query: Query, rows: Selection) -> Mask | None:
        timed = self._timed.get(i)
        if timed is not None:
            return timed.verdicts[rows]
        return self._filters[i].keep(self._hosts, query, rows)

    def _count(self, stage: Small) -> "array[int]":
        # `bincount` is several times slower, because it converts the bytes to 64-bit integers
        # first.
        numbers = range(self.passed + 2)
        return array("q", [int(np.count_nonzero(stage == number)) for number in numbers])

    def _recount(self, old: Small, new: Small) -> None:
        self._filter_counts = None
        for stage in old.tolist():
            self.counts[stage] -= 1
        for stage in new.tolist():
            self.counts[stage] += 1
