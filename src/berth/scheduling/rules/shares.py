"""Shares: what weighers measure, said in [0, 1], for policies that normalise by share.

A share depends on one host and the request alone. So it means the same in every list of hosts,
and scores can be compared between requests and between zones.
"""

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.rules.rule import Scores

Numbers = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int32]


def part(free: Numbers, whole: Numbers) -> Scores:
    """Return free / whole: 0 where nothing is free or there is no whole, never above 1.

    Args:
        free: (K,) what is left; may be below 0.
        whole: (K,) what there is, in the same unit.
    """
    shares = np.zeros(free.size, dtype=np.float64)
    np.divide(free, whole, out=shares, where=whole > 0)
    return np.clip(shares, 0.0, 1.0, out=shares)


def filled(counts: Numbers, scale: float) -> Scores:
    """Return count / (count + scale): 0 for none, 1/2 at `scale`, below 1 for any number.

    Args:
        counts: (K,) numbers without an upper end; below 0 counts as 0.
        scale: above 0, in the same unit.
    """
    shares = np.maximum(counts, 0.0).astype(np.float64)
    shares /= shares + scale
    return shares


def filled_by(count: int, scale: float) -> float:
    """Return what `filled` does, for one count."""
    share = max(float(count), 0.0)
    return share / (share + scale)


def tilted(values: Scores, scale: float) -> Scores:
    """Return (1 + value / (|value| + scale)) / 2: 1/2 at 0, falling to 0 and rising to 1.

    Args:
        values: (K,) numbers without ends; what is not a number becomes 0, the least share.
        scale: above 0, in the same unit; at it the share is 3/4.
    """
    finite = np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    bounded = np.clip(finite, -np.finfo(np.float64).max / 2, np.finfo(np.float64).max / 2)
    shares: Scores = (1.0 + bounded / (np.abs(bounded) + scale)) / 2.0
    return shares


def check_scale(scale: float, option: str = "scale") -> float:
    """Return `scale`, an option of that name, when shares can be made with it.

    Raises:
        ValueError: it is not above 0.
    """
    if scale <= 0:
        raise ValueError(f"{option}: {scale} must be above 0")
    return scale
