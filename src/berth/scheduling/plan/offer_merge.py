"""Merging: lists of offers of several sources, made into one plan (ADR 0025).

A source's n-th offer holds only together with those before it, so only prefixes are taken. Of
the heads the one with the highest weight comes next: a source's next choice depends on its own
hosts alone, so this is what one scheduler would choose that sees the hosts of all.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

_WEIGHT_MAX: Final = 1e300
"""Sums of as many as a request may have are still numbers."""


class MergedOffer(NamedTuple):
    """One entry of a merged plan: which source, which of its offers (from 0), and the weight."""

    source: int
    place: int
    weight: float


def merge_offers(weights: Sequence[Sequence[float]], count: int) -> list[MergedOffer]:
    """Take the best `count` offers, as prefixes of the sources' lists.

    Equal weights go to the source that comes first. A weight that is not finite ends its list:
    a child that says such a thing has said nothing.

    Args:
        weights: for each source those of its offers, in the order in which they hold.
        count: how many are wanted; fewer come back when there are not so many.
    """
    heads: list[tuple[float, int, int]] = []
    for source, offers in enumerate(weights):
        if offers and math.isfinite(offers[0]):
            heads.append((-offers[0], source, 0))
    heapq.heapify(heads)
    taken: list[MergedOffer] = []
    while heads and len(taken) < count:
        negative, source, place = heads[0]
        taken.append(MergedOffer(source, place, -negative))
        following = place + 1
        offers = weights[source]
        if following < len(offers) and math.isfinite(offers[following]):
            heapq.heapreplace(heads, (-offers[following], source, following))
        else:
            heapq.heappop(heads)
    return taken


def merge_from_one_source(weights: Sequence[Sequence[float]], count: int) -> list[MergedOffer]:
    """Take all of one source: the one with the greatest sum of those that have enough.

    For instances that have to be together. When no source has enough, the one with the most
    offers is taken, so that the plan says how many there are.
    """
    lists = [merge_offers([offers], count) for offers in weights]
    if not lists:
        return []
    best = max(range(len(lists)), key=lambda source: _goodness(lists[source], source))
    return [MergedOffer(best, one.place, one.weight) for one in lists[best]]


def _goodness(taken: Sequence[MergedOffer], source: int) -> tuple[int, float, int]:
    return len(taken), math.fsum(one.weight for one in taken), -source


def adjusted_weight(weight: float, offset: float, scale: float) -> float:
    """Return what a child's weight counts for its parent; always a number.

    Source: nova-behaviour.md 1.3, D1.

    Zones above scale it again, so it must not grow out of what can be told and summed.
    """
    return max(-_WEIGHT_MAX, min(_WEIGHT_MAX, offset + scale * weight))
