"""Capacity: the number of further instances that the scheduler would place, host by host.

Some rules can compute the number of instances that pass on a host in turn (`Filter.repeats`); the
result is at most the smallest of these numbers. The other rules are evaluated again after each
instance that is placed on trial, once for all hosts in equal states, up to their bounds
(`Filter.bound`).
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

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

_TRIAL: Final = "capacity"


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

    A number that nothing limits is given as `COUNT_MAX`, the maximum of one request. The ledger's
    limits apply even if the policy lacks the filters that check them.

    Args:
        hosts: the table, which is unchanged when the call returns.
        request: describes one instance; its number of instances is ignored.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        trials_max: the number of trial placements after which counting stops; None for no limit.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a filter
            that the request requires.
    """
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    query = Query(request, request.needs, now_s, group, request.instance_uuids[0])
    # The effective filters are used, since drivers such as `simple` add a limit of their own.
    effective = policy.effective(request.operation).filters
    chain = FilterChain(hosts, effective, reduce_hosts(hosts, request))
    rows = np.flatnonzero(chain.run(query).mask & chain.passes_group_rules(query))
    if unsupported_group(hosts, request, policy) is not None:
        return Capacity(rows, np.zeros(rows.size, dtype=np.int64))
    # A plan on forced hosts must keep the policy of the group as well.
    filters = (*chain.filters, *chain.group_rules)
    if rows.size and not _are_hosts_independent(filters):
        return _by_planning(hosts, request, policy, rows, now_s, trials_max)
    counts, is_partial = _counts_in_turn(hosts, query, filters, rows, trials_max)
    # The host of the first member binds the others; a present member has left only its own hosts.
    together = group is not None and group.policy is GroupPolicy.AFFINITY
    on_one_host = together and not hosts.occupants.groups.rows(request.group_uuid or "")
    return Capacity(rows, counts, on_one_host, is_partial)


def _are_hosts_independent(filters: Sequence[Filter]) -> bool:
    """Return whether an instance on one host never changes the verdicts on other hosts.

    The affinity of a group is an exception that `Capacity.on_one_host` expresses.
    """
    return all(rule.reads.row_local and set(rule.reads.columns) <= set(GROUPS) for rule in filters)


def _counts_in_turn(
    hosts: HostTable,
    query: Query,
    filters: Sequence[Filter],
    rows: Rows,
    trials_max: int | None,
) -> tuple[Ints, bool]:
    """Return the number of instances that pass in turn on each row that passes at all: (K,).

    The second value tells whether `trials_max` ended the count, so that some numbers are too low.
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
    trial = np.flatnonzero(is_open & (counts > 0))
    if not trial.size:
        return counts, False
    trials = _TrialCounts(hosts, query, uncounted, Assigner(filters), trials_max)
    counts[trial] = trials.count(rows[trial], counts[trial])
    return counts, trials.is_stopped


def _may_change(hosts: HostTable, query: Query, rule: Filter, rows: Rows) -> bool:
    """Return whether placing instances of the query may change a filter's verdict on their host."""
    is_constant = rule.once_per_request or not VOLATILE.intersection(rule.reads.columns)
    return not is_constant and rule.keep(hosts, query, rows[:1]) is not None


class _TrialCounts:
    """Counts instances that pass on rows in turn, by placing them on trial.

    Rows that reach equal states share one count, although they may have begun with different ones.

    Attributes:
        is_stopped: whether `trials_max` has ended a count before its last placement.
    """

    def __init__(
        self,
        hosts: HostTable,
        query: Query,
        filters: Sequence[Filter],
        assigner: Assigner,
        trials_max: int | None,
    ) -> None:
        self.is_stopped = False
        self._trials_max = trials_max
        self._hosts = hosts
        # No instance of the table has this UUID, as for the next instance of a request.
        self._query = query._replace(instance_uuid=_TRIAL)
        self._filters = filters
        self._assigner = assigner
        self._readers = tuple(dict.fromkeys(rule.state_of for rule in filters))
        self._seen: dict[Hashable, tuple[int, int]] = {}
        self._followed: list[tuple[int, int, int]] = []
        self._number = 0

    def count(self, rows: Rows, most: Ints) -> Ints:
        """Return, for each row, the number of instances that pass one after another.

        If `trials_max` ends the count, the number of each unfinished row is a lower bound: the
        instances that are known to pass.

        Args:
            rows: K rows that pass the filters for one instance.
            most: (K,) upper bounds, at least 1.
        """
        # Rows with large bounds come first, so that others can share their counts.
        order = np.argsort(-most, kind="stable")
        counts = np.zeros(rows.size, dtype=np.int64)
        active = order
        with Trial(self._hosts, self._query.needs) as trial:
            while active.size:
                active = self._leading(active, rows, counts, most)
                placed = self._within_limit(active)
                for row in rows[placed].tolist():
                    self._place(trial, row)
                # The next instance passes on each of these rows, even if it is not placed there.
                counts[active] += 1
                if placed.size < active.size:
                    self.is_stopped = True
                    break
                active = active[counts[active] < most[active]]
                active = active[self._passes(rows[active])]
        # A row that is followed may itself follow another one, but only from a later step on.
        for index, leader, more in reversed(self._followed):
            counts[index] = min(counts[leader] + more, most[index])
        return counts

    def _within_limit(self, active: Rows) -> Rows:
        """Return the first active indices, at most as many as `trials_max` still permits."""
        if self._trials_max is None:
            return active
        return active[: max(self._trials_max - self._number, 0)]

    def _leading(self, active: Rows, rows: Rows, counts: Ints, most: Ints) -> Rows:
        """Return the active indices without those that follow another row with an equal state."""
        leading: list[int] = []
        for index in active.tolist():
            state = self._state(int(rows[index]))
            here = int(counts[index])
            leader, there = self._seen.get(state, (-1, 0)) if state is not None else (-1, 0)
            if leader == index:
                # The row is in the same state as before its last instance, so nothing limits it.
                counts[index] = most[index]
            elif leader >= 0 and most[leader] - there >= most[index] - here:
                self._followed.append((index, leader, here - there))
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

    def _place(self, trial: Trial, row: int) -> None:
        self._number += 1
        one = self._query._replace(instance_uuid=f"{_TRIAL}-{self._number}")
        resident = one.resident_with(self._assigner(self._hosts, one, row))
        trial.place(row, resident, one.attributes)

    def _passes(self, rows: Rows) -> Mask:
        mask = np.ones(rows.size, dtype=np.bool_)
        for rule in self._filters if rows.size else ():
            verdict = rule.keep(self._hosts, self._query, rows)
            if verdict is not None:
                mask &= verdict
        return mask


def _by_planning(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    rows: Rows,
    now_s: float,
    trials_max: int | None,
) -> Capacity:
    """Return the largest plan, at most `COUNT_MAX` instances, found by bisection.

    This is slow, but right for rules whose verdicts depend on other hosts. It stops before all its
    plans together exceed `trials_max` instances.
    """

    def plan(count: int) -> Plan:
        uuids = tuple(f"{_TRIAL}-{number}" for number in range(count))
        asked = replace(request, instance_uuids=uuids)
        return plan_with_group_policy(
            hosts, asked, policy, now_s=now_s, seed=seed_of(request.request_id)
        )

    best, fits, too_many, planned = Plan({}), 0, COUNT_MAX + 1, 0
    while too_many - fits > 1:
        # Counts are doubled first, because most capacities are far below the limit.
        count = min(max(2 * fits, 1), (fits + too_many) // 2)
        planned += count
        if trials_max is not None and planned > trials_max:
            break
        tried = plan(count)
        if tried.refusal is None:
            best, fits = tried, count
        else:
            too_many = count
    per_row = Counter(hosts.row_of(one.provider_uuid) for one in best.placements)
    counts = np.array([per_row[row] for row in rows.tolist()], dtype=np.int64)
    return Capacity(rows, counts, is_partial=too_many - fits > 1)
