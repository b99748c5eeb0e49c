"""Finds the lines of one request in log files, whatever their format and rotation."""

import gzip
import json
import re
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TextIO, cast

from berth.domain.errors import InvalidInputError

STANDARD_INPUT: Final = Path("-")
"""The path that stands for standard input."""

# A line in the format `console`: time, level, event and fields; see `console_line`.
_CONSOLE: Final = re.compile(
    r"(?P<timestamp>\d{4}-\d\d-\d\dT[\d:.]+Z) \[(?P<level>[a-z]+) *\] (?P<rest>.*)"
)
_FIELD: Final = re.compile(r' (?P<name>[A-Za-z_][\w.]*)=(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]*)')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDENT: Final = "    "
_UUID_LENGTH: Final = 36
_ID_FIELDS: Final = ("request_id", "global_request_id")
# The separators of ids that are derived from that of a request, and of a server in a text.
_DERIVED: Final = (".", "/")


class FoundLine(NamedTuple):
    """A line of a log: the name of its file, and its fields."""

    source: str
    fields: Mapping[str, object]

    @property
    def at(self) -> str:
        """The time, in a form that sorts."""
        return str(self.fields.get("timestamp", ""))


def search(paths: Iterable[Path], identifier: str) -> list[FoundLine]:
    """Return the log lines of a request or a server, in order of time.

    The lines of a request are those with its id, with an id derived from it, or with it as
    `global_request_id`. The lines of a server are all that contain its UUID, and the lines
    of the requests to which these belong.

    Args:
        paths: log files, which may be compressed by gzip; `STANDARD_INPUT` for standard input.
        identifier: the id of a request, or the UUID of a server.

    Raises:
        InvalidInputError: a file cannot be read.
    """
    is_server = len(identifier) == _UUID_LENGTH
    # The files are read twice at most, and only lines of interest are kept, since files are large.
    texts = [(path, list(_with_any(path, {identifier}))) for path in paths]
    found = [one for path, lines in texts for one in _parsed(path, lines)]
    if not is_server:
        found = [one for one in found if _is_of(one.fields, {identifier})]
    requests = {
        str(one.fields["request_id"])
        for one in found
        if isinstance(one.fields.get("request_id"), str)
    }
    more = requests - {identifier}
    if more and not any(path == STANDARD_INPUT for path, _ in texts):
        wanted = {identifier, *more}
        lines = [one for path, _ in texts for one in _parsed(path, _with_any(path, wanted))]
        found = [
            one
            for one in lines
            if _is_of(one.fields, wanted) or (is_server and identifier in str(one.fields))
        ]
    return sorted(found, key=lambda one: one.at)


def with_rotated(path: Path) -> list[Path]:
    """Return a log file with its rotated files, or all files of a folder.

    Rotated files begin with the name of the file: `api.log.1`, `api.log-20270101.gz`.

    Raises:
        InvalidInputError: there is no such file.
    """
    if path == STANDARD_INPUT:
        return [path]
    if path.is_dir():
        return sorted(one for one in path.iterdir() if one.is_file() and ".log" in one.name)
    found = sorted(
        one
        for one in path.parent.glob(f"{_escaped(path.name)}*")
        if one.is_file() and one.name[len(path.name) :][:1] in {"", ".", "-"}
    )
    if not found:
        raise InvalidInputError(str(path), "there is no such log file; check the path")
    return found


def parsed_line(text: str) -> dict[str, object] | None:
    """Return the fields of a log line of either format, or None if it is none.

    Text that a log collector has put before the line is ignored.
    """
    start = text.find('{"timestamp"')
    if start >= 0:
        try:
            return cast("dict[str, object]", json.loads(text[start:]))
        except ValueError:
            return None
    match = _CONSOLE.search(text)
    return None if match is None else _fields_of(match)


def _fields_of(match: re.Match[str]) -> dict[str, object]:
    rest = match["rest"]
    quoted = _QUOTED.match(rest)
    pairs = list(_FIELD.finditer(rest, 0 if quoted is None else quoted.end()))
    event = rest[: pairs[0].start()] if pairs else rest
    fields: dict[str, object] = {
        "timestamp": match["timestamp"],
        "level": match["level"],
        "event": _value_of(event.strip()),
    }
    for pair in pairs:
        fields[pair["name"]] = _value_of(pair["value"])
    return fields


def _value_of(text: str) -> object:
    if text.startswith('"'):
        try:
            return json.loads(text, strict=False)
        except ValueError:
            return text
    return text


def _is_of(fields: Mapping[str, object], wanted: set[str]) -> bool:
    """Return whether a line belongs to one of the requests."""
    for name in _ID_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and (value in wanted or _root_of(value) in wanted):
            return True
    return False


def _root_of(request_id: str) -> str:
    """Return the id of the request from which an id is derived."""
    for separator in _DERIVED:
        request_id = request_id.partition(separator)[0]
    return request_id


def _parsed(path: Path, blocks: Iterable[list[str]]) -> Iterator[FoundLine]:
    for first, *traceback in blocks:
        fields = parsed_line(first)
        if fields is not None:
            if traceback:
                fields["exception"] = "\n".join(line.strip() for line in traceback)
            yield FoundLine(path.name, fields)


def _with_any(path: Path, wanted: set[str]) -> Iterator[list[str]]:
    """Yield the lines that contain one of the texts, each with the traceback that follows it."""
    block: list[str] = []
    with _opened(path) as file:
        for line in _lines(file):
            text = line.rstrip("\n")
            if block and text.startswith(_INDENT):
                block.append(text)
                continue
            if block:
                yield block
                block = []
            if any(one in text for one in wanted):
                block = [text]
    if block:
        yield block


def _lines(file: TextIO) -> Iterator[str]:
    # A file that logrotate is still compressing ends too early. Its lines are also in the file
    # that is being compressed.
    with suppress(EOFError):
        yield from file


@contextmanager
def _opened(path: Path) -> Generator[TextIO]:
    if path == STANDARD_INPUT:
        yield sys.stdin
        return
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
                yield file
        else:
            with path.open(encoding="utf-8", errors="replace") as file:
                yield file
    except (OSError, zlib.error) as error:
        what = getattr(error, "strerror", None) or error
        reason = f"cannot be read ({what}); check the path and its permissions"
        raise InvalidInputError(str(path), reason) from error


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)
