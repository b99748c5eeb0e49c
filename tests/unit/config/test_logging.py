"""The fields that are added to log lines, and the secrets that are removed."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from berth.adapters.system import LogTelemetry
from berth.config.logging import add_request_id, hide_secrets, set_up_logging
from berth.config.telemetry_settings import LogFormat, LogSettings
from berth.domain.errors import InvalidInputError
from berth.ports.bus import CONTEXT, Context

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_line_names_its_request() -> None:
    """The context adds the request and trace ids; a request id of the caller is kept."""
    CONTEXT.set(Context("req-1", None, f"00-{TRACE}-{'b' * 16}-01"))
    line = add_request_id({"event": "e"})
    assert line == {"event": "e", "request_id": "req-1", "trace_id": TRACE}
    assert add_request_id({"request_id": "req-2"})["request_id"] == "req-2"
    CONTEXT.set(Context())
    assert add_request_id({"event": "e"}) == {"event": "e"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "hunter2"),
        ("X-Auth-Token", "hunter2"),
        ("auth_blob", b"hunter2"),
        ("client_secret", ["hunter2"]),
        ("error", "cannot reach postgresql://berth:hunter2@db/berth"),
        ("error", "amqps://berth:hunter2@[::1]:5671/ is away"),
        ("headers", {"Authorization": "hunter2", "url": "http://a:hunter2@b"}),
        ("exception", "Traceback ...\nValueError: Basic YWRtaW46aHVudGVyMg=="),
        ("event", "got Bearer hunter2hunter2"),
    ],
)
def test_secrets_are_hidden(key: str, value: object) -> None:
    """Secrets are hidden in values, texts and nested fields."""
    line = str(hide_secrets({key: value}))
    assert "hunter2" not in line
    assert "YWRt" not in line
    assert "***" in line


def test_other_values_stay_as_they_are() -> None:
    """URLs without passwords, numbers and None are unchanged."""
    line = {"event": "x", "url": "http://db:5432/a@b", "hosts": 3, "password": None}
    assert hide_secrets(dict(line)) == line


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Restore the configuration of logging at the end."""
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    root.handlers.clear()
    # Another test of this process may have left the id of a request.
    structlog.contextvars.clear_contextvars()
    CONTEXT.set(Context())
    yield
    structlog.reset_defaults()
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def lines_of(path: Path) -> list[dict[str, object]]:
    """Return the lines of a log file in JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("restored_logging")
def test_the_log_goes_to_the_file(tmp_path: Path) -> None:
    """Lines go to `log.file`, time, level and event first; those of libraries too."""
    path = tmp_path / "berth.log"
    set_up_logging(LogSettings(format=LogFormat.JSON, file=path))
    LogTelemetry("api").event("thing_done", host="a")
    logging.getLogger("library").warning("it is %s", "odd")
    first, second = lines_of(path)
    assert list(first) == ["timestamp", "level", "event", "part", "host"]
    assert (second["event"], second["logger"]) == ("it is odd", "library")


@pytest.mark.usefixtures("restored_logging")
def test_events_have_levels_of_their_own(tmp_path: Path) -> None:
    """`log.levels` raises the lowest level of single events, or turns them off."""
    path = tmp_path / "berth.log"
    levels = ("often=warning", "never=off")
    set_up_logging(LogSettings(format=LogFormat.JSON, file=path, levels=levels))
    log = LogTelemetry("api")
    for event in ("often", "never", "other"):
        log.event(event)
        log.warning(event)
    found = [(line["event"], line["level"]) for line in lines_of(path)]
    assert found == [("often", "warning"), ("other", "info"), ("other", "warning")]


@pytest.mark.usefixtures("restored_logging")
def test_a_log_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    """The error names the setting and the reason."""
    with pytest.raises(InvalidInputError, match=r"log\.file.*cannot be opened"):
        set_up_logging(LogSettings(file=tmp_path / "none" / "berth.log"))
