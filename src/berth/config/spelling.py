"""Suggestions for misspelt names in error messages."""

import difflib
from collections.abc import Iterable

# difflib's default is 0.6. The lower value also gives poor suggestions, which are still more useful
# than a list of all names.
_CUTOFF = 0.5


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return a hint with the known name that is most similar to a wrong one.

    If none is similar, the hint lists all known names.
    """
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=_CUTOFF)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known names are {', '.join(names)}" if names else "no names are known"
