"""The hosts that a member of a server group may go to, with regard to the rest of its request.

Under hard affinity, the host of a request's first instance is that of all its instances, so it is
chosen among the hosts that can take all of them. Nova chooses it for the first instance alone and
refuses the request if the others do not fit there (nova-behaviour.md 6.1).
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.evaluation.assignments import Assigner
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.ranking import Ranking, RestrictedRanking
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.filters.server_groups import AFFINITY, ANTI_AFFINITY
from berth.scheduling.rules.rule import Filter, Query, Scores
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

_HARD_FILTERS: Final = frozenset({AFFINITY, ANTI_AFFINITY})


class RequestRules(Protocol):
    """The filters that apply to a request, and the assigner built from them."""

    @property
    def chain(self) -> FilterChain:
        """The filters that apply to the request."""
        ...

    @property
    def assigner(self) -> Assigner:
        """The assigner of hardware and child providers, from these filters."""
        ...


def within_group(hosts: HostTable, query: Query, rules: RequestRules, ranked: Ranking) -> Ranking:
    """Return the part of a ranking that keeps the hard policy of the request's group.

    The result is `ranked` if the group permits all hosts. If it permits none, the result depends
    on the request. For a request that forces hosts, it is `ranked`, and the check of the plan then
    refuses the request. For another request, it is the hosts that take the most instances, so that
    the refusal says how many fit.

    Args:
        hosts: the table, with the request's earlier instances on it.
        query: the instance to be placed.
        rules: the rules of the request; read only if the group restricts the hosts.
        ranked: the hosts that pass the filters; at least one.
    """
    request = query.request
    is_forced = bool(request.force_hosts or request.force_nodes)
    is_first = _is_first_of_several(hosts, query)
    if not is_first and not (is_forced and query.group):
        return ranked
    chain = rules.chain
    skipped = _skipped_filters(chain)
    kept = _permitted(hosts, query, skipped, ranked)
    filters = (*chain.filters, *skipped)
    if not is_first or all(rule.name != AFFINITY for rule in filters):
        return kept
    room = _HostRoom(hosts, query, filters, rules.assigner)
    whole = room.restricted(kept, len(request.instance_uuids))
    return whole if whole.best(1) else room.restricted(kept, room.most(kept))


def _skipped_filters(chain: FilterChain) -> tuple[Filter, ...]:
    """Return the filters of groups that a request which forces hosts skips."""
    run = {id(rule) for rule in chain.filters}
    every = (rule for rule in chain.holding(forced=False) if rule.name in _HARD_FILTERS)
    return tuple(rule for rule in every if id(rule) not in run)


def _permitted(
    hosts: HostTable, query: Query, skipped: Sequence[Filter], ranked: Ranking
) -> Ranking:
    """Return the part of a ranking that passes the skipped filters; all of it if none passes."""
    mask = hosts.alive.copy()
    verdicts = [rule.keep(hosts, query, hosts.all_rows) for rule in skipped]
    for verdict in verdicts:
        if verdict is not None:
            mask &= verdict
    kept = RestrictedRanking(ranked, lambda row: bool(mask[row]))
    return kept if any(one is not None for one in verdicts) and kept.best(1) else ranked


def _is_first_of_several(hosts: HostTable, query: Query) -> bool:
    """Return whether the host of an instance will be that of the request's other instances."""
    group = query.group
    if group is None or group.policy is not GroupPolicy.AFFINITY:
        return False
    if len(query.request.instance_uuids) == 1:
        return False
    # With a member on a host, only that host passes the filter, so there is nothing to choose.
    return not hosts.occupants.groups.rows(group.uuid)


class _HostRoom:
    """How many instances of a request fit on each host, by placing them on trial."""

    def __init__(
        self, hosts: HostTable, query: Query, filters: Sequence[Filter], assigner: Assigner
    ) -> None:
        self._hosts = hosts
        self._query = query
        # A filter with one verdict per request has already passed the ranked hosts.
        self._filters = tuple(rule for rule in filters if not rule.once_per_request)
        self._assigner = assigner
        self._asked = len(query.request.instance_uuids)
        self._counts: dict[int, int] = {}
        self._bounds = self._bounds_of(filters)

    def restricted(self, ranked: Ranking, instances: int) -> Ranking:
        """Return the part of a ranking that takes so many instances of the request."""

        def permits(row: int) -> bool:
            return self._bounds.item(row) >= instances <= self._count(row)

        return RestrictedRanking(ranked, permits)

    def most(self, ranked: Ranking) -> int:
        """Return the most instances of the request that a host of a ranking takes."""
        found = 0
        rows = (ranked.row(number) for number in ranked.best(ranked.size))
        # Hosts with the highest bounds come first, so that most of the others need no trial.
        for row in sorted(rows, key=lambda row: -self._bounds.item(row)):
            if self._bounds.item(row) <= found:
                break
            found = max(found, self._count(row))
        return found

    def _count(self, row: int) -> int:
        found = self._counts.get(row)
        if found is None:
            found = self._counts[row] = self._placed_on_trial(row)
        return found

    def _placed_on_trial(self, row: int) -> int:
        hosts, query = self._hosts, self._query
        here: Rows = np.array((row,), dtype=np.intp)
        with Trial(hosts, query.needs) as trial:
            for number, uuid in enumerate(query.request.instance_uuids):
                one = query._replace(instance_uuid=uuid)
                if number and not self._passes(one, here):
                    return number
                resident = one.resident_with(self._assigner(hosts, one, row))
                trial.place(row, resident, one.attributes)
        return self._asked

    def _passes(self, query: Query, here: Rows) -> bool:
        verdicts = (rule.keep(self._hosts, query, here) for rule in self._filters)
        return all(verdict is None or verdict.item(0) for verdict in verdicts)

    def _bounds_of(self, filters: Sequence[Filter]) -> Scores:
        """Return an upper bound on the number of instances that fit on each row: (N,)."""
        hosts = self._hosts
        bounds = np.full(len(hosts), float(self._asked))
        for rule in filters:
            bound = None if rule.bound is None else rule.bound(hosts, self._query)
            if bound is not None:
                np.minimum(bounds, bound, out=bounds)
        return bounds
