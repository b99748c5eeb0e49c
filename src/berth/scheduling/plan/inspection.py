"""Inspections: a plan with the verdict of every rule on every host.

The driver makes the plan. Its steps then run again on the same table, with the same chain and the
same weighing, and all verdicts and scores are recorded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.domain.compute.decision import (
    Counterfactual,
    FilterCount,
    Placement,
    Refusal,
    RefusalCode,
    ScoredHost,
)
from berth.domain.compute.request import Request
from berth.scheduling.evaluation.assignments import Assigner
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.evaluation.weighing import multiplied, weigh
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.plan.group_ranking import within_group
from berth.scheduling.rules.reduction import Reduction, reduce_hosts
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable


def counterfactuals(
    ranking: FullRanking, within: Callable[[Ranking], Ranking]
) -> tuple[Counterfactual, ...]:
    """Return, for each weigher, the host of a full ranking that would be chosen without it.

    The values of the other weighers stay the same, as each has a scale of its own. Scores are
    summed again without the weigher, because subtracting its part would leave a rounding error.

    Args:
        ranking: the hosts that pass the filters.
        within: returns the part of a ranking that the request's group permits.
    """
    found: list[Counterfactual] = []
    hosts = ranking.hosts
    for left_out in ranking.parts:
        scores = ranking.scores * 0.0
        for part in ranking.parts:
            if part is not left_out:
                scores += multiplied(part.normalised, part.multiplier)
        (best,) = within(FullRanking(hosts, ranking.rows, scores)).best(1)
        name, node, _ = hosts.identity(ranking.row(best))
        weigher = left_out.weigher.name
        found.append(Counterfactual(weigher, name, node, float(scores[best])))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The verdict of one filter on one host; `why` is empty if the host passed."""

    filter: str
    passed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class HostInspection:
    """One host: the verdict of each filter and, if it passed all of them, its score.

    Every filter runs on every host, even if an earlier filter has removed the host. `place` is the
    host's position by score, from 1; it and `scored` are None for a removed host.
    """

    host: str
    node: str
    verdicts: tuple[RuleVerdict, ...]
    place: int | None = None
    scored: ScoredHost | None = None

    @property
    def removed_by(self) -> RuleVerdict | None:
        """The first filter in the policy's order that removes the host; None if it passes all."""
        return next((verdict for verdict in self.verdicts if not verdict.passed), None)


@dataclass(frozen=True, slots=True)
class InstanceInspection:
    """One instance: the hosts that passed, best first, the removed hosts, and the placement.

    `candidates_total` and `removed_total` count all hosts, listed or not. `by_weight` is False if
    the driver did not choose by the scores that are shown.
    """

    instance_uuid: str
    filters: tuple[FilterCount, ...]
    candidates: tuple[HostInspection, ...]
    candidates_total: int
    removed: tuple[HostInspection, ...]
    removed_total: int
    by_weight: bool
    placement: Placement | None
    counterfactuals: tuple[Counterfactual, ...] = ()
    """For each weigher, the host of all candidates that would have won without the weigher."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A plan and the evaluation that led to it.

    `instances` has one entry per instance, in order. If the request is refused, the last entry is
    the first instance without a placement; there are no entries if the policy of the server group
    is not supported.
    """

    request_id: str
    policy_name: str
    policy_hash: str
    driver: str
    seed: int
    table_version: int
    now_s: float
    instances: tuple[InstanceInspection, ...]
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class _Context:
    """The inputs that all instances of a request share."""

    hosts: HostTable
    policy: Policy
    reduction: Reduction
    chain: FilterChain
    assigner: Assigner
    hosts_max: int | None

    def within(self, query: Query) -> Callable[[Ranking], Ranking]:
        """Return a function that restricts an instance's rankings to hosts its group permits."""
        return lambda ranked: within_group(self.hosts, query, self, ranked)


def inspect(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    *,
    now_s: float,
    seed: int,
    hosts_max: int | None = None,
) -> Inspection:
    """Return the plan of a request and the evaluation that led to it.

    Args:
        hosts: the table, which is unchanged when the call returns.
        request: the request.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        seed: the seed of every random choice.
        hosts_max: the maximum number of candidates, and of removed hosts, to list for an instance;
            None for all. A chosen host that passed is always listed.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a filter
            that the request requires.
    """
    # The driver makes the plan, because an inspection must show the plan of a decision.
    plan = plan_with_group_policy(hosts, request, policy, now_s=now_s, seed=seed)
    placements = _placements(hosts, request, policy, plan, now_s=now_s, seed=seed)
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    needs = request.needs
    reduction = reduce_hosts(hosts, request)
    effective = policy.effective(request.operation)
    chain = FilterChain(hosts, effective.filters, reduction)
    context = _Context(hosts, effective, reduction, chain, Assigner(chain.filters), hosts_max)
    inspected: list[InstanceInspection] = []
    with Trial(hosts, needs) as trial:
        for uuid, placement in zip(request.instance_uuids, placements, strict=False):
            query = Query(request, needs, now_s, group, uuid)
            inspected.append(_inspect_instance(context, query, placement))
            row = None if placement is None else hosts.row_of(placement.provider_uuid)
            if placement is not None and row is not None:
                resident = query.resident_with(placement.assignment)
                trial.place(row, resident, query.attributes)
    return Inspection(
        request_id=request.request_id,
        policy_name=policy.name,
        policy_hash=policy.hash,
        driver=policy.driver.name,
        seed=seed,
        table_version=hosts.version,
        now_s=now_s,
        instances=tuple(inspected),
        refusal=plan.refusal,
    )


def counterfactuals_of(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    placements: Sequence[Placement],
    *,
    now_s: float,
) -> tuple[Counterfactual, ...]:
    """Return, for each weigher, the host that would get a plan's first instance without it.

    Only the first instance is evaluated, so the call takes one full evaluation of the table.

    Args:
        hosts: the table, as it was when the plan was made.
        request: the request.
        policy: the rules of the plan.
        placements: the placements of the plan, if any.
        now_s: Unix seconds at the time of the plan, for heartbeats.

    Returns:
        One entry per weigher, over all hosts that pass the filters. Empty if nothing was placed or
        the driver did not choose by the policy's weighers.
    """
    if not placements:
        return ()
    first = placements[0]
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    query = Query(request, request.needs, now_s, group, first.instance_uuid)
    effective = policy.effective(request.operation)
    reduction = reduce_hosts(hosts, request)
    chain = FilterChain(hosts, effective.filters, reduction)
    context = _Context(hosts, effective, reduction, chain, Assigner(chain.filters), None)
    rows = np.flatnonzero(chain.run(query).mask)
    ranking = weigh(hosts, query, rows, policy.weighers, policy.normalisation)
    if not _is_weighed(hosts, ranking, first):
        return ()
    return counterfactuals(ranking, context.within(query))


def _placements(
    hosts: HostTable, request: Request, policy: Policy, plan: Plan, *, now_s: float, seed: int
) -> list[Placement | None]:
    """Return the placement of each evaluated instance, and None for one without a host.

    No instance is evaluated if the group's policy is unsupported. A refused plan has no placements,
    so those of the earlier instances come from a plan for fewer instances: the same seed makes the
    same choices.
    """
    if plan.refusal is None:
        return list(plan.placements)
    if plan.refusal.code is RefusalCode.UNSUPPORTED_POLICY:
        return []
    placed = plan.refusal.placed
    if not placed:
        return [None]
    fewer = replace(request, instance_uuids=request.instance_uuids[:placed])
    return [*policy.driver.plan(hosts, fewer, policy, now_s=now_s, seed=seed).placements, None]


def _inspect_instance(
    context: _Context, query: Query, placement: Placement | None
) -> InstanceInspection:
    hosts = context.hosts
    survivors = context.chain.run(query)
    verdicts = context.chain.verdicts(query)
    policy = context.policy
    rows = np.flatnonzero(survivors.mask)
    ranking = weigh(hosts, query, rows, policy.weighers, policy.normalisation)
    chosen = None if placement is None else hosts.row_of(placement.provider_uuid)
    wanted = ranking.rows.size if context.hosts_max is None else context.hosts_max
    # The chosen host may rank below the listed ones, as drivers can choose at random.
    order = ranking.best(wanted)
    listed = [(place, index) for place, index in enumerate(order, start=1)]
    left_out = [index for index in _indices(ranking, chosen) if index not in order]
    listed += [(_place(hosts, ranking, index), index) for index in left_out]
    removed = np.flatnonzero(hosts.alive & ~survivors.mask)
    by_name = removed[np.argsort(hosts.rank[removed])][: context.hosts_max]
    return InstanceInspection(
        instance_uuid=query.instance_uuid,
        filters=survivors.counts,
        candidates=tuple(
            replace(
                _inspect_host(context, query, verdicts, int(ranking.rows[index])),
                place=place,
                scored=ranking.scored((index,))[0],
            )
            for place, index in listed
        ),
        candidates_total=int(ranking.rows.size),
        removed=tuple(_inspect_host(context, query, verdicts, int(row)) for row in by_name),
        removed_total=int(removed.size),
        by_weight=placement is None or _is_weighed(hosts, ranking, placement),
        placement=placement,
        counterfactuals=counterfactuals(ranking, context.within(query)),
    )


def _inspect_host(
    context: _Context, query: Query, verdicts: Sequence[Mask], row: int
) -> HostInspection:
    host = context.hosts.host(row)
    return HostInspection(host.name, host.node, tuple(_verdicts(context, query, verdicts, row)))


def _verdicts(
    context: _Context, query: Query, verdicts: Sequence[Mask], row: int
) -> Iterable[RuleVerdict]:
    if context.reduction.what:
        allowed = bool(context.reduction.mask[row])
        why = "" if allowed else "the request does not allow this host"
        yield RuleVerdict(context.reduction.what, allowed, why)
    for rule, verdict in zip(context.chain.filters, verdicts, strict=True):
        passed = bool(verdict[row])
        why = "" if passed else rule.why(context.hosts, query, row)
        yield RuleVerdict(rule.name, passed, why)


def _indices(ranking: FullRanking, row: int | None) -> list[int]:
    """Return a list of a row's index in a ranking; empty if `row` is None or is not ranked."""
    return [] if row is None else [int(index) for index in np.flatnonzero(ranking.rows == row)]


def _place(hosts: HostTable, ranking: FullRanking, index: int) -> int:
    """Return a host's position by score, from 1; the name decides between equal scores."""
    rank = hosts.rank[ranking.rows]
    score = ranking.scores[index]
    before = (ranking.scores > score) | ((ranking.scores == score) & (rank < rank[index]))
    return int(np.count_nonzero(before)) + 1


def _is_weighed(hosts: HostTable, ranking: FullRanking, placement: Placement) -> bool:
    """Return whether the driver's score of the chosen host equals that of the weighers."""
    # Scores are compared rather than names of drivers, since drivers can be plugins.
    indices = _indices(ranking, hosts.row_of(placement.provider_uuid))
    return placement.chosen in ranking.scored(indices)
