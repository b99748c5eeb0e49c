"""The merge of offers from several sources into one plan (ADR 0025).

A source's n-th offer is valid only together with those before it, so only prefixes are taken. Among
the next offers of all sources, the one with the highest weight is taken. A source's next offer
depends on its own hosts alone, so the result is that of one scheduler that sees all hosts.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

# The bound of adjusted weights, so low that their sum over the instances of a request is finite.
_WEIGHT_MAX: Final = 1e300


class MergedOffer(NamedTuple):
    """One entry of a merged plan.

    `source` is the index of the source, `place` the index of the offer among those of the source,
    and `weight` the weight of the offer.
    """

    source: int
    place: int
    weight: float


def merge_offers(weights: Sequence[Sequence[float]], count: int) -> list[MergedOffer]:
    """Return the best `count` offers, as prefixes of the sources' lists.

    Of offers with equal weights, that of the first source is taken. A weight that is not finite
    ends its list: it comes from a faulty child zone, whose later offers cannot be ranked.

    Args:
        weights: the weights of each source's offers, in order.
        count: the number of offers wanted; fewer are returned if there are fewer.
    """
    heads: list[tuple[float, int, int]] = []
    for source, offers in enumerate(weights):
        if offers and math.isfinite(offers[0]):
            # Weights are negated, because the heap yields the least. The source breaks ties.
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
    """Return up to `count` offers of a single source, for instances that must stay together.

    Of the sources with `count` offers, the one with the greatest sum of weights is used. If there
    is none, the one with the most offers is used, so that the plan shows how many fit.
    """
    lists = [merge_offers([offers], count) for offers in weights]
    if not lists:
        return []
    best = max(range(len(lists)), key=lambda source: _goodness(lists[source], source))
    return [MergedOffer(best, one.place, one.weight) for one in lists[best]]


def _goodness(taken: Sequence[MergedOffer], source: int) -> tuple[int, float, int]:
    # The source is negated, so that the first of equal sources is the greatest.
    return len(taken), math.fsum(one.weight for one in taken), -source


def adjusted_weight(weight: float, offset: float, scale: float) -> float:
    """Return a child zone's weight as its parent uses it: offset + scale x weight, always finite.

    Source: nova-behaviour.md 1.3.

    The weight is bounded, because parent zones scale and add weights, which must stay finite.
    """
    return max(-_WEIGHT_MAX, min(_WEIGHT_MAX, offset + scale * weight))
