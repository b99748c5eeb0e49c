"""The log lines that a process writes."""

import json
import subprocess
import sys

_PROGRAM = """
import logging
from berth.adapters.system import LogTelemetry
from berth.config.logging import set_up_logging
from berth.config.telemetry_settings import LogFormat, LogSettings
from berth.ports.bus import CONTEXT, Context

set_up_logging(LogSettings(format=LogFormat.JSON))
CONTEXT.set(Context("req-1"))
try:
    raise ValueError("no postgresql://berth:hunter2@db")
except ValueError as error:
    LogTelemetry("test").failure("thing_failed", error, host="a")
    logging.getLogger("library").exception("it failed")
LogTelemetry("test").event("thing_done")
"""


def test_every_line_is_json() -> None:
    """Every line is JSON with its request id and without secrets, lines of libraries too."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["thing_failed", "it failed", "thing_done"]
    assert [line["level"] for line in lines] == ["error", "error", "info"]
    assert {line["request_id"] for line in lines} == {"req-1"}
    assert "hunter2" not in done.stderr
    for line in lines[:2]:
        assert "ValueError" in line["exception"]
    assert lines[0]["part"] == "test"
    assert lines[1]["logger"] == "library"
