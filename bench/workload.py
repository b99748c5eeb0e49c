"""What is asked: kinds of requests, some of which come again and again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import fmean

from bench.desk import Desk
from bench.fleet import FLAVOR, request
from bench.timing import Sample, Times, collect_garbage, percentile, summarise, timed
from berth.domain.flavor import Flavor
from berth.domain.request import Request

_SEED = 1
_SIGHTS = 3
"""A kind of request is kept from its second sight on, so from here on all are warm."""


def _flavors(count: int) -> Iterator[Flavor]:
    rng = Random(_SEED)
    for index in range(count):
        yield replace(
            FLAVOR,
            flavor_id=f"warm-{index}",
            name=f"warm-{index}",
            vcpus=rng.choice((1, 2, 4, 8)),
            memory_mb=rng.choice((512, 1_024, 2_048, 4_096, 8_192)),
            root_gb=rng.choice((1, 10, 20, 40)),
        )


FLAVORS = tuple(_flavors(20))


def unseen_flavor(index: int) -> Flavor:
    """Return a flavor that no other index has, nor any of `FLAVORS`."""
    key = f"unseen-{index}"
    return replace(FLAVOR, flavor_id=key, name=key, vcpus=1 + index % 8, memory_mb=600 + index)


@dataclass(frozen=True, slots=True)
class WarmTimes:
    """Warm decisions, and what the replica does between two of them (a claim and a release).

    `mean_cpu_us` and `p99_cpu_us` are of the decisions.
    """

    decision: Times
    mean_cpu_us: float
    p99_cpu_us: float
    between: Times


def warm_times(
    desk: Desk,
    samples: int,
    *,
    flavors: tuple[Flavor, ...] = FLAVORS,
    group_uuid: str | None = None,
) -> WarmTimes:
    """Decide about each flavor in turn, with a claim and a release after every decision."""
    decided: list[Sample] = []
    between: list[Sample] = []
    warm_ups = len(flavors) * max(_SIGHTS, 120 // len(flavors))
    for index in range(warm_ups + samples):
        if index == warm_ups:
            collect_garbage()
            decided.clear()
            between.clear()
        asked = _asked(f"warm-{index}", flavors[index % len(flavors)], group_uuid)
        decision, sample = desk.decide(asked)
        _, change = timed(partial(desk.claim_and_release, asked, decision))
        decided.append(sample)
        between.append(change)
    cpu_us = [sample.cpu_us for sample in decided]
    return WarmTimes(
        decision=summarise(decided),
        mean_cpu_us=round(fmean(cpu_us), 3),
        p99_cpu_us=round(percentile(cpu_us, 0.99), 3),
        between=summarise(between),
    )


def _asked(request_id: str, flavor: Flavor, group_uuid: str | None) -> Request:
    return replace(request(request_id), flavor=flavor, group_uuid=group_uuid)
