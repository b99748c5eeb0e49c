"""Decision times: the first ever, the first of a kind, warm ones, and many instances per request.

`DecisionService.decide` is timed: needs, seed, plan with its runners-up, and the decision record.
There is no ledger; between two decisions the replica processes a claim and a release, as it does in
operation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.alone import alone
from bench.cases import DecisionCases, PeerCases
from bench.desk import Desk, WrongDecisionError
from bench.fleet import request, snapshot
from bench.peer import TimedPeer
from bench.timing import Sample, Times, collect_garbage, summarise, timed_often
from bench.turns import Ratio, one_processor, ratio_of, take_turns
from bench.workload import WarmDecisions, WarmTimes, unseen_flavor
from berth.config.policy_file import load_policy
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy

_ARGMAX_CALLS = 200


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The times of one request for `instances`."""

    instances: int
    times: Times


@dataclass(frozen=True, slots=True)
class BesidePeer:
    """Nova's `_get_sorted_hosts` in turns with blocks of warm decisions, and their ratio."""

    peer: Times
    warm: Times
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class DecisionTimes:
    """Times at one fleet size.

    `fresh` is the first decision on a newly loaded table, `cold` the first about a kind of request
    on a table with earlier decisions, `second` the next one about that kind, which is then known.
    `warm` are requests of 20 flavors in turn. `batches` request many instances each. `argmax` is
    NumPy's maximum of one float64 column: the least cost of any scan of the fleet, for comparison.
    `load` is the time to load the table. `beside` is None if Nova is not measured.
    """

    hosts: int
    fresh: Times
    cold: Times
    second: Times
    warm: WarmTimes
    batches: tuple[BatchTimes, ...]
    argmax: Times
    load: Times
    beside: BesidePeer | None = None

    @property
    def batch(self) -> BatchTimes:
        """The batch that is also measured with Nova."""
        return self.batches[0]


def measure_decisions(
    policy_name: str, cases: DecisionCases, peer: PeerCases | None
) -> Iterator[DecisionTimes]:
    """Yield the times of each fleet size, each measured in a separate process."""
    for count in cases.hosts:
        is_shared = peer is not None and count <= peer.hosts_max
        yield alone(_measure_named, count, policy_name, cases, peer if is_shared else None)


def _measure_named(
    count: int, policy_name: str, cases: DecisionCases, peer: PeerCases | None
) -> DecisionTimes:
    return measure_size(count, load_policy(Path(policy_name)), cases, peer)


def measure_size(
    count: int, policy: Policy, cases: DecisionCases, peer: PeerCases | None = None
) -> DecisionTimes:
    """Return the times of one fleet size, in turns with Nova if `peer` is given."""
    desk, fresh, loads = _fresh(count, policy, cases)
    cold, second = _cold(desk, cases.cold_samples)
    warm = WarmDecisions(desk)
    return DecisionTimes(
        hosts=count,
        fresh=fresh,
        cold=cold,
        second=second,
        warm=warm.times(cases.warm_samples),
        batches=tuple(
            _batch(desk, instances, cases.batch_samples)
            for instances in (cases.batch_instances, *cases.more_instances)
            if instances <= count or instances == cases.batch_instances
        ),
        argmax=_argmax(count),
        load=loads,
        beside=None if peer is None else _beside(count, warm, peer),
    )


def _fresh(count: int, policy: Policy, cases: DecisionCases) -> tuple[Desk, Times, Times]:
    """Return the desk of the last new table, the times of first decisions, and those of loading."""
    state: Snapshot | None = snapshot(count)
    desk: Desk | None = None
    fresh: list[Sample] = []
    loads: list[Sample] = []
    samples = cases.fresh_samples if count < cases.loaded_once_from else 1
    for index in range(samples):
        desk = None
        desk = Desk(state or snapshot(count), policy)
        if index == samples - 1:
            state = None
        collect_garbage()
        fresh.append(desk.decide(request(f"fresh-{index}"))[1])
        loads.append(desk.load)
    if desk is None:
        raise ValueError("fresh_samples must be at least 1")
    return desk, summarise(fresh), summarise(loads)


def _cold(desk: Desk, samples: int) -> tuple[Times, Times]:
    found: tuple[list[Sample], list[Sample]] = ([], [])
    collect_garbage()
    for index in range(samples):
        for sight, kept in enumerate(found):
            asked = replace(request(f"cold-{index}-{sight}"), flavor=unseen_flavor(index))
            decision, sample = desk.decide(asked)
            desk.claim_and_release(asked, decision)
            kept.append(sample)
    first, second = found
    return summarise(first), summarise(second)


def _batch(desk: Desk, instances: int, samples: int) -> BatchTimes:
    batch: list[Sample] = []
    for index in range(1 + samples):
        collect_garbage()
        asked = request(f"batch-{instances}-{index}", instances)
        decision, sample = desk.decide(asked)
        if len(decision.placements) != instances:
            raise WrongDecisionError(f"{len(decision.placements)} of {instances} were placed")
        desk.claim_and_release(asked, decision)
        batch.append(sample)
    return BatchTimes(instances, summarise(batch[1:]))


def _beside(count: int, warm: WarmDecisions, cases: PeerCases) -> BesidePeer:
    with one_processor(), TimedPeer("sort", count) as peer:
        collect_garbage()
        blocks, calls = take_turns(partial(warm.block, cases.decisions), peer.call, cases.turns)
    return BesidePeer(summarise(calls), summarise(blocks), ratio_of(blocks, calls))


def _argmax(count: int) -> Times:
    column = np.random.default_rng(0).random(count)
    return summarise([timed_often(column.argmax, _ARGMAX_CALLS) for _ in range(5)])
