"""Suggestions for misspelt names in error messages."""

import difflib
from collections.abc import Iterable

# Below difflib's default of 0.6: a poor suggestion is still more use than the list of all names.
_CUTOFF = 0.5


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return a hint with the known name most similar to a wrong one, or with all known names."""
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=_CUTOFF)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there are none"
