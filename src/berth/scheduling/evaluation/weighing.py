"""Scores from the values of weighers, normalised by Nova's rule or as shares of each host.

Source: nova-behaviour.md 2.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.scheduling.evaluation.ranking import FullRanking, WeigherScores
from berth.scheduling.rules.measure import Rule
from berth.scheduling.rules.rule import Normalisation, OfOne, Query, Raw, Scores, Weigher
from berth.tables.columnar.bitsets import Rows, Selection
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of a weigher's raw values: 0 at `low`, 1 at `low + span`.

    A span of 0 means that all values are equal; they all become 0.
    """

    low: float
    span: float


_NONE: Final[Rows] = np.zeros(0, dtype=np.intp)

UNSCALED: Final = Scale(0.0, 1.0)
"""The scale of values that are already shares."""


def weigh(
    hosts: HostTable,
    query: Query,
    rows: Rows,
    weighers: Sequence[Weigher],
    normalisation: Normalisation = Normalisation.NOVA,
) -> FullRanking:
    """Return hosts with their scores: the sum over weighers of multiplier x normalised value.

    With `Normalisation.NOVA`, a single host is not weighed and scores 0, as in Nova; by share, it
    is weighed like any other.

    Args:
        hosts: the table.
        query: the query of the instance.
        rows: (K,) rows that passed the filters.
        weighers: the weighers in the policy's order, which changes scores by rounding only.
        normalisation: the way in which raw values become comparable.
    """
    scores = np.zeros(rows.size, dtype=np.float64)
    by_share = normalisation is Normalisation.SHARE
    # By share, even a single host has a meaningful score.
    if rows.size <= (not by_share):
        return FullRanking(hosts, rows, scores)
    parts: list[WeigherScores] = []
    for weigher in weighers:
        raw = (
            None
            if is_off(hosts, weigher)
            else values_of(weigher, normalisation, hosts, query, rows)
        )
        if raw is None:
            continue
        multiplier = multipliers(hosts, weigher, rows)
        normalised = (
            _finite_shares(raw) if by_share else normalise(raw, weigher.floor, weigher.ceiling)
        )
        scores += multiplied(normalised, multiplier)
        parts.append(WeigherScores(weigher, raw, normalised, multiplier))
    return FullRanking(hosts, rows, scores, tuple(parts))


def values_of(
    weigher: Weigher,
    normalisation: Normalisation,
    hosts: HostTable,
    query: Query,
    rows: Selection,
) -> Scores | None:
    """Return a weigher's values of K rows, (K,), or None if the weigher does not apply.

    Args:
        weigher: the weigher.
        normalisation: whether to return raw values or shares.
        hosts: the table.
        query: the query of the instance.
        rows: K rows.

    Raises:
        ValueError: see `reader_of`.
    """
    return reader_of(weigher, normalisation)(hosts, query, rows)


def reader_of(weigher: Weigher, normalisation: Normalisation) -> Raw:
    """Return the function for a weigher's values under a policy: raw values or shares.

    Raises:
        ValueError: the policy needs shares and the weigher has none; policies that mix the two are
            rejected when they are read.
    """
    if normalisation is Normalisation.NOVA:
        return weigher.raw
    if weigher.share is None:
        raise ValueError(f"{weigher.name} cannot be measured as a share of a host")
    return weigher.share


def reader_of_one(weigher: Weigher, normalisation: Normalisation) -> OfOne | None:
    """Return the function that creates a weigher's reader of one row, or None if it has none."""
    is_nova = normalisation is Normalisation.NOVA
    of_one = weigher.raw_of_one if is_nova else weigher.share_of_one
    rule = weigher.raw if is_nova else weigher.share
    return rule.of_row if of_one is None and isinstance(rule, Rule) else of_one


def multipliers(hosts: HostTable, weigher: Weigher, rows: Selection) -> float | Scores:
    """Return the multiplier of each row, or one number if no aggregate overrides the policy.

    The metadata of a host's aggregates overrides the policy; the lowest of several values applies
    (nova-behaviour.md 2.4).
    """
    usual = weigher.multiplier
    if not weigher.multiplier_key:
        return usual
    least = hosts.memberships.least_of(weigher.multiplier_key, rows)
    if least is None:
        return usual
    given = -least if weigher.is_penalty else least
    return np.where(np.isnan(given), usual, given)


def is_off(hosts: HostTable, weigher: Weigher) -> bool:
    """Return whether the policy turns a weigher off and no aggregate turns it on."""
    if weigher.multiplier:
        return False
    key = weigher.multiplier_key
    return not key or hosts.memberships.least_of(key, _NONE) is None


def multiplied(normalised: Scores, multiplier: float | Scores) -> Scores:
    """Return the (K,) products of the multiplier and the normalised values of K rows.

    The result may be `normalised` itself, so it must not be written to.
    """
    # A multiplication by 1 would only copy the array.
    if isinstance(multiplier, float | int) and multiplier == 1:
        return normalised
    product: Scores = multiplier * normalised
    return product


def _finite_shares(shares: Scores) -> Scores:
    """Return shares with 0 for NaN, and with the nearest bound, 0 or 1, for infinity.

    The shares of Berth's own weighers are finite; those of a plugin may not be.
    """
    if np.isfinite(shares).all():
        return shares
    return np.nan_to_num(shares, nan=0.0, posinf=1.0, neginf=0.0)


def normalise(raw: Scores, floor: float | None, ceiling: float | None) -> Scores:
    """Return raw values mapped to [0, 1] by (raw - low) / (high - low): (K,) float64.

    Low and high are the fixed ends, to which raw values are clamped, or else the least and the
    greatest value. Equal values all become 0, and so does NaN; infinity is replaced by the greatest
    or the least finite value.

    Args:
        raw: (K,), K >= 1.
        floor: the fixed low end, or None.
        ceiling: the fixed high end, or None.
    """
    least, most = float(raw.min()), float(raw.max())
    if math.isfinite(least) and math.isfinite(most):
        scale = scale_of(least, most, floor, ceiling)
        if math.isinf(scale.span):
            # The distance between the ends overflows; that between their quarters does not.
            ends = (None if end is None else end / 4 for end in (floor, ceiling))
            return normalise(raw / 4, *ends)
        return scaled(raw, scale, floor, ceiling)
    return _normalise_odd(raw, floor, ceiling)


def scale_of(least: float, most: float, floor: float | None, ceiling: float | None) -> Scale:
    """Return the scale for values between `least` and `most` and optional fixed ends."""
    low = (least if ceiling is None else min(least, ceiling)) if floor is None else floor
    high = (most if floor is None else max(most, floor)) if ceiling is None else ceiling
    return Scale(low, high - low if high > low else 0.0)


def scaled(raw: Scores, scale: Scale, floor: float | None, ceiling: float | None) -> Scores:
    """Return (raw - low) / span for values clamped to the fixed ends: (K,); all 0 if the span is 0.

    Args:
        raw: (K,), finite.
        scale: the low end and the span.
        floor: the fixed low end, or None.
        ceiling: the fixed high end, or None.
    """
    if not scale.span:
        return np.zeros(raw.size, dtype=np.float64)
    if floor is not None:
        raw = np.maximum(raw, floor)
    if ceiling is not None:
        raw = np.minimum(raw, ceiling)
    above: Scores = raw - scale.low if scale.low else raw
    return above / scale.span


def _normalise_odd(raw: Scores, floor: float | None, ceiling: float | None) -> Scores:
    finite = raw[np.isfinite(raw)]
    if not finite.size:
        return np.zeros(raw.size, dtype=np.float64)
    clipped = np.clip(raw, finite.min(), finite.max())
    unknown = np.isnan(raw)
    clipped[unknown] = finite[0]
    normalised = normalise(clipped, floor, ceiling)
    normalised[unknown] = 0.0
    return normalised
