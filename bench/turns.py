"""Measurement in turns: a block of Berth's calls, one call of the peer, and so on.

A processor has phases in which everything takes up to twice as long. Two sides that are timed
minutes apart, or on two processors, are in different phases, which distorts their ratio. Successive
calls on one processor are mostly in the same phase.
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
    """The ratio of the peer's time to Berth's; `low` and `high` are the quartiles of the turns."""

    median: float
    low: float
    high: float


@contextmanager
def one_processor() -> Iterator[None]:
    """Run this thread, and processes that it starts, on one processor; on Linux only."""
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
    """Call the peer `turns` times, and `ours` before and after each of its calls.

    Returns:
        The results of `ours`, and those of the peer, which are one fewer, or none without a peer.
    """
    blocks, calls = [ours()], list[P]()
    for _ in range(turns):
        if peer is not None:
            calls.append(peer())
        blocks.append(ours())
    return blocks, calls


def ratio_of(blocks: Sequence[Sample], calls: Sequence[Sample]) -> Ratio:
    """Return the ratio of the peer's calls to the means of Berth's blocks before and after them.

    Args:
        blocks: samples of Berth's blocks.
        calls: samples of the peer, at least one; call n came between the blocks n and n + 1.
    """
    neighbours = zip(blocks[:-1], calls, blocks[1:], strict=True)
    ratios = [
        call.cpu_us / fmean((before.cpu_us, after.cpu_us)) for before, call, after in neighbours
    ]
    low, _, high = quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Ratio(round(median(ratios), 3), round(low, 3), round(high, 3))
