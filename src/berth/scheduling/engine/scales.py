"""The scales of a profile's weighers, and the drift of scores when scales change."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from berth.scheduling.engine.readings import Matrix
from berth.scheduling.evaluation.weighing import Scale
from berth.scheduling.rules.rule import Weigher

Ends: TypeAlias = tuple[float, float, float, float, float]
"""(floor, ceiling, low, span, factor) of a weigher.

Low is 0, span 1 and factor 0 when all values are equal.
"""


@dataclass(frozen=True, slots=True)
class Scales:
    """The scale of each weigher, `all`, in the forms that scoring uses.

    `low`, `span` and `factor` are columns, (W, 1); `each` contains the same numbers by weigher,
    with the bounds of the weigher's values. A weigher whose values are all equal has span 1 and
    factor 0, so it adds nothing.
    """

    all: tuple[Scale, ...]
    low: Matrix
    span: Matrix
    factor: Matrix
    each: tuple[Ends, ...]


def prepared(weighers: Sequence[Weigher], scales: tuple[Scale, ...]) -> Scales:
    """Return the scales of W weighers, given in the same order, as arrays and tuples."""
    each = ends_of(weighers, scales)
    return Scales(
        all=scales,
        low=column([low for _, _, low, _, _ in each]),
        span=column([span for _, _, _, span, _ in each]),
        factor=column([factor for _, _, _, _, factor in each]),
        each=each,
    )


def ends_of(weighers: Sequence[Weigher], scales: tuple[Scale, ...]) -> tuple[Ends, ...]:
    """Return (floor, ceiling, low, span, factor) for each weigher; see `Board.set_ends`."""
    return tuple(
        (
            -math.inf if weigher.floor is None else weigher.floor,
            math.inf if weigher.ceiling is None else weigher.ceiling,
            scale.low if scale.span else 0.0,
            scale.span or 1.0,
            weigher.multiplier if scale.span else 0.0,
        )
        for weigher, scale in zip(weighers, scales, strict=True)
    )


def drift(
    weighers: Sequence[Weigher],
    was: tuple[Scale, ...],
    now: tuple[Scale, ...],
    multipliers_of: Callable[[Weigher], tuple[float, ...]],
) -> tuple[float, float]:
    """Return a lower and an upper bound of the change of any score from old scales to current ones.

    Args:
        weighers: the weighers of the profile.
        was: the scales of the weighers when scores were computed.
        now: the current scales of the weighers.
        multipliers_of: returns the least and the greatest multiplier of a weigher on any host, or
            the only one.
    """
    least = most = 0.0
    for weigher, old, new in zip(weighers, was, now, strict=True):
        if old == new:
            continue
        # The difference of two linear scales is linear, and all current values lie on the new
        # scale. Its extremes over all hosts are therefore at the ends of that scale.
        ends = (new.low, new.low + new.span)
        changes = [_at(end, new) - _at(end, old) for end in ends]
        every = [factor * change for factor in multipliers_of(weigher) for change in changes]
        least += min(every)
        most += max(every)
    return least, most


def column(values: Sequence[float]) -> Matrix:
    """Return values as a (W, 1) array."""
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def _at(value: float, scale: Scale) -> float:
    return (value - scale.low) / scale.span if scale.span else 0.0
