"""The log, which consists of structured lines on standard error."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, cast

import structlog

from berth.config.settings import LogFormat, LogSettings
from berth.ports.bus import CONTEXT

_HIDDEN: Final = "***"
_SECRET_KEYS: Final = re.compile(
    r"passw|secret|token|authorization|auth_blob|api_?key", re.IGNORECASE
)
# User and password in a URL.
_IN_URLS: Final = re.compile(r"(?<=://)[^/\s@:]*:[^/\s@]*(?=@)")
_IN_HEADERS: Final = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]{8,}")

_Line = MutableMapping[str, Any]


def set_up_logging(settings: LogSettings) -> None:
    """Configure the log of this process; this is called once, at its start.

    Libraries log in the same format, but only warnings and errors.
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
        # Secrets are hidden after `format_exc_info`, because a traceback may quote a URL with a
        # password.
        hide_secrets,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])


def add_request_id(_logger: object, _method: str, line: _Line) -> _Line:
    """Add the ids of the current request and trace to a log line, if there are any."""
    context = CONTEXT.get()
    if context.request_id is not None:
        line.setdefault("request_id", context.request_id)
    if context.traceparent is not None:
        line.setdefault("trace_id", context.traceparent.split("-")[1])
    return line


def hide_secrets(_logger: object, _method: str, line: _Line) -> _Line:
    """Mask the secrets in a log line, nested mappings included, and return the line.

    The values of keys that suggest a secret are masked, and so are credentials in URLs and headers.
    Lists are not searched. No code logs secrets on purpose, but error texts of libraries may quote
    URLs and headers.
    """
    for key, value in line.items():
        line[key] = _hidden(key, value)
    return line


def _hidden(key: str, value: object) -> object:
    if value is not None and _SECRET_KEYS.search(key):
        return _HIDDEN
    if isinstance(value, str):
        return _IN_HEADERS.sub(rf"\1 {_HIDDEN}", _IN_URLS.sub(_HIDDEN, value))
    if isinstance(value, Mapping):
        inner = cast("Mapping[object, object]", value)
        return {name: _hidden(str(name), one) for name, one in inner.items()}
    return value
