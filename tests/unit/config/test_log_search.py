"""Finding the lines of one request in log files of both formats."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.config.log_lines import console_line, json_line
from berth.config.log_search import parsed_line, search, with_rotated
from berth.domain.errors import InvalidInputError

ONE = "req-00000000-0000-4000-8000-000000000001"
TWO = "req-00000000-0000-4000-8000-000000000002"
SERVER = "00000000-0000-4000-8000-00000000000a"
FORMS = {"json": json_line, "console": console_line}

Line = dict[str, object]


def line(second: int, event: str, **fields: object) -> Line:
    """Return a line of a log."""
    at = f"2027-01-01T00:00:{second:02d}.000000Z"
    return {"timestamp": at, "level": "info", "event": event, **fields}


def written(path: Path, *lines: Line, form: str = "json") -> Path:
    """Write a log file and return its path."""
    text = "".join(f"{FORMS[form](one)}\n" for one in lines)
    if path.suffix == ".gz":
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        path.write_text(text)
    return path


def events(paths: list[Path], identifier: str) -> list[object]:
    """Return the events of the lines that a search finds."""
    return [one.fields["event"] for one in search(paths, identifier)]


@pytest.mark.parametrize("form", ["json", "console"])
def test_lines_of_several_files_are_sorted_by_time(tmp_path: Path, form: str) -> None:
    """The lines of all processes appear in the order of time, without those of other requests."""
    api = [
        line(4, "http_request", request_id=ONE, status=202),
        line(5, "http_request", request_id=TWO),
    ]
    scheduler = [line(2, "decision_made", request_id=ONE)]
    agent = [line(3, "task_started", request_id=f"{ONE}.0.1"), line(6, "other")]
    paths = [
        written(tmp_path / "api.log", *api, form=form),
        written(tmp_path / "scheduler.log.gz", *scheduler, form=form),
        written(tmp_path / "agent.log", *agent, form=form),
    ]
    assert events(paths, ONE) == ["decision_made", "task_started", "http_request"]
    assert [one.source for one in search(paths, TWO)] == ["api.log"]


def test_a_file_that_is_still_being_compressed_is_no_error(tmp_path: Path) -> None:
    """While logrotate compresses a file, the lines come from the file itself."""
    path = written(tmp_path / "api.log.1", line(1, "http_request", request_id=ONE))
    half = tmp_path / "api.log.1.gz"
    half.write_bytes(gzip.compress(path.read_bytes())[:-12])
    assert events([path, half], ONE) == ["http_request"]


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    """The error says which file cannot be read."""
    path = tmp_path / "api.log.gz"
    good = bytearray(gzip.compress(b"x" * 1000 + bytes(range(256)) * 9))
    good[20:40] = b"\xff" * 20
    path.write_bytes(good)
    with pytest.raises(InvalidInputError, match=r"api\.log\.gz"):
        search([path], ONE)


def test_requests_on_behalf_of_another_are_found(tmp_path: Path) -> None:
    """Requests whose caller sent the id belong to it, with all their lines."""
    path = written(
        tmp_path / "api.log",
        line(1, "decision_made", request_id=TWO),
        line(2, "http_request", request_id=TWO, global_request_id=ONE),
    )
    assert events([path], ONE) == ["decision_made", "http_request"]


def test_an_id_in_a_path_is_no_line_of_the_request(tmp_path: Path) -> None:
    """A request that only asks about another one is not part of it."""
    asked = line(1, "http_request", request_id=TWO, path=f"/berth/v1/decisions/{ONE}")
    path = written(tmp_path / "api.log", asked)
    assert events([path], ONE) == []


def test_a_server_has_the_lines_of_its_requests(tmp_path: Path) -> None:
    """For the UUID of a server, all lines of the requests about it are found."""
    path = written(
        tmp_path / "api.log",
        line(1, "decision_made", request_id=ONE, instance=SERVER),
        line(2, "http_request", request_id=ONE, path="/v2.1/servers"),
        line(3, "http_request", request_id=TWO, path=f"/v2.1/servers/{SERVER}"),
        line(4, "console_opened", instance=SERVER),
        line(5, "http_request", request_id="req-other", path="/v2.1/servers"),
    )
    found = search([path], SERVER)
    assert [one.at[17:19] for one in found] == ["01", "02", "03", "04"]


def test_a_traceback_stays_with_its_line(tmp_path: Path) -> None:
    """The indented lines of a traceback belong to the line before."""
    failed = line(1, "http_request_failed", request_id=ONE, exception="Traceback\nValueError: x")
    path = written(tmp_path / "api.log", failed, line(2, "other"), form="console")
    [found] = search([path], ONE)
    assert found.fields["exception"] == "Traceback\nValueError: x"


def test_what_a_collector_adds_is_ignored() -> None:
    """The prefixes of journald and containers are skipped; other lines are no log lines."""
    prefix = "Jan 01 00:00:00 host berth[1]: "
    for form in FORMS.values():
        text = form(line(1, "thing_done", request_id=ONE))
        found = parsed_line(prefix + text)
        assert found is not None
        assert (found["event"], found["request_id"]) == ("thing_done", ONE)
    assert parsed_line("Berth listens on http://127.0.0.1:8774") is None
    assert parsed_line('{"timestamp": broken') is None


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_value_of_a_line_for_people_passes_for_another_field(value: str) -> None:
    """Whatever a client sends, the fields after it keep their values."""
    text = console_line(line(1, value, path=value, request_id=ONE))
    found = parsed_line(text)
    assert found is not None
    assert found["request_id"] == ONE
    assert found["path"] == value


def test_rotated_files_are_included(tmp_path: Path) -> None:
    """A path stands for its rotated files too, and a folder for all log files in it."""
    for name in ("api.log", "api.log.1", "api.log-20270101.gz", "api.logic", "agent.log", "x.txt"):
        (tmp_path / name).touch()
    names = [one.name for one in with_rotated(tmp_path / "api.log")]
    assert names == ["api.log", "api.log-20270101.gz", "api.log.1"]
    names = [one.name for one in with_rotated(tmp_path)]
    assert "x.txt" not in names
    assert {"agent.log", "api.log.1"} < set(names)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """The error names the path."""
    with pytest.raises(InvalidInputError, match="there is no such log file"):
        with_rotated(tmp_path / "none.log")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        search([tmp_path / "none.log"], ONE)
