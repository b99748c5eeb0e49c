"""Capacity: the number of further instances that the scheduler would place, host by host.

Some rules can compute the number of instances that pass on a host in turn (`Filter.repeats`); the
result is at most the smallest of these numbers. The other rules are evaluated again after each
instance that is placed on trial, once for all hosts in equal states, up to their bounds
(`Filter.bound`).
"""

from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.columnar.journal import GROUPS, VOLATILE
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident

_TRIAL: Final = "capacity"

# A slice ends after this much work, in reads of a row's state; a trial placement counts as ten.
# That is about 20 ms.
_SLICE_WORK: Final = 800
_TRIAL_WORK: Final = 10
# So many rows are counted together, and begin again if one of them changes between two slices.
_CHUNK: Final = 64
_RESTARTS_MAX: Final = 3
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
    known, group, is_partial = _KnownCounts(hosts), None, False
    rounds = 0
    while True:
        rounds += 1
        query, filters, rows = _survey(hosts, request, policy, now_s)
        if unsupported_group(hosts, request, policy) is not None:
            return Capacity(rows, np.zeros(rows.size, dtype=np.int64))
        if rows.size and not _are_hosts_independent(filters):
            planned = yield from _by_planning(hosts, request, policy, now_s, trials_max)
            return planned.capacity(_survey(hosts, request, policy, now_s).rows)
        if query.group != group:
            known, group = _KnownCounts(hosts), query.group
        counts, uncounted, trial = _counts_by_rules(hosts, query, filters, rows)
        left = known.take(rows, counts, trial)
        trials = _TrialCounts(hosts, query, uncounted, Assigner(filters), trials_max)
        slices = trials.count(rows[left], counts[left])
        if rounds == _ROUNDS_MAX:
            counts[left] = _in_one_go(slices)
        else:
            counts[left] = yield from slices
        is_partial |= trials.is_stopped
        known.add(trials.counted)
        if not trials.has_yielded or rounds == _ROUNDS_MAX:
            break
    # The host of the first member binds the others; a present member has left only its own hosts.
    together = group is not None and group.policy is GroupPolicy.AFFINITY
    on_one_host = together and not hosts.occupants.groups.rows(request.group_uuid or "")
    return Capacity(rows, counts, on_one_host, is_partial)


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


class _KnownCounts:
    """The numbers that earlier rounds found on rows that have not changed since."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self._counted: list[tuple[dict[int, int], Positions]] = []

    def add(self, counted: Iterable[tuple[dict[int, int], Positions]]) -> None:
        """Keep numbers by row, with the positions in the journal at which they were right."""
        self._counted.extend(counted)

    def take(self, rows: Rows, counts: Ints, indices: Rows) -> Rows:
        """Write the known numbers into `counts`; return the other ones of these indices."""
        known: dict[int, int] = {}
        for numbers, at in self._counted:
            changed = _changed_since(self._hosts, at)
            if changed is not None:
                known |= {row: n for row, n in numbers.items() if row not in changed}
        left: list[int] = []
        for index, row in zip(indices.tolist(), rows[indices].tolist(), strict=True):
            if row in known:
                counts[index] = known[row]
            else:
                left.append(index)
        return np.array(left, dtype=np.intp)


class _Chunk:
    """A few rows, by their indices, that are counted together.

    Attributes:
        indices: all of them.
        active: those where one more instance passes.
        placed: the instances on trial, by index.
        followed: (index, leader, more): the index has `more` instances than its leader.
    """

    def __init__(self, indices: Rows) -> None:
        self.indices = self.active = indices
        self.placed: dict[int, list[Resident]] = {index: [] for index in indices.tolist()}
        self.followed: list[tuple[int, int, int]] = []


class _TrialCounts:
    """Counts instances that pass on rows in turn, by placing them on trial.

    Rows that reach equal states share one count, although they may have begun with different ones.

    Attributes:
        is_stopped: whether `trials_max` has ended a count before its last placement.
        has_yielded: whether the table may have changed while it counted.
        counted: the numbers by row, with the positions in the journal at which they were right.
    """

    def __init__(
        self,
        hosts: HostTable,
        query: Query,
        filters: Sequence[Filter],
        assigner: Assigner,
        trials_max: int | None,
    ) -> None:
        self.is_stopped = self.has_yielded = False
        self.counted: list[tuple[dict[int, int], Positions]] = []
        self._trials_max = trials_max
        self._hosts = hosts
        # No instance of the table has this UUID, as for the next instance of a request.
        self._query = query._replace(instance_uuid=_TRIAL)
        self._filters = filters
        self._assigner = assigner
        self._readers = tuple(dict.fromkeys(rule.state_of for rule in filters))
        self._seen: dict[Hashable, tuple[int, int]] = {}
        # The rows that have changed since the count began; None if they are not known.
        self._stale: frozenset[int] | None = frozenset()
        self._number = 0
        self._work = 0

    def count(self, rows: Rows, most: Ints) -> Slices[Ints]:
        """Count, for each row, the instances that pass one after another; yield after each slice.

        If `trials_max` ends the count, the number of each unfinished row is a lower bound: the
        instances that are known to pass.

        Args:
            rows: K rows that pass the filters for one instance.
            most: (K,) upper bounds, at least 1.
        """
        # Rows with large bounds come first, so that others can share their counts.
        order = np.argsort(-most, kind="stable")
        counts = np.zeros(rows.size, dtype=np.int64)
        for start in range(0, rows.size, _CHUNK):
            chunk = yield from self._count_chunk(order[start : start + _CHUNK], rows, counts, most)
            numbers = dict(zip(rows[chunk].tolist(), counts[chunk].tolist(), strict=True))
            self.counted.append((numbers, _positions(self._hosts)))
            if self._is_due() and start + _CHUNK < rows.size:
                yield from self._pause()
        return counts

    def _pause(self) -> Slices[None]:
        self.has_yielded = True
        at = _positions(self._hosts)
        yield
        self._work = 0
        changed = _changed_since(self._hosts, at)
        if changed is None or self._stale is None:
            self._stale = None
        else:
            self._stale |= changed

    def _fresh(self, indices: Rows, rows: Rows) -> Rows:
        """Return the indices of rows that have not changed since their bounds were computed."""
        if self._stale is None:
            return indices[:0]
        return indices[[row not in self._stale for row in rows[indices].tolist()]]

    def _count_chunk(self, indices: Rows, rows: Rows, counts: Ints, most: Ints) -> Slices[Rows]:
        """Count some rows, and return the indices of those that have not changed meanwhile."""
        seen, number, restarts = dict(self._seen), self._number, 0
        chunk = _Chunk(self._fresh(indices, rows))
        while True:
            with Trial(self._hosts, self._query.needs) as trial:
                for index in chunk.active.tolist():
                    for resident in chunk.placed[index]:
                        trial.place(int(rows[index]), resident, self._query.attributes)
                while chunk.active.size and not (self._is_due() and restarts < _RESTARTS_MAX):
                    self._step(trial, chunk, rows, counts, most)
            if not chunk.active.size:
                break
            yield from self._pause()
            fresh = self._fresh(chunk.indices, rows)
            if fresh.size < chunk.indices.size:
                # Others may follow a row that has changed, so the rest begins again.
                restarts += 1
                chunk, self._seen, self._number = _Chunk(fresh), dict(seen), number
                counts[indices] = 0
        # A row that is followed may itself follow another one, but only from a later step on.
        for index, leader, more in reversed(chunk.followed):
            counts[index] = min(counts[leader] + more, most[index])
        return chunk.indices

    def _step(self, trial: Trial, chunk: "_Chunk", rows: Rows, counts: Ints, most: Ints) -> None:
        """Count one more instance on each active row, and find those where a further one passes."""
        self._work += chunk.active.size
        active = self._leading(chunk, rows, counts, most)
        counts[active] += 1
        active = active[counts[active] < most[active]]
        placed = self._within_limit(active)
        for index in placed.tolist():
            chunk.placed[index].append(self._place(trial, int(rows[index])))
        self._work += _TRIAL_WORK * placed.size
        if placed.size < active.size:
            self.is_stopped = True
            active = active[:0]
        chunk.active = active[self._passes(rows[active])]

    def _is_due(self) -> bool:
        return self._work >= _SLICE_WORK

    def _within_limit(self, active: Rows) -> Rows:
        """Return the first active indices, at most as many as `trials_max` still permits."""
        if self._trials_max is None:
            return active
        return active[: max(self._trials_max - self._number, 0)]

    def _leading(self, chunk: "_Chunk", rows: Rows, counts: Ints, most: Ints) -> Rows:
        """Return the active indices without those that follow another row with an equal state."""
        leading: list[int] = []
        for index in chunk.active.tolist():
            state = self._state(int(rows[index]))
            here = int(counts[index])
            leader, there = self._seen.get(state, (-1, 0)) if state is not None else (-1, 0)
            if leader == index:
                # The row is in the same state as before its last instance, so nothing limits it.
                counts[index] = most[index]
            elif leader >= 0 and most[leader] - there >= most[index] - here:
                chunk.followed.append((index, leader, here - there))
            else:
                leading.append(index)
                if state is not None:
                    self._seen[state] = (index, here)
        return np.array(leading, dtype=np.intp)

    def _state(self, row: int) -> Hashable | None:
        """Return the state of a row; None if a filter does not say what its verdicts depend on."""
        found: list[Hashable] = []
        for read in self._readers:
            if read is None:
                return None
            found.append(read(self._hosts, self._query, row))
        return tuple(found)

    def _place(self, trial: Trial, row: int) -> Resident:
        self._number += 1
        one = self._query._replace(instance_uuid=f"{_TRIAL}-{self._number}")
        resident = one.resident_with(self._assigner(self._hosts, one, row))
        trial.place(row, resident, one.attributes)
        return resident

    def _passes(self, rows: Rows) -> Mask:
        mask = np.ones(rows.size, dtype=np.bool_)
        for rule in self._filters if rows.size else ():
            verdict = rule.keep(self._hosts, self._query, rows)
            if verdict is not None:
                mask &= verdict
        return mask


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
