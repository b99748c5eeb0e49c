"""The period that a list is asked for: `changes-since` and `changes-before`."""

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
