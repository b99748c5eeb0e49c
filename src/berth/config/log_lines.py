"""The text of log lines: JSON, or a form for people; both on one line and without control codes."""

import json
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import msgspec

Line = MutableMapping[str, Any]

_FIRST: Final = ("timestamp", "level", "event")
_EXCEPTION: Final = "exception"
# A value that needs no quotation marks.
_BARE: Final = re.compile(r"[\w./:@+,*()\[\]{}<>%#~-]+", re.ASCII)
_COLORS: Final = {"debug": "\33[2m", "info": "\33[32m", "warning": "\33[33m", "error": "\33[31m"}
_PLAIN: Final = "\33[0m"
_EVENT_WIDTH: Final = 24

_encoder: Final = msgspec.json.Encoder(enc_hook=repr)


def json_line(line: Mapping[str, object]) -> str:
    """Return a log line as a JSON object in ASCII.

    Everything else is escaped, so that a value cannot end the line, and a terminal that shows it
    receives no control codes.
    """
    try:
        text = _encoder.encode(line).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        text = json.dumps(line, default=repr)
    if not text.isascii():
        text = json.dumps(json.loads(text))
    return text.replace("\x7f", "\\u007f") if "\x7f" in text else text


def console_line(line: Mapping[str, object], *, colors: bool = False) -> str:
    """Return a log line for people: time, level, event, and the fields as `key=value`.

    Values with spaces, quotation marks or unprintable characters are quoted like strings in JSON.
    The lines of a traceback follow, each indented, so that none of them can pass for a log line.

    Args:
        line: the fields.
        colors: whether the level and the event are coloured for a terminal.
    """
    level, event = str(line.get("level", "")), str(line.get("event", ""))
    # The text of a library may look like fields, so it is quoted then.
    event = _quoted(event) if "=" in event or event.startswith('"') else _text(event)
    shown = f"[{level:<7}]"
    if colors:
        shown = f"{_COLORS.get(level, '')}{shown}{_PLAIN}"
        event = f"\33[1m{event:<{_EVENT_WIDTH}}{_PLAIN}"
    else:
        event = f"{event:<{_EVENT_WIDTH}}"
    fields = [
        f"{name}={_value(value)}"
        for name, value in line.items()
        if name not in _FIRST and name != _EXCEPTION
    ]
    text = " ".join((str(line.get("timestamp", "")), shown, event, *fields)).rstrip()
    traceback = line.get(_EXCEPTION)
    if not traceback:
        return text
    return "\n".join((text, *(f"    {_text(one)}" for one in str(traceback).splitlines())))


def _value(value: object) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else _quoted(value)
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return _value(json_line({"": value})[4:-1])


def _quoted(value: str) -> str:
    if value.isprintable():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return json.dumps(value).replace("\x7f", "\\u007f")


def _text(value: object) -> str:
    """Return a text without unprintable characters, which are escaped."""
    text = str(value)
    return text if text.isprintable() else json.dumps(text)[1:-1].replace("\x7f", "\\u007f")
