"""The requests: kinds that recur, and kinds that are new."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import fmean

from bench.desk import Desk
from bench.fleet import FLAVOR, request
from bench.timing import Sample, Times, collect_garbage, middle, percentile, summarise, timed
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Request

_SEED = 1
_SIGHTS = 3
"""The number of decisions about a kind after which its decisions are warm."""


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
    """Return a flavor that differs from those of other indices and from `FLAVORS`."""
    key = f"unseen-{index}"
    return replace(FLAVOR, flavor_id=key, name=key, vcpus=1 + index % 8, memory_mb=600 + index)


@dataclass(frozen=True, slots=True)
class WarmTimes:
    """Times of warm decisions, and of the claim and release between two of them.

    `mean_cpu_us` and `p99_cpu_us` are those of the decisions.
    """

    decision: Times
    mean_cpu_us: float
    p99_cpu_us: float
    between: Times


class WarmDecisions:
    """Decides about each flavor in turn, with a claim and a release after every decision."""

    def __init__(
        self, desk: Desk, flavors: tuple[Flavor, ...] = FLAVORS, group_uuid: str | None = None
    ) -> None:
        """Decide about each kind of request often enough that further decisions are warm."""
        self._desk = desk
        self._flavors = flavors
        self._group_uuid = group_uuid
        self._decided = 0
        self.take(len(flavors) * max(_SIGHTS, 120 // len(flavors)))

    def take(self, count: int) -> tuple[list[Sample], list[Sample]]:
        """Return the times of `count` decisions, and of the claim and release after each."""
        decided: list[Sample] = []
        between: list[Sample] = []
        for index in range(self._decided, self._decided + count):
            flavor = self._flavors[index % len(self._flavors)]
            asked = _asked(f"warm-{index}", flavor, self._group_uuid)
            decision, sample = self._desk.decide(asked)
            _, change = timed(partial(self._desk.claim_and_release, asked, decision))
            decided.append(sample)
            between.append(change)
        self._decided += count
        return decided, between

    def block(self, count: int) -> Sample:
        """Return the median times of `count` decisions, as one sample."""
        return middle(self.take(count)[0])

    def times(self, count: int) -> WarmTimes:
        """Return the times of `count` decisions."""
        collect_garbage()
        decided, between = self.take(count)
        cpu_us = [sample.cpu_us for sample in decided]
        return WarmTimes(
            decision=summarise(decided),
            mean_cpu_us=round(fmean(cpu_us), 3),
            p99_cpu_us=round(percentile(cpu_us, 0.99), 3),
            between=summarise(between),
        )


def _asked(request_id: str, flavor: Flavor, group_uuid: str | None) -> Request:
    return replace(request(request_id), flavor=flavor, group_uuid=group_uuid)
