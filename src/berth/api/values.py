"""Parsing and formatting of values that OpenStack's clients write in several ways."""

import hashlib
from datetime import UTC, datetime
from typing import Annotated

from berth.api.codec import Meta
from berth.domain.errors import InvalidInputError

COUNT_MAX = 2**31 - 1

Whole = (
    Annotated[int, Meta(ge=0, le=COUNT_MAX)]
    | Annotated[str, Meta(pattern="^[0-9]+$", min_length=1, max_length=10)]
)
"""An integer from 0 to `COUNT_MAX`, or a string of 1 to 10 digits, whose range `whole` checks."""

Flag = bool | Annotated[str, Meta(min_length=1, max_length=5)]
"""A boolean, or a word that may stand for one; `flag` checks it."""

Text = Annotated[str, Meta(max_length=65_535)]
"""A string of at most 65,535 characters, as in OpenStack."""

Limit = Annotated[int, Meta(ge=0, le=COUNT_MAX)]

_TRUE = frozenset({"true", "1", "on", "yes", "t", "y"})
_FALSE = frozenset({"false", "0", "off", "no", "f", "n"})


def whole(value: int | str, field: str, *, low: int = 0) -> int:
    """Return an integer that a client sent as a number or as its decimal digits.

    Raises:
        InvalidInputError: the number is below `low` or above `COUNT_MAX`.
    """
    number = int(value)
    if not low <= number <= COUNT_MAX:
        raise InvalidInputError(field, f"must be between {low} and {COUNT_MAX}, not {number}")
    return number


def flag(value: Flag | None, field: str) -> bool:
    """Return a boolean that a client sent as a boolean or as a word; None is False.

    Raises:
        InvalidInputError: the word means neither true nor false.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    word = value.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidInputError(field, f"{value[:80]!r} is not a boolean; use true or false")


def check_edges(text: object, field: str) -> None:
    """Reject a string with white space at either end; a value that is not a string is accepted.

    Raises:
        InvalidInputError: the string begins or ends with white space.
    """
    if isinstance(text, str) and text.strip() != text:
        raise InvalidInputError(field, f"{text[:80]!r} must not begin or end with white space")


def moment(text: str, field: str) -> float:
    """Return an ISO 8601 time as Unix seconds; a time without an offset is in UTC.

    Raises:
        InvalidInputError: the string is not an ISO 8601 time.
    """
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            field, f"{text[:80]!r} is not an ISO 8601 time, such as 2026-01-31T12:00:00Z"
        ) from error


def isotime(seconds: float) -> str:
    """Return Unix seconds formatted as `2026-01-31T12:00:00Z`."""
    return f"{naive_time(seconds)[:19]}Z"


def naive_time(seconds: float) -> str:
    """Return Unix seconds in Nova's format, in UTC: `2026-01-31T12:00:00.000000`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def number_of(uuid: str) -> int:
    """Return the integer id that replaces a uuid before microversion 2.53."""
    # The id has 52 bits, because many JSON parsers round integers above 2**53.
    return int.from_bytes(hashlib.sha256(uuid.encode()).digest()[:8], "big") >> 12
