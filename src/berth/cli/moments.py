"""Times on the command line: a span from now, or a date and time."""

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
