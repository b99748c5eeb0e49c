"""Spelling: what a wrong name was probably meant to be."""

import difflib
from collections.abc import Iterable

_CUTOFF = 0.5


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Say which known name a wrong one is nearest to, or else which names there are."""
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=_CUTOFF)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there are none"
