"""Taking turns: a block of ours, one call of the peer's, and so on.

A machine has phases in which everything takes twice as long, and each of its processors has its
own. Two sides that are timed minutes apart, or on two processors, are in different ones, and their
ratio is off by as much. Neighbours on one processor are mostly in the same one.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import TypeVar

from bench.timing import Sample

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the CPU time of ours the peer's call takes.

    Half of all turns lie between `low` and `high`, the quartiles.
    """

    median: float
    low: float
    high: float


@contextmanager
def one_processor() -> Iterator[None]:
    """Have this thread, and the processes it starts, run on one processor, where that can be."""
    if sys.platform != "linux":
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def take_turns(
    ours: Callable[[], T], peer: Callable[[], P] | None, turns: int
) -> tuple[list[T], list[P]]:
    """Call the peer so often, and ours before and after each of its calls.

    Returns:
        What ours returned, and the calls of the peer, of which there is one less; none where
        there is no peer.
    """
    blocks, calls = [ours()], list[P]()
    for _ in range(turns):
        if peer is not None:
            calls.append(peer())
        blocks.append(ours())
    return blocks, calls


def ratio_of(blocks: Sequence[Sample], calls: Sequence[Sample]) -> Ratio:
    """Compare each call of the peer with the blocks of ours before and after it.

    Args:
        blocks: of ours.
        calls: of the peer, at least one; call n came between the blocks n and n + 1.
    """
    neighbours = zip(blocks[:-1], calls, blocks[1:], strict=True)
    ratios = [
        call.cpu_us / fmean((before.cpu_us, after.cpu_us)) for before, call, after in neighbours
    ]
    low, _, high = quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Ratio(round(median(ratios), 3), round(low, 3), round(high, 3))
