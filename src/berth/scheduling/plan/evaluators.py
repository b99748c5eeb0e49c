"""Evaluators, which rank the hosts for instances, in full or from the engine's cache."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from berth.domain.compute.decision import FilterCount, Refusal
from berth.domain.compute.request import Request
from berth.scheduling.engine.engine import Engine, ProfileRanking, engine_of
from berth.scheduling.engine.request_profile import RequestProfile
from berth.scheduling.evaluation.assignments import Assigner
from berth.scheduling.evaluation.explain import explain_refusal
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.guarded_rules import GuardedRules, RuleFailure
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.ranking import Ranking
from berth.scheduling.rules.reduction import is_reduced, reduce_hosts
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

Rank = Callable[[HostTable, Query, Rows], Ranking]
"""(hosts, query, rows) -> the ranking of the rows that passed the filters."""


class Evaluation(NamedTuple):
    """The ranked hosts for one instance.

    `counts` returns the number of hosts before and after each filter.
    """

    ranked: Ranking
    counts: Callable[[], tuple[FilterCount, ...]]


class Explanation(NamedTuple):
    """The refusal of an instance, and the errors of rules that cost it some of its hints."""

    refusal: Refusal
    failures: tuple[RuleFailure, ...]


class Evaluator(Protocol):
    """Evaluates the table for the instances of one request, one after another."""

    @property
    def assigner(self) -> Assigner:
        """The assigner of the filters that apply to the request."""
        ...

    @property
    def chain(self) -> FilterChain:
        """The filters that apply to the request."""
        ...

    def evaluate(self, query: Query) -> Evaluation:
        """Return the hosts that an instance may go to; there may be none."""
        ...

    def explain_refusal(self, query: Query, placed: Sequence[int]) -> Explanation:
        """Explain the refusal of an instance; `placed` are the rows of the instances before it."""
        ...


class FullEvaluator:
    """Evaluates every rule on every host for every instance."""

    def __init__(self, hosts: HostTable, request: Request, policy: Policy, rank: Rank) -> None:
        self._hosts = hosts
        self._rank = rank
        self._reduction = reduce_hosts(hosts, request)
        self.chain = FilterChain(hosts, policy.filters, self._reduction)
        self.assigner = Assigner(self.chain.filters)

    def evaluate(self, query: Query) -> Evaluation:
        """See `Evaluator.evaluate`."""
        survivors = self.chain.run(query)
        rows = np.flatnonzero(survivors.mask)
        return Evaluation(self._rank(self._hosts, query, rows), lambda: survivors.counts)

    def explain_refusal(self, query: Query, placed: Sequence[int]) -> Explanation:
        """See `Evaluator.explain_refusal`."""
        rules = GuardedRules(self._hosts)
        refusal = explain_refusal(rules, query, self.chain, self._reduction, placed=placed)
        return Explanation(refusal, rules.failures)


class CachedEvaluator:
    """Uses the engine's cache, and evaluates in full once the cache cannot serve an instance."""

    def __init__(
        self, hosts: HostTable, request: Request, policy: Policy, rank: Rank, engine: Engine
    ) -> None:
        self._make_full: Callable[[], FullEvaluator] = lambda: FullEvaluator(
            hosts, request, policy, rank
        )
        self._hosts = hosts
        self._instances = len(request.instance_uuids)
        self._engine = engine
        self._full: FullEvaluator | None = None
        self._class: RequestProfile | None = None
        self.assigner = engine.assigner

    @property
    def chain(self) -> FilterChain:
        """See `Evaluator.chain`."""
        return (self._full or self._make_full()).chain

    def evaluate(self, query: Query) -> Evaluation:
        """See `Evaluator.evaluate`."""
        if self._full is None:
            # Rules may treat an instance that is on a host, such as one that moves, differently, so
            # its profile must not serve the other instances of the request.
            is_new = self._hosts.occupants.by_uuid.get(query.instance_uuid) is None
            known = self._class if is_new else None
            found = self._engine.profile_of(query, self._instances, known)
            if found is not None and found.count:
                self._class = found if is_new else None
                return Evaluation(
                    ProfileRanking(found, query, self._engine), found.stages.filter_counts
                )
            # A reason to bypass the cache, such as an uncacheable rule, holds for the remaining
            # instances as well. If no host passes, the full evaluator will explain the refusal.
            self._full = self._make_full()
        return self._full.evaluate(query)

    def explain_refusal(self, query: Query, placed: Sequence[int]) -> Explanation:
        """See `Evaluator.explain_refusal`."""
        return (self._full or self._make_full()).explain_refusal(query, placed)


def evaluator_of(
    hosts: HostTable, request: Request, policy: Policy, rank: Rank, *, incremental: bool
) -> Evaluator:
    """Return the evaluator of a request.

    A request that names hosts is evaluated in full: few requests share its profile, which would
    only displace other profiles from the cache.

    Args:
        hosts: the table.
        request: the request.
        policy: the rules in force.
        rank: ranks the hosts that passed the filters.
        incremental: whether the engine's cache may be used.
    """
    if incremental and not is_reduced(request):
        return CachedEvaluator(hosts, request, policy, rank, engine_of(hosts, policy))
    return FullEvaluator(hosts, request, policy, rank)
