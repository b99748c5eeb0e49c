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
    near = suggestion(wrong, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"known names are {', '.join(names)}" if names else "no names are known"


def suggestion(wrong: str, known: Iterable[str], *, case_sensitive: bool = True) -> str | None:
    """Return the known name that is most similar to a wrong one, or None if none is similar."""
    names = {name if case_sensitive else name.lower(): name for name in sorted(known)}
    asked = wrong if case_sensitive else wrong.lower()
    near = difflib.get_close_matches(asked, names, n=1, cutoff=_CUTOFF)
    return names[near[0]] if near else None
