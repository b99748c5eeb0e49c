"""Plans: the instances of a request, placed one after another with trial placements."""

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
from berth.scheduling.plan.group_ranking import within_group
from berth.scheduling.rules.rule import Query
from berth.tables.host.hosts import HostTable


def seed_of(request_id: str) -> int:
    """Return the seed of a request's decision: 63 bits of the SHA-256 of its id.

    The seed is derived rather than drawn, so that a decision can be replayed from its request.
    """
    digest = hashlib.sha256(request_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


Pick = Callable[[Ranking, RandomSource], tuple[int, list[int]]]
"""(ranking, random source) -> the ranking's indices of the chosen host and the runners-up."""


@dataclass(frozen=True, slots=True)
class SelectionStrategy:
    """The way in which a driver ranks hosts and selects one.

    `incremental` declares that scores come from the policy's weighers alone, so the engine may
    reuse them for later requests.
    """

    rank: Rank
    pick: Pick
    incremental: bool = False


class _PlanRun(NamedTuple):
    """The settings of one plan; `alternates` is the number of alternates for each instance."""

    strategy: SelectionStrategy
    random_source: RandomSource
    alternates: int


class _Choice(NamedTuple):
    """The host chosen for one instance.

    `candidates` is the number of hosts that passed; `scored` contains the chosen host, then the
    runners-up.
    """

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
    """Return a plan that places all instances of a request, or one with a refusal.

    Each instance is filtered, ranked and placed on trial before the next one.

    Args:
        hosts: the table, which is unchanged when the call returns.
        request: the request.
        policy: the rules in force.
        strategy: the driver's way to rank and select hosts.
        now_s: Unix seconds, for heartbeats.
        seed: the seed of every random choice.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a filter
            that the request requires.
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
        # The engine read a value that is not finite, so it cannot keep extremes. The plan starts
        # again from the same seed, so the outcome is that of a full evaluation.
        evaluator = evaluator_of(hosts, request, policy, rank, incremental=False)
        return _plan(
            hosts, first, evaluator, _PlanRun(strategy, RandomSource(seed), policy.alternates)
        )


def _plan(hosts: HostTable, first: Query, evaluator: Evaluator, run: _PlanRun) -> Plan:
    uuids = first.request.instance_uuids
    choices: list[_Choice] = []
    evaluation: Evaluation | None = None
    query, attributes = first, first.attributes
    with Trial(hosts, first.needs) as trial:
        for uuid in uuids:
            if uuid != query.instance_uuid:
                query = Query(first.request, first.needs, first.now_s, first.group, uuid)
            evaluation = evaluator.evaluate(query)
            if not evaluation.ranked.size:
                refusal, failures = evaluator.explain_refusal(query, [one.row for one in choices])
                counts = evaluation.counts()
                return Plan(first.needs.amounts, (), counts, refusal, failures)
            choice = _choose(hosts, query, evaluator, evaluation.ranked, run)
            choices.append(choice)
            # A single instance needs no trial placement, because no later instance depends on it.
            if len(uuids) > 1:
                resident = query.resident_with(choice.assignment)
                trial.place(choice.row, resident, attributes)
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
    """Return the chosen host of a ranking with its assignment and scores."""
    permitted = ranked
    if query.group is not None:
        permitted = within_group(hosts, query, evaluator, ranked)
    numbers = _picked(hosts, query.request, permitted, run)
    row = ranked.row(numbers[0])
    assignment = evaluator.assigner(hosts, query, row)
    return _Choice(row, ranked.size, ranked.scored(numbers), assignment)


def _picked(hosts: HostTable, request: Request, ranked: Ranking, run: _PlanRun) -> tuple[int, ...]:
    """Return the ranking's indices of the host to use and of the runners-up."""
    number, next_best = run.strategy.pick(ranked, run.random_source)
    # A retry goes to the alternates of its first decision, in their order, as long as they pass.
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
    """Return the alternates by row; an empty mapping if the decision names none.

    The ranking of a single instance is reused. For several instances, hosts are ranked again with
    all of them placed.
    """
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
