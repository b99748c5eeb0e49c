"""`berth log`."""

import json
from pathlib import Path

import pytest

from berth.cli.failures import ExitCode
from berth.cli.main import main
from berth.config.log_lines import json_line

REQUEST = "req-00000000-0000-4000-8000-000000000001"


def write(log: Path, second: int, event: str, **fields: object) -> None:
    """Append a line of the request to a log file."""
    at = f"2027-01-01T00:00:{second:02d}.000000Z"
    with log.open("a") as file:
        line = {"timestamp": at, "level": "info", "event": event, "request_id": REQUEST, **fields}
        file.write(f"{json_line(line)}\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the logs of two processes."""
    write(tmp_path / "api.log", 2, "http_request", path="/a b")
    write(tmp_path / "scheduler.log", 1, "decision_made", verdict="placed")
    return tmp_path


def test_lines_are_shown_with_their_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of several files name their file."""
    assert main(["log", REQUEST, str(folder)]) == ExitCode.OK
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2027-01-01T00:00:01.000000Z [info   ] decision_made")
    assert first.endswith("verdict=placed log=scheduler.log")
    assert 'path="/a b" log=api.log' in second


def test_json_is_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, one document has all lines."""
    assert main(["log", REQUEST, "--json", str(folder / "api.log")]) == ExitCode.OK
    [line] = json.loads(capsys.readouterr().out)["lines"]
    assert (line["event"], line["log"]) == ("http_request", "api.log")


def test_the_settings_name_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without paths, the log file of the settings is read."""
    monkeypatch.setenv("BERTH_LOG_FILE", str(folder / "api.log"))
    assert main(["log", REQUEST]) == ExitCode.OK
    assert "http_request" in capsys.readouterr().out
    monkeypatch.delenv("BERTH_LOG_FILE")
    assert main(["log", REQUEST]) == ExitCode.USAGE
    assert "set log.file" in capsys.readouterr().err


def test_standard_input_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dash reads lines from a pipe, such as journalctl's."""
    with (folder / "api.log").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["log", REQUEST, "-"]) == ExitCode.OK
    assert "http_request" in capsys.readouterr().out


@pytest.mark.parametrize("identifier", ["req-1", "x", "req-0000*"])
def test_other_identifiers_are_refused(identifier: str, folder: Path) -> None:
    """Anything but a request id or a UUID is a mistake."""
    assert main(["log", identifier, str(folder)]) == ExitCode.USAGE


def test_no_line_is_not_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown request ends with 4, and says where it was searched."""
    assert main(["log", REQUEST[:-1] + "2", str(folder)]) == ExitCode.NOT_FOUND
    assert str(folder) in capsys.readouterr().err
