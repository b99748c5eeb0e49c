"""Planning: one request of n instances, placed one after another on a table that remembers."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from berth.domain.compute.decision import Placement, ScoredHost
from berth.domain.compute.request import Request
from berth.domain.hardware.assignment import Assignment
from berth.scheduling.engine.measures import NonFiniteValueError
from berth.scheduling.engine.needs_cache import cached_needs
from berth.scheduling.evaluation.alternates import (
    HostAndNode,
    alternates_of,
    first_alternate,
    has_alternates,
)
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import Ranking
from berth.scheduling.evaluation.selection import RandomSource
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.plan.evaluators import Evaluation, Evaluator, Rank, evaluator_of
from berth.scheduling.rules.rule import Query
from berth.tables.host.hosts import HostTable


def seed_of(request_id: str) -> int:
    """Derive the seed of a request's decision: 63 bits of the SHA-256 of its id."""
    digest = hashlib.sha256(request_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


Pick = Callable[[Ranking, RandomSource], tuple[int, list[int]]]
"""Picks a host of the ranking, and names those that come next, by the ranking's numbers."""


@dataclass(frozen=True, slots=True)
class SelectionStrategy:
    """How a driver scores the survivors, and how it chooses among them.

    `incremental` says that scores are those of the policy's weighers, so that the engine may
    keep them from one request to the next.
    """

    rank: Rank
    pick: Pick
    incremental: bool = False


class _PlanRun(NamedTuple):
    """How one plan is made: strategy, random_source, and how many alternates to name."""

    strategy: SelectionStrategy
    random_source: RandomSource
    alternates: int


class _Choice(NamedTuple):
    """The host that one instance goes to, out of how many; `scored` has it and those after it."""

    row: int
    candidates: int
    scored: list[ScoredHost]
    assignment: Assignment | None


def plan_instances(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    strategy: SelectionStrategy,
    *,
    now_s: float,
    seed: int,
) -> Plan:
    """Filter, rank and pick a host for each instance, consuming as it goes; all or nothing.

    Args:
        hosts: the table; as it was when the call returns.
        request: what is asked.
        policy: the rules in force.
        strategy: how the driver chooses among the hosts that pass.
        now_s: Unix seconds, for heartbeats.
        seed: of the only source of random_source.

    Raises:
        InvalidInputError: flavor or image hold a spec that cannot be read.
    """
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    needs = cached_needs(hosts, request)
    first = Query(request, needs, now_s, group, request.instance_uuids[0])
    rank, incremental = strategy.rank, strategy.incremental
    evaluator = evaluator_of(hosts, request, policy, rank, incremental=incremental)
    try:
        return _plan(
            hosts, first, evaluator, _PlanRun(strategy, RandomSource(seed), policy.alternates)
        )
    except NonFiniteValueError:
        evaluator = evaluator_of(hosts, request, policy, rank, incremental=False)
        return _plan(
            hosts, first, evaluator, _PlanRun(strategy, RandomSource(seed), policy.alternates)
        )


def _plan(hosts: HostTable, first: Query, evaluator: Evaluator, run: _PlanRun) -> Plan:
    uuids = first.request.instance_uuids
    choices: list[_Choice] = []
    evaluation: Evaluation | None = None
    query = first
    with Trial(hosts, first.needs) as trial:
        for uuid in uuids:
            if uuid != query.instance_uuid:
                query = Query(first.request, first.needs, first.now_s, first.group, uuid)
            evaluation = evaluator.evaluate(query)
            if not evaluation.ranked.size:
                refusal = evaluator.explain_refusal(query, [one.row for one in choices])
                return Plan(first.needs.amounts, filters=evaluation.counts(), refusal=refusal)
            choice = _choose(hosts, query, evaluator, evaluation.ranked, run)
            choices.append(choice)
            if len(uuids) > 1:
                trial.place(choice.row, query.resident_with(choice.assignment))
        counts = () if evaluation is None else evaluation.counts()
        alternates = _alternates(
            hosts, query, evaluator, evaluation, [one.row for one in choices], run
        )
    each = zip(uuids, choices, strict=True)
    placements = [_placement(hosts, uuid, one, alternates.get(one.row, ())) for uuid, one in each]
    return Plan(first.needs.amounts, placements=tuple(placements), filters=counts)


def _choose(
    hosts: HostTable, query: Query, evaluator: Evaluator, ranked: Ranking, run: _PlanRun
) -> _Choice:
    """Take a host of the ranking, and note what is to be told of it."""
    numbers = _picked(hosts, query.request, ranked, run)
    row = ranked.row(numbers[0])
    assignment = evaluator.assigner(hosts, query, row)
    return _Choice(row, ranked.size, ranked.scored(numbers), assignment)


def _picked(hosts: HostTable, request: Request, ranked: Ranking, run: _PlanRun) -> tuple[int, ...]:
    """Return the numbers of the host to take and of those that come next."""
    number, next_best = run.strategy.pick(ranked, run.random_source)
    alternate = first_alternate(hosts, request, ranked) if request.alternates else None
    if alternate is None or alternate == number:
        return (number, *next_best)
    others = [one for one in (number, *next_best) if one != alternate]
    return (alternate, *others[: len(next_best)])


def _alternates(
    hosts: HostTable,
    query: Query,
    evaluator: Evaluator,
    evaluation: Evaluation | None,
    rows: list[int],
    run: _PlanRun,
) -> dict[int, tuple[HostAndNode, ...]]:
    """Name alternates: of one instance from where it was chosen, of many after the last."""
    if not run.alternates or evaluation is None or not has_alternates(query.request):
        return {}
    if len(rows) > 1:
        evaluation = evaluator.evaluate(query)
    return alternates_of(hosts, evaluation.ranked, dict.fromkeys(rows), run.alternates)


def _placement(
    hosts: HostTable, uuid: str, choice: _Choice, alternates: tuple[HostAndNode, ...]
) -> Placement:
    host, node, provider_uuid = hosts.identity(choice.row)
    return Placement(
        instance_uuid=uuid,
        host=host,
        node=node,
        provider_uuid=provider_uuid,
        candidates=choice.candidates,
        chosen=choice.scored[0],
        runners_up=tuple(choice.scored[1:]),
        alternates=alternates,
        assignment=choice.assignment,
    )
