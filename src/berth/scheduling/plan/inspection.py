"""Inspecting: why a plan is as it is, host by host and rule by rule.

The driver makes the plan. Then its steps are gone through again on the same table, with the same
chain and the same weighing, and everything that they say is kept.
"""

from collections.abc import Iterable, Sequence
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
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, best_first
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.evaluation.weighing import multiplied, weigh
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.rules.reduction import Reduction, reduce_hosts
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable


def counterfactuals(ranking: FullRanking) -> tuple[Counterfactual, ...]:
    """Tell for each weigher which host of a whole ranking would be the best without it.

    What the other weighers give does not change, as each is put on its scale by itself. Scores
    are summed again without the one, so that rounding leaves no trace of it.
    """
    found: list[Counterfactual] = []
    hosts, rank = ranking.hosts, ranking.hosts.rank[ranking.rows]
    for left_out in ranking.parts:
        scores = ranking.scores * 0.0
        for part in ranking.parts:
            if part is not left_out:
                scores += multiplied(part.normalised, part.multiplier)
        (best,) = best_first(scores, rank, 1)
        name, node, _ = hosts.identity(ranking.row(best))
        weigher = left_out.weigher.name
        found.append(Counterfactual(weigher, name, node, float(scores[best])))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What one filter says of one host; `why` is empty when the host passed."""

    filter: str
    passed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class HostInspection:
    """One host: what each filter says of it and, when all let it pass, its score.

    Every filter is asked, also about hosts that one before it has removed. `place` is the host's
    place by score, from 1; it and `scored` are None for a host that was removed.
    """

    host: str
    node: str
    verdicts: tuple[RuleVerdict, ...]
    place: int | None = None
    scored: ScoredHost | None = None

    @property
    def removed_by(self) -> RuleVerdict | None:
        """The first filter in the policy's order that removes the host."""
        return next((verdict for verdict in self.verdicts if not verdict.passed), None)


@dataclass(frozen=True, slots=True)
class InstanceInspection:
    """One instance: the hosts that passed, best first, those that did not, and the choice.

    `candidates_total` and `removed_total` count the hosts that are listed and those left out.
    `by_weight` is False when the driver did not choose by the weights that are shown.
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
    """Who would have won without each of the weighers, among all candidates."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A plan, with all that led to it.

    There is one entry an instance, in order; when the request is refused, the last one is the
    instance that found no host and those after it are missing. There is none when it was refused
    before any host was looked at.
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
    """What stays the same for all instances of a request."""

    hosts: HostTable
    policy: Policy
    reduction: Reduction
    chain: FilterChain
    hosts_max: int | None


def inspect(
    hosts: HostTable,
    request: Request,
    policy: Policy,
    *,
    now_s: float,
    seed: int,
    hosts_max: int | None = None,
) -> Inspection:
    """Plan a request, and explain the plan.

    Args:
        hosts: the table; as it was when the call returns.
        request: what is asked.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        seed: of the only source of chance.
        hosts_max: list at most so many candidates and so many removed hosts an instance; the
            chosen one is always listed.

    Raises:
        InvalidInputError: flavor or image hold a spec that cannot be read.
    """
    plan = plan_with_group_policy(hosts, request, policy, now_s=now_s, seed=seed)
    placements = _placements(hosts, request, policy, plan, now_s=now_s, seed=seed)
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    needs = request.needs
    reduction = reduce_hosts(hosts, request)
    effective = policy.effective(request.operation)
    chain = FilterChain(hosts, effective.filters, reduction)
    context = _Context(hosts, effective, reduction, chain, hosts_max)
    inspected: list[InstanceInspection] = []
    with Trial(hosts, needs) as trial:
        for uuid, placement in zip(request.instance_uuids, placements, strict=False):
            query = Query(request, needs, now_s, group, uuid)
            inspected.append(_inspect_instance(context, query, placement))
            row = None if placement is None else hosts.row_of(placement.provider_uuid)
            if placement is not None and row is not None:
                trial.place(row, replace(query.resident, assignment=placement.assignment))
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
    """Tell of a plan's first instance who would have won without each of the weighers.

    It is one full evaluation of the table, however many instances there are: those after the
    first are not gone through.

    Args:
        hosts: the table, as it was when the plan was made.
        request: what was asked.
        policy: the rules by which it was.
        placements: the plan's; may be none.
        now_s: Unix seconds, for heartbeats; those of the plan.

    Returns:
        One a weigher, of all hosts that the filters let pass. None when nothing was placed, or
        the driver did not choose by the policy's weighers.
    """
    if not placements:
        return ()
    first = placements[0]
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    query = Query(request, request.needs, now_s, group, first.instance_uuid)
    filters = policy.effective(request.operation).filters
    survivors = FilterChain(hosts, filters, reduce_hosts(hosts, request)).run(query)
    rows = np.flatnonzero(survivors.mask)
    ranking = weigh(hosts, query, rows, policy.weighers, policy.normalisation)
    return counterfactuals(ranking) if _is_weighed(hosts, ranking, first) else ()


def _placements(
    hosts: HostTable, request: Request, policy: Policy, plan: Plan, *, now_s: float, seed: int
) -> list[Placement | None]:
    """Return the placement of each instance that was looked at; None for one without a host.

    None is looked at when the group is not kept. A refusal holds no placements, so those before
    it come from a plan for fewer instances: the same seed makes the same choices.
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
        counterfactuals=counterfactuals(ranking),
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
        why = "" if allowed else "the request rules it out by name"
        yield RuleVerdict(context.reduction.what, allowed, why)
    for rule, verdict in zip(context.chain.filters, verdicts, strict=True):
        passed = bool(verdict[row])
        why = "" if passed else rule.why(context.hosts, query, row)
        yield RuleVerdict(rule.name, passed, why)


def _indices(ranking: FullRanking, row: int | None) -> list[int]:
    """Return the index of a row in a ranking; none for a host that no filter chain let pass."""
    return [] if row is None else [int(index) for index in np.flatnonzero(ranking.rows == row)]


def _place(hosts: HostTable, ranking: FullRanking, index: int) -> int:
    """Return a host's place by score, equal ones told apart by name, from 1."""
    rank = hosts.rank[ranking.rows]
    score = ranking.scores[index]
    before = (ranking.scores > score) | ((ranking.scores == score) & (rank < rank[index]))
    return int(np.count_nonzero(before)) + 1


def _is_weighed(hosts: HostTable, ranking: FullRanking, placement: Placement) -> bool:
    """Tell whether the driver gave the chosen host the score that weighing gives it."""
    indices = _indices(ranking, hosts.row_of(placement.provider_uuid))
    return placement.chosen in ranking.scored(indices)
