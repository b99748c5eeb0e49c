"""Parses `changes-since` and `changes-before` in list queries."""

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
