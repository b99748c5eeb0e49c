"""The answers of both sides about a case, and how Berth is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.decision import Placement
from berth.domain.compute.request import Destination
from berth.domain.errors import InvalidInputError
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import multipliers, normalise
from berth.scheduling.plan.group_policies import group_violation
from berth.scheduling.rules.reduction import REBUILD, reduce_hosts
from berth.scheduling.rules.rule import Filter, Query, Reads, Weigher
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import policy_of
from tests.differential.cases import Case
from tests.differential.rules import build_filter, build_weigher

Verdict = bool | str | None
"""Whether a host passes a filter; a text is the error raised; None if the side has no such host."""


@dataclass(frozen=True)
class Values:
    """The values of a weigher for each weighed host, or the error that it raised."""

    raw: Sequence[float] = ()
    normalised: Sequence[float] = ()
    multiplier: Sequence[float] = ()
    error: str | None = None


@dataclass(frozen=True)
class Step:
    """The index and weight of each host that is left for one instance, best first."""

    order: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Answer:
    """A side's whole answer about a case; `refused` is the reason if it refuses the request.

    `steps` has one step per instance, or the error raised. Only Nova has `pairs_anew` and `images`.
    `pairs_anew` tells whether the guest's cells fit on each host if no attempt affects the next
    (see `bench/peers/nova/judging.py`), None if no cells are requested. `images` has the properties
    that Nova reads from images: the request's under an empty name, others by instance.
    """

    refused: str | None = None
    filters: Mapping[str, Sequence[Verdict]] = field(default_factory=dict[str, Sequence[Verdict]])
    weighers: Mapping[str, Values] = field(default_factory=dict[str, Values])
    steps: Sequence[Step] | str = ()
    pairs_anew: Sequence[bool | None] = ()
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def ask_berth(case: Case) -> tuple[Answer, list[int | None]]:
    """Return Berth's answer about a case, and the host that it chose for each instance in turn.

    The last choice is None when an instance found no host.
    """
    hosts = table_of(case.snapshot)
    try:
        query = _query(hosts, case)
    except InvalidInputError as error:
        return Answer(refused=str(error)), []
    filters = {
        pair.name: _verdicts(build_filter(pair, case.settings), hosts, query)
        for pair in case.filters
    }
    weighers = {
        pair.name: _values(build_weigher(pair, case.settings), hosts, query, case.weighed)
        for pair in case.weighers
    }
    try:
        placements, complete = _plan(hosts, case)
    except InvalidInputError as error:
        failed = f"InvalidInputError: {error}"
        return Answer(filters=filters, weighers=weighers, steps=failed), [None]
    steps = [_step(hosts, one) for one in placements]
    chosen: list[int | None] = [hosts.row_of(one.provider_uuid) for one in placements]
    if not complete:
        steps.append(Step(()))
        chosen.append(None)
    return Answer(filters=filters, weighers=weighers, steps=steps), chosen


def verdict_of(case: Case, name: str, host: int) -> Verdict:
    """Return the verdict of one of Berth's filters on one host of a case."""
    hosts = table_of(case.snapshot)
    pair = next(one for one in case.filters if one.name == name)
    return _verdicts(build_filter(pair, case.settings), hosts, _query(hosts, case))[host]


def value_of(case: Case, name: str, what: str, host: int) -> float:
    """Return the value of one of Berth's weighers for one host of a case.

    Args:
        case: the case.
        name: the name of the weigher.
        what: `raw`, `normalised` or `multiplier`.
        host: the index of a weighed host.
    """
    hosts = table_of(case.snapshot)
    pair = next(one for one in case.weighers if one.name == name)
    rule = build_weigher(pair, case.settings)
    values = _values(rule, hosts, _query(hosts, case), case.weighed)
    column: Sequence[float] = getattr(values, what)
    return column[case.weighed.index(host)]


def takes_request(case: Case, host: int) -> bool:
    """Return whether one host of a case takes all instances and keeps their group's policy."""
    hosts, record, request = table_of(case.snapshot), case.snapshot.hosts[host], case.request
    only = replace(request, destination=Destination(record.name, record.node))
    placements, complete = _plan(hosts, replace(case, request=only))
    uuid = request.group_uuid
    return complete and (uuid is None or group_violation(hosts, uuid, placements) is None)


def _query(hosts: HostTable, case: Case) -> Query:
    request = case.request
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    return Query(request, request.needs, case.snapshot.now_s, group, request.instance_uuids[0])


def _verdicts(rule: Filter, hosts: HostTable, query: Query) -> list[Verdict]:
    if reduce_hosts(hosts, query.request).check_type == REBUILD and not rule.run_on_rebuild:
        return [True] * len(hosts)
    try:
        mask = rule.keep(hosts, query, hosts.all_rows)
    except InvalidInputError as error:
        return [f"InvalidInputError: {error}"] * len(hosts)
    return [True] * len(hosts) if mask is None else [bool(one) for one in mask]


def _values(rule: Weigher, hosts: HostTable, query: Query, weighed: Sequence[int]) -> Values:
    """Return a weigher's values; a weigher without raw values gives every host 0."""
    rows = np.array(weighed, dtype=np.intp)
    if not rows.size:
        return Values()
    raw = rule.raw(hosts, query, rows)
    multiplier = np.broadcast_to(np.asarray(multipliers(hosts, rule, rows)), rows.shape)
    if raw is None:
        raw = np.zeros(rows.size)
    normalised = normalise(raw, rule.floor, rule.ceiling)
    return Values(_listed(raw), _listed(normalised), _listed(multiplier))


def _listed(values: NDArray[np.float64]) -> list[float]:
    listed: list[float] = values.astype(np.float64).tolist()
    return listed


def _served(case: Case) -> Filter:
    """Return a filter that keeps the hosts that Nova knows."""
    known = np.zeros(len(case.snapshot.hosts), dtype=np.bool_)
    known[list(case.served)] = True
    return Filter(
        name="served",
        keep=lambda hosts, query, rows: known[rows],
        why=lambda hosts, query, row: "it has no service",
        relax=lambda hosts, query, rows: (),
        reads=Reads(request=(), columns=("service",)),
        on_forced=True,
        run_on_rebuild=True,
    )


def _plan(hosts: HostTable, case: Case) -> tuple[tuple[Placement, ...], bool]:
    """Return the placements of as many instances as fit, and whether those are all.

    Hosts without a service are left out, as in Nova.
    """
    filters, weighers = case.order
    policy: Policy = policy_of(
        filters=[_served(case), *(build_filter(pair, case.settings) for pair in filters)],
        weighers=[build_weigher(pair, case.settings) for pair in weighers],
    )
    request, now_s = case.request, case.snapshot.now_s
    plan = policy.driver.plan(hosts, request, policy, now_s=now_s, seed=0)
    if plan.refusal is None:
        return plan.placements, True
    if not plan.refusal.placed:
        return (), False
    fewer = replace(request, instance_uuids=request.instance_uuids[: plan.refusal.placed])
    return policy.driver.plan(hosts, fewer, policy, now_s=now_s, seed=0).placements, False


def _step(hosts: HostTable, placement: Placement) -> Step:
    scored = (placement.chosen, *placement.runners_up)
    uuids = [hosts.find(one.host, one.node) or "" for one in scored]
    rows = [hosts.row_of(uuid) for uuid in uuids]
    pairs = zip(rows, scored, strict=True)
    return Step([(row, one.score) for row, one in pairs if row is not None])
