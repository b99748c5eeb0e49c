"""The log, which consists of structured lines on standard error or in a file."""

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TextIO, cast

import structlog

from berth.adapters.log_file import LogFile
from berth.config.log_lines import Line, console_line, json_line
from berth.config.telemetry_settings import LogFormat, LogSettings
from berth.domain.errors import InvalidInputError
from berth.domain.secret_names import HIDDEN, is_secret_name
from berth.ports.bus import CONTEXT

# User and password in a URL.
_IN_URLS: Final = re.compile(r"(?<=://)[^/\s@:]*:[^/\s@]*(?=@)")
_IN_HEADERS: Final = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]{8,}")
_NS_PER_S: Final = 1_000_000_000
_OFF: Final = "off"


def set_up_logging(settings: LogSettings) -> None:
    """Configure the log of this process; this is called once, at its start.

    Libraries log in the same format, but only warnings and errors.

    Raises:
        InvalidInputError: the log file cannot be opened.
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    write, is_terminal = _output_of(settings)
    render = (
        json_line
        if settings.format is LogFormat.JSON
        else partial(console_line, colors=is_terminal)
    )
    thresholds = _thresholds_of(settings)

    # Structlog passes the result of its last processor to the logger.
    def finish(_logger: object, method: str, line: Line) -> str:
        threshold = thresholds.get(line["event"])
        if threshold is not None and logging.getLevelNamesMapping()[method.upper()] < threshold:
            raise structlog.DropEvent
        return render(completed(method, line))

    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, finish],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Lines(write),
        cache_logger_on_first_use=True,
    )
    handler = _Handler(write, render)
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)


def completed(level: str, line: Line) -> dict[str, object]:
    """Return a log line with its time and level first, and with the ids of its request.

    Secrets are hidden last, because a traceback may quote a URL with a password.

    Args:
        level: the level (`info`).
        line: the event and its fields; `exc_info` becomes `exception`, the traceback.
    """
    if "exc_info" in line:
        line = structlog.processors.format_exc_info(None, level, line)
    done: dict[str, object] = {
        "timestamp": _timestamp(time.time_ns()),
        "level": level,
        "event": line.pop("event"),
        **line,
    }
    add_request_id(done)
    return hide_secrets(done)


def add_request_id(line: Line) -> Line:
    """Add the ids of the current request and trace to a log line, if there are any."""
    context = CONTEXT.get()
    if context.request_id is not None:
        line.setdefault("request_id", context.request_id)
    if context.traceparent is not None:
        line.setdefault("trace_id", context.traceparent.split("-")[1])
    return line


def hide_secrets(line: dict[str, object]) -> dict[str, object]:
    """Mask the secrets in a log line, nested mappings included, and return the line.

    The values of keys that suggest a secret are masked, and so are credentials in URLs and headers.
    Lists are not searched. No code logs secrets on purpose, but error texts of libraries may quote
    URLs and headers.
    """
    for key, value in line.items():
        line[key] = _hidden(key, value)
    return line


class _Lines:
    """The logger below structlog's; each method takes a finished line.

    Args:
        write: writes the line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = write


class _Handler(logging.Handler):
    """Writes the lines of libraries in the same form.

    Args:
        write: writes a line.
        render: returns the text of a line.
    """

    def __init__(self, write: Callable[[str], None], render: Callable[[Line], str]) -> None:
        super().__init__()
        self._write = write
        self._render = render

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; see `logging.Handler.emit`."""
        line: Line = {"event": record.getMessage(), "logger": record.name}
        if record.exc_info:
            line["exc_info"] = record.exc_info
        self._write(self._render(completed(record.levelname.lower(), line)))


def _output_of(settings: LogSettings) -> tuple[Callable[[str], None], bool]:
    """Return the function that writes lines, and whether they go to a terminal."""
    if settings.file is None:
        return _to_stream(sys.stderr), sys.stderr.isatty()
    try:
        file = LogFile(
            settings.file,
            time.monotonic_ns,
            rotate_bytes=settings.rotate_mb * 1024 * 1024,
            kept=settings.rotate_kept,
        )
    except OSError as error:
        reason = f"{settings.file} cannot be opened ({error.strerror}); check its folder"
        raise InvalidInputError("log.file", reason) from error
    return file.write, False


def _to_stream(stream: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        # One call, so that lines of threads do not mix.
        stream.write(f"{line}\n")
        stream.flush()

    return write


def _thresholds_of(settings: LogSettings) -> dict[str, int]:
    """Return the lowest level of each event that has one of its own."""
    names = logging.getLevelNamesMapping()
    found: dict[str, int] = {}
    for one in settings.levels:
        event, _, level = one.partition("=")
        found[event] = logging.CRITICAL + 1 if level == _OFF else names[level.upper()]
    return found


class _Second:
    """The formatted second of the latest line, kept because formatting takes microseconds."""

    number = -1
    text = ""


def _timestamp(now_ns: int) -> str:
    """Return a Unix time in nanoseconds as ISO 8601 in UTC, with microseconds."""
    second, rest_ns = divmod(now_ns, _NS_PER_S)
    if second != _Second.number:
        _Second.number = second
        _Second.text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_Second.text}.{rest_ns // 1000:06d}Z"


def _hidden(key: str, value: object) -> object:
    if value is not None and is_secret_name(key):
        return HIDDEN
    if isinstance(value, str):
        # Credentials follow `://` or a space; most values have neither.
        if "://" in value:
            value = _IN_URLS.sub(HIDDEN, value)
        return _IN_HEADERS.sub(rf"\1 {HIDDEN}", value) if "B" in value else value
    if isinstance(value, Mapping):
        inner = cast("Mapping[object, object]", value)
        return {name: _hidden(str(name), one) for name, one in inner.items()}
    return value
