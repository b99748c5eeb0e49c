"""The time of the last change of what an answer shows."""

from collections.abc import Iterable


def newest(times_s: Iterable[float]) -> float | None:
    """Return the latest of some Unix times; None, which stands for now, if one is unknown (0)."""
    known = list(times_s)
    return max(known) if known and all(known) else None
