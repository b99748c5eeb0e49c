"""Times on the command line: a span from now, a date and time, and ages."""

import re
from datetime import UTC, datetime
from typing import Final

from berth.cli.failures import CommandError, ExitCode

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
FORM: Final = "a span such as 90s, 30m, 2h or 3d, or a time such as 2026-12-01T06:00+01:00"
"""The accepted forms, for help and errors."""


def moment_s(text: str, option: str, now_s: float) -> float:
    """Return the Unix time in seconds that a user wrote; without an offset it is local time.

    Args:
        text: the text.
        option: the name of the option, for the error.
        now_s: the current Unix time in seconds.

    Raises:
        CommandError: the text is neither a span nor a time.
    """
    if span := _SPAN.fullmatch(text.strip().lower()):
        return now_s + float(span[1]) * _UNITS_S[span[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise CommandError(f"{option} {text[:80]!r} must be {FORM}", ExitCode.USAGE) from None


def moment_text(at_s: float | None) -> str | None:
    """Return a Unix time in seconds as text in UTC; None stays None."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="seconds")


def age_s(since: str | None, now_s: float) -> float | None:
    """Return the seconds since an ISO time, in UTC if it has no offset; None if it is unknown.

    Args:
        since: the time as an API shows it.
        now_s: the current Unix time in seconds.
    """
    if not since:
        return None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        return None
    return max(now_s - (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 0.0)


def age_text(since: str | None, now_s: float) -> str | None:
    """Return the time since an ISO time in its two largest units, such as `3d 4h`; see `age_s`."""
    span_s = age_s(since, now_s)
    if span_s is None:
        return None
    left_s, parts = int(span_s), list[str]()
    for unit, unit_s in sorted(_UNITS_S.items(), key=lambda one: -one[1]):
        count, left_s = divmod(left_s, unit_s)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
