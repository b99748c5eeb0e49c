"""Values that OpenStack's clients write in several ways, made one."""

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
"""A number from 0, or its digits."""

Flag = bool | Annotated[str, Meta(min_length=1, max_length=5)]
"""A boolean, or a word for one."""

Text = Annotated[str, Meta(max_length=65_535)]
"""A text as long as OpenStack keeps one."""

Limit = Annotated[int, Meta(ge=0, le=COUNT_MAX)]

_TRUE = frozenset({"true", "1", "on", "yes", "t", "y"})
_FALSE = frozenset({"false", "0", "off", "no", "f", "n"})


def whole(value: int | str, field: str, *, low: int = 0) -> int:
    """Read a number or its digits.

    Raises:
        InvalidInputError: it is below `low` or above what OpenStack takes.
    """
    number = int(value)
    if not low <= number <= COUNT_MAX:
        raise InvalidInputError(field, f"{number} must be {low} to {COUNT_MAX}")
    return number


def flag(value: Flag | None, field: str) -> bool:
    """Read a boolean or a word for one; None is False, and so is a word that is not there.

    Raises:
        InvalidInputError: the word is none for a boolean.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    word = value.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidInputError(field, f"{value[:80]!r} must be true or false")


def check_edges(text: object, field: str) -> None:
    """Refuse a name that begins or ends with white space; what is no text may be left out.

    Raises:
        InvalidInputError: it does.
    """
    if isinstance(text, str) and text.strip() != text:
        raise InvalidInputError(field, "must not begin or end with white space")


def moment(text: str, field: str) -> float:
    """Read an ISO 8601 time into Unix seconds; without a zone it is UTC.

    Raises:
        InvalidInputError: it is no such time.
    """
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(field, f"{text[:80]!r} must be a time in ISO 8601") from error


def isotime(seconds: float) -> str:
    """Write Unix seconds as `2026-01-31T12:00:00Z`."""
    return f"{naive_time(seconds)[:19]}Z"


def naive_time(seconds: float) -> str:
    """Write Unix seconds as Nova does where it names no zone: `2026-01-31T12:00:00.000000`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def number_of(uuid: str) -> int:
    """Derive the number that stands for a uuid before microversion 2.53; it fits a JSON number."""
    return int.from_bytes(hashlib.sha256(uuid.encode()).digest()[:8], "big") >> 12
