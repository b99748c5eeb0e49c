"""Patterns for names: the part of regular expressions that takes no time to match.

Nova hands the pattern to its database. Berth reads `^` and `$` at the ends, `.*` anywhere, and a
backslash before any other character; all else stands for itself. So no pattern that a client
sends can take longer than the name is long.
"""

import re
from collections.abc import Callable
from typing import Protocol

from berth.api.values import moment
from berth.domain.errors import InvalidInputError


class Period(Protocol):
    """A query with a period, as it came."""

    changes_since: str | None
    changes_before: str | None


def period_of(query: Period, *, is_paged: bool, has_end: bool) -> tuple[float | None, float | None]:
    """Read from when to when something has to have changed, in Unix seconds; None for any.

    Args:
        query: what was asked.
        is_paged: the version knows `changes-since`; it is ignored otherwise.
        has_end: the version knows `changes-before`; likewise.

    Raises:
        InvalidInputError: one is no time, or the first is after the second.
    """
    since, before = query.changes_since, query.changes_before
    since_s = moment(since, "changes-since") if is_paged and since is not None else None
    before_s = moment(before, "changes-before") if has_end and before is not None else None
    if since_s is not None and before_s is not None and before_s < since_s:
        raise InvalidInputError("changes-since", "must not be after changes-before")
    return since_s, before_s


_TOKEN = re.compile(r"(?s)\.\*|\\(?P<escaped>.)|(?P<plain>.)")


def pattern_of(text: str) -> Callable[[str], bool]:
    """Make a test for names, without regard to case."""
    folded = text.casefold()
    at_start = folded.startswith("^")
    at_end = folded.endswith("$") and not folded.endswith("\\$")
    parts = _parts(folded[at_start : len(folded) - at_end])
    if not at_start:
        parts.insert(0, "")
    if not at_end:
        parts.append("")

    def matches(name: str) -> bool:
        return _match(name.casefold(), parts)

    return matches


def _parts(text: str) -> list[str]:
    """Split at each `.*` into the texts between."""
    parts = [""]
    for token in _TOKEN.finditer(text):
        if token[0] == ".*":
            parts.append("")
        else:
            parts[-1] += token["escaped"] or token["plain"]
    return parts


def _match(name: str, parts: list[str]) -> bool:
    """Tell whether the texts come in order, the first at the start and the last at the end."""
    first, *middle = parts
    if not middle:
        return name == first
    last = middle.pop()
    end = len(name) - len(last)
    if end < len(first) or not (name.startswith(first) and name.endswith(last)):
        return False
    at = len(first)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
