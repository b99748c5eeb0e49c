"""Parses name patterns, `changes-since` and `changes-before` in list queries.

Nova passes a name pattern to its database as a regular expression. Berth supports `^` at the start
and `$` at the end, `.*` anywhere, and a backslash that makes the next character literal; everything
else is literal. Matching therefore needs no backtracking, so no client can send a slow pattern.
"""

import re
from collections.abc import Callable
from typing import Protocol

from berth.api.values import moment
from berth.domain.errors import InvalidInputError


class Period(Protocol):
    """A query with `changes-since` and `changes-before` as strings."""

    changes_since: str | None
    changes_before: str | None


def period_of(query: Period, *, is_paged: bool, has_end: bool) -> tuple[float | None, float | None]:
    """Return `changes-since` and `changes-before` as Unix seconds; None where there is no limit.

    Args:
        query: the query.
        is_paged: whether the microversion has `changes-since`, which is ignored otherwise.
        has_end: whether the microversion has `changes-before`, which is ignored otherwise.

    Raises:
        InvalidInputError: a value is not a time, or `changes-since` is after `changes-before`.
    """
    since, before = query.changes_since, query.changes_before
    since_s = moment(since, "changes-since") if is_paged and since is not None else None
    before_s = moment(before, "changes-before") if has_end and before is not None else None
    if since_s is not None and before_s is not None and before_s < since_s:
        raise InvalidInputError("changes-since", "must not be after changes-before")
    return since_s, before_s


# The alternatives are tried in order, so `.*` comes first; a `.` alone is literal.
_TOKEN = re.compile(r"(?s)\.\*|\\(?P<escaped>.)|(?P<plain>.)")


def pattern_of(text: str) -> Callable[[str], bool]:
    """Return a function that tests, regardless of case, whether a name matches a pattern."""
    folded = text.casefold()
    at_start = folded.startswith("^")
    at_end = folded.endswith("$") and not folded.endswith("\\$")
    parts = _parts(folded[at_start : len(folded) - at_end])
    # An empty first or last part matches anywhere, so the pattern is not anchored at that end.
    if not at_start:
        parts.insert(0, "")
    if not at_end:
        parts.append("")

    def matches(name: str) -> bool:
        return _match(name.casefold(), parts)

    return matches


def _parts(text: str) -> list[str]:
    """Return the literal strings before, between and after the `.*` of a pattern."""
    parts = [""]
    for token in _TOKEN.finditer(text):
        if token[0] == ".*":
            parts.append("")
        else:
            parts[-1] += token["escaped"] or token["plain"]
    return parts


def _match(name: str, parts: list[str]) -> bool:
    """Return whether a name consists of the parts in order, with any text between them."""
    first, *middle = parts
    if not middle:
        return name == first
    last = middle.pop()
    end = len(name) - len(last)
    if end < len(first) or not (name.startswith(first) and name.endswith(last)):
        return False
    # The leftmost match of each part leaves the longest rest for the parts that follow, so no other
    # match need be tried.
    at = len(first)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
