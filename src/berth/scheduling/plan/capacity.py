"""Capacity: the number of further instances that the scheduler would place, host by host.

Some rules can compute the number of instances that pass on a host in turn (`Filter.repeats`); the
result is at most the smallest of these numbers. The other rules are evaluated again after each
instance that is placed on trial, once for all hosts in equal states, up to their bounds
(`Filter.bound`).
"""

from collections import Counter
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from berth.domain.compute.request import COUNT_MAX, Request
from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.evaluation.assignments import Assigner
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.granular.group_fit import repeats as repeats_by_amounts
from berth.scheduling.plan.group_policies import plan_with_group_policy, unsupported_group
from berth.scheduling.plan.planning import seed_of
from berth.scheduling.rules.reduction import reduce_hosts
from berth.scheduling.rules.rule import UNCOUNTED, UNLIMITED, Filter, Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.columnar.journal import GROUPS, VOLATILE
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident

_TRIAL: Final = "capacity"

# A slice ends after this much work, in reads of a row's state; a trial placement counts as ten.
# That is about 20 ms.
_SLICE_WORK: Final = 800
_TRIAL_WORK: Final = 10
# Rows that change meanwhile are counted again in so many rounds, the last one without slices.
_ROUNDS_MAX: Final = 4

_T = TypeVar("_T")
Slices: TypeAlias = Generator[None, None, _T]
"""Work that yields after each slice, and returns its result."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The hosts that pass the filters, and the number of further instances that fit on each.

    `rows` and `counts` are (K,). With `on_one_host`, all instances must share one of the hosts.
    With `is_partial`, the counts are lower bounds, because counting stopped at its limit.
    """

    rows: Rows
    counts: Ints
    on_one_host: bool = False
    is_partial: bool = False

    @property
    def total(self) -> int:
        """The number of further instances that fit on all hosts together."""
        counts: list[int] = self.counts.tolist()
        return max(counts, default=0) if self.on_one_host else sum(counts)


def capacity_for(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    *,
    now_s: float,
    trials_max: int | None = None,
) -> Capacity:
    """Return the number of instances like the request's that would be placed on each host.

    This is `capacity_in_slices` in one go; see there.
    """
    return _in_one_go(
        capacity_in_slices(hosts, request, policy, now_s=now_s, trials_max=trials_max)
    )


def capacity_in_slices(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    *,
    now_s: float,
    trials_max: int | None = None,
) -> Slices[Capacity]:
    """Count the instances like the request's that would be placed on each host, slice by slice.

    The generator yields after each slice of work and returns the capacity. While it is suspended,
    the table is as if nothing were counted and may change: rows that change are counted again, so
    the result is that of the table at the time of the return. On a table that changes all the time,
    the last slice is longer instead.

    A number that nothing limits is given as `COUNT_MAX`, the maximum of one request. The ledger's
    limits apply even if the policy lacks the filters that check them.

    Args:
        hosts: the table.
        request: describes one instance; its number of instances is ignored.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        trials_max: the number of trial placements after which counting stops; None for no limit.
            Those that are repeated because the table changed do not count.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a filter
            that the request requires.
    """
    trials = _TrialCounts(hosts)
    rounds = 0
    while True:
        rounds += 1
        query, filters, rows = _survey(hosts, request, policy, now_s)
        if unsupported_group(hosts, request, policy) is not None:
            return Capacity(rows, np.zeros(rows.size, dtype=np.int64))
        if rows.size and not _are_hosts_independent(filters):
            planned = yield from _by_planning(hosts, request, policy, now_s, trials_max)
            return planned.capacity(_survey(hosts, request, policy, now_s).rows)
        counts, uncounted, open_ = _counts_by_rules(hosts, query, filters, rows)
        trials.begin(query, uncounted, Assigner(filters), trials_max)
        slices = trials.count(rows[open_], counts[open_])
        if rounds < _ROUNDS_MAX:
            is_final = yield from slices
        else:
            is_final = _in_one_go(slices)
        if is_final or rounds == _ROUNDS_MAX:
            break
    for index in open_.tolist():
        counts[index] = trials.counts[int(rows[index])]
    # The host of the first member binds the others; a present member has left only its own hosts.
    together = query.group is not None and query.group.policy is GroupPolicy.AFFINITY
    on_one_host = together and not hosts.occupants.groups.rows(request.group_uuid or "")
    return Capacity(rows, counts, on_one_host, trials.is_stopped)


def _in_one_go(slices: Slices[_T]) -> _T:
    """Return the result of work without interrupting it."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: _T = end.value
            return found


class _Survey(NamedTuple):
    """The query of one instance, the filters that apply to it, and the rows that pass them."""

    query: Query
    filters: tuple[Filter, ...]
    rows: Rows


def _survey(hosts: HostTable, request: Request, policy: Policy, now_s: float) -> _Survey:
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    query = Query(request, request.needs, now_s, group, request.instance_uuids[0])
    # The effective filters are used, since drivers such as `simple` add a limit of their own.
    effective = policy.effective(request.operation).filters
    chain = FilterChain(hosts, effective, reduce_hosts(hosts, request))
    rows = np.flatnonzero(chain.run(query).mask & chain.passes_group_rules(query))
    # A plan on forced hosts must keep the policy of the group as well.
    return _Survey(query, (*chain.filters, *chain.group_rules), rows)


def _are_hosts_independent(filters: Sequence[Filter]) -> bool:
    """Return whether an instance on one host never changes the verdicts on other hosts.

    The affinity of a group is an exception that `Capacity.on_one_host` expresses.
    """
    return all(rule.reads.row_local and set(rule.reads.columns) <= set(GROUPS) for rule in filters)


def _counts_by_rules(
    hosts: HostTable, query: Query, filters: Sequence[Filter], rows: Rows
) -> tuple[Ints, list[Filter], Rows]:
    """Return the most instances that pass in turn on each of K rows that pass at all, as rules say.

    The result is the (K,) numbers, the filters that must be evaluated again after trial placements,
    and the indices of the rows whose number is only an upper bound without them.
    """
    # The ledger's limits come first; the filters that check the same limits share the function.
    counts = repeats_by_amounts(hosts, query, rows)
    uncounted: list[Filter] = []
    is_open = np.zeros(rows.size, dtype=np.bool_)
    asked = [rule for rule in filters if rule.repeats is not repeats_by_amounts]
    for rule in asked:
        if not _may_change(hosts, query, rule, rows):
            continue
        found = (
            np.full(rows.size, UNCOUNTED)
            if rule.repeats is None
            else rule.repeats(hosts, query, rows)
        )
        known = found != UNCOUNTED
        np.minimum(counts, found, out=counts, where=known)
        if not known.all():
            uncounted.append(rule)
            is_open |= ~known
            bound = None if rule.bound is None else rule.bound(hosts, query)
            if bound is not None:
                # A lower maximum spares trial placements.
                limited = ~known & (bound[rows] < counts)
                counts[limited] = bound[rows[limited]]
    counts[counts == UNLIMITED] = COUNT_MAX
    return counts, uncounted, np.flatnonzero(is_open & (counts > 0))


def _may_change(hosts: HostTable, query: Query, rule: Filter, rows: Rows) -> bool:
    """Return whether placing instances of the query may change a filter's verdict on their host."""
    is_constant = rule.once_per_request or not VOLATILE.intersection(rule.reads.columns)
    return not is_constant and rule.keep(hosts, query, rows[:1]) is not None


Positions: TypeAlias = Mapping[str, int]
"""The positions in the journal of a table, by group of columns."""


def _positions(hosts: HostTable) -> Positions:
    return {group: hosts.journal.position(group) for group in GROUPS}


def _changed_since(hosts: HostTable, at: Positions) -> frozenset[int] | None:
    """Return the rows that changed since these positions; None if that is not known."""
    found: set[int] = set()
    for group, position in at.items():
        rows = hosts.journal.since(group, position)
        if rows is None:
            return None
        found.update(rows)
    return frozenset(found)


class _Remaining(NamedTuple):
    """The number of instances that pass in turn from a state on.

    It is a lower bound unless `is_exact`, because the count ended at the bound of its row.
    """

    number: int
    is_exact: bool


class _TrialCounts:
    """Counts the instances that pass on a row in turn, by placing them on trial.

    Rows that reach equal states share one count. While the work is suspended the table may change:
    the counts of rows that change are forgotten, and so are the states.

    Attributes:
        counts: the numbers, by row.
        is_stopped: whether a count of the latest round has ended at `trials_max`. Its number is a
            lower bound: the instances that are known to pass.
    """

    def __init__(self, hosts: HostTable) -> None:
        self.counts: dict[int, int] = {}
        self.is_stopped = False
        self._hosts = hosts
        self._query: Query | None = None
        self._states: dict[Hashable, _Remaining] = {}
        self._work = 0

    def begin(
        self,
        query: Query,
        filters: Sequence[Filter],
        assigner: Assigner,
        trials_max: int | None,
    ) -> None:
        """Begin a round; numbers that are known from the previous ones stay."""
        # No instance of the table has this UUID, as for the next instance of a request.
        query = query._replace(instance_uuid=_TRIAL)
        if self._query is not None and query.group != self._query.group:
            self.counts.clear()
            self.is_stopped = False
        self._query = query
        self._filters = filters
        self._assigner = assigner
        self._readers = tuple(dict.fromkeys(rule.state_of for rule in filters))
        self._states.clear()
        self._trials_max = trials_max
        self._number = 0

    def count(self, rows: Rows, most: Ints) -> Slices[bool]:
        """Count rows whose number is not known; return whether the table cannot have changed.

        If it may have changed, some rows may still be without a number.

        Args:
            rows: K rows that pass the filters for one instance.
            most: (K,) upper bounds, at least 1.
        """
        query, is_same = self._query, True
        stale: set[int] = set()  # the rows that have changed since their bounds were computed
        # Rows with large bounds come first, so that others can share their counts.
        for index in np.argsort(-most, kind="stable").tolist():
            row = int(rows[index])
            if row in self.counts or row in stale or query is None:
                continue
            counting = _RowCount(row, int(most[index]))
            while not self._advance(counting, query):
                is_same = False
                changed = yield from self._pause()
                if changed is None:
                    return False
                stale |= changed
                if row in stale:
                    break
            else:
                self._keep(counting)
        return is_same

    def _pause(self) -> Slices[frozenset[int] | None]:
        """Let others change the table; return the rows that they have changed, None for any."""
        at = _positions(self._hosts)
        yield
        self._work = 0
        changed = _changed_since(self._hosts, at)
        if changed != frozenset():
            self._states.clear()
        for row in list(self.counts) if changed is None else changed:
            self.counts.pop(row, None)
        return changed

    def _advance(self, one: "_RowCount", query: Query) -> bool:
        """Go on counting a row; return whether that is done, as opposed to the slice."""
        with Trial(self._hosts, query.needs) as trial:
            for resident in one.placed:
                trial.place(one.row, resident, query.attributes)
            while not one.is_done:
                if self._work >= _SLICE_WORK:
                    return False
                self._step(trial, one, query)
        return True

    def _step(self, trial: Trial, one: "_RowCount", query: Query) -> None:
        """Count one more instance on a row, or all further ones if their number is known."""
        self._work += 1
        state = self._state(one.row, query)
        known = None if state is None else self._states.get(state)
        may_place = self._trials_max is None or self._number < self._trials_max
        if one.states and state is not None and state == one.states[-1]:
            # The row is in the same state as before its last instance, so nothing limits it.
            one.end(one.most, is_exact=False)
        elif known is not None and (
            known.is_exact or one.number + known.number >= one.most or not may_place
        ):
            one.end(one.number + known.number, is_exact=known.is_exact)
        else:
            one.states.append(state)
            one.number += 1
            if one.number == one.most or not may_place:
                one.end(one.number, is_exact=False)
            else:
                one.placed.append(self._place(trial, one.row, query))
                if not self._passes(one.row, query):
                    one.end(one.number, is_exact=True)
        self.is_stopped |= one.is_done and not one.is_exact and one.number < one.most

    def _keep(self, one: "_RowCount") -> None:
        self.counts[one.row] = min(one.number, one.most)
        for number, state in enumerate(one.states):
            if state is not None:
                self._states[state] = _Remaining(one.number - number, one.is_exact)

    def _state(self, row: int, query: Query) -> Hashable | None:
        """Return the state of a row; None if a filter does not say what its verdicts depend on."""
        found: list[Hashable] = []
        for read in self._readers:
            if read is None:
                return None
            found.append(read(self._hosts, query, row))
        return tuple(found)

    def _place(self, trial: Trial, row: int, query: Query) -> Resident:
        self._number += 1
        self._work += _TRIAL_WORK
        one = query._replace(instance_uuid=f"{_TRIAL}-{self._number}")
        resident = one.resident_with(self._assigner(self._hosts, one, row))
        trial.place(row, resident, one.attributes)
        return resident

    def _passes(self, row: int, query: Query) -> bool:
        rows = np.array((row,), dtype=np.intp)
        verdicts = (rule.keep(self._hosts, query, rows) for rule in self._filters)
        return all(verdict is None or bool(verdict[0]) for verdict in verdicts)


@dataclass(slots=True)
class _RowCount:
    """The count of one row, which may take several slices.

    Attributes:
        row: the row.
        most: the bound of the number, at least 1.
        number: the instances that pass so far; it may exceed the bound once the count is done.
        placed: those that are on trial.
        states: the state of the row before each of them; None if it is not known.
        is_done: whether the count has ended.
        is_exact: whether it ended with an instance that does not pass.
    """

    row: int
    most: int
    number: int = 0
    placed: list[Resident] = field(default_factory=list[Resident])
    states: list[Hashable | None] = field(default_factory=list[Hashable | None])
    is_done: bool = False
    is_exact: bool = False

    def end(self, number: int, *, is_exact: bool) -> None:
        """End the count with a number of instances."""
        self.number, self.is_done, self.is_exact = number, True, is_exact


def _by_planning(
    hosts: HostTable, request: Request, policy: Policy, now_s: float, trials_max: int | None
) -> "Slices[_PlanSearch]":
    """Return the search for the largest plan, at most `COUNT_MAX` instances, found by bisection.

    This is slow, but right for rules whose verdicts depend on other hosts. It stops before all its
    plans together exceed `trials_max` instances, and yields between two plans. If the table changes
    there, the search begins again, at last without yielding.
    """
    rounds = 0
    while True:
        rounds += 1
        search, is_steady = _PlanSearch(hosts, request, policy, now_s), True
        while is_steady and search.step(trials_max):
            if rounds < _ROUNDS_MAX:
                at = _positions(hosts)
                yield
                is_steady = _changed_since(hosts, at) == frozenset()
        if is_steady:
            return search


class _PlanSearch:
    """The bisection for the largest number of instances that a plan can place."""

    def __init__(self, hosts: HostTable, request: Request, policy: Policy, now_s: float) -> None:
        self._hosts = hosts
        self._request = request
        self._policy = policy
        self._now_s = now_s
        self._best = Plan({})
        self._fits, self._too_many, self._planned = 0, COUNT_MAX + 1, 0

    def step(self, trials_max: int | None) -> bool:
        """Make one plan; return whether a further one is needed and permitted."""
        # Counts are doubled first, because most capacities are far below the limit.
        count = min(max(2 * self._fits, 1), (self._fits + self._too_many) // 2)
        if trials_max is not None and self._planned + count > trials_max:
            return False
        self._planned += count
        tried = self._plan(count)
        if tried.refusal is None:
            self._best, self._fits = tried, count
        else:
            self._too_many = count
        return self._too_many - self._fits > 1

    def _plan(self, count: int) -> Plan:
        uuids = tuple(f"{_TRIAL}-{number}" for number in range(count))
        asked = replace(self._request, instance_uuids=uuids)
        seed = seed_of(asked.request_id)
        return plan_with_group_policy(
            self._hosts, asked, self._policy, now_s=self._now_s, seed=seed
        )

    def capacity(self, rows: Rows) -> Capacity:
        """Return the number of instances that the largest plan places on each of K rows."""
        per_row = Counter(self._hosts.row_of(one.provider_uuid) for one in self._best.placements)
        counts = np.array([per_row[row] for row in rows.tolist()], dtype=np.int64)
        return Capacity(rows, counts, is_partial=self._too_many - self._fits > 1)
