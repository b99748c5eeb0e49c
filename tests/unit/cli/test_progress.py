"""The progress of commands that wait, on a pseudo-terminal and in a pipe."""

import json
import time
from collections.abc import Callable

import httpx
import pytest

from berth.cli.progress import Item, Phase, progress, span_text
from tests.unit.cli.cloud import UUID, Cloud
from tests.unit.cli.conftest import OpenTerminal, Run

TASK = "OS-EXT-STS:task_state"


def items(**phases: Phase) -> dict[str, Item]:
    """Return items by name, whose texts are their phases."""
    return {name: Item(name, phase.name.lower(), phase) for name, phase in phases.items()}


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Replace sleeping: each pause calls the next of these functions, or none."""
    calls: list[Callable[[], None]] = []
    monkeypatch.setattr(time, "sleep", lambda _: calls.pop(0)() if calls else None)
    return calls


def test_a_terminal_has_a_bar_and_the_open_items(terminal: OpenTerminal) -> None:
    """Failed items come first, and finished ones only count; afterwards nothing is left."""
    screen = terminal("stderr")
    with progress("moving servers") as shown:
        shown.show(items(a=Phase.WAITING, b=Phase.DONE, c=Phase.FAILED, d=Phase.ACTIVE), "slow")
        screen.read()
        lines = screen.view.text.splitlines()
        assert lines[0].startswith("moving servers")
        assert "1 of 4, 1 failed" in lines[0]
        assert [line.split() for line in lines[1:]] == [
            ["slow"],
            ["c", "failed"],
            ["d", "active"],
            ["a", "waiting"],
        ]
        shown.show(items(a=Phase.DONE))
        screen.read()
        assert len(screen.view.text.splitlines()) == 1
    screen.read()
    assert screen.view.text == ""


def test_lines_before_the_region_stay(terminal: OpenTerminal) -> None:
    """The region is drawn below what the terminal already shows."""
    screen = terminal("stderr")
    screen.view.feed("$ berth server stop a\r\n")
    with progress("stopping") as shown:
        for phase in (Phase.WAITING, Phase.ACTIVE, Phase.DONE):
            shown.show(items(a=phase, b=phase))
    screen.read()
    assert screen.view.text == "$ berth server stop a"


def test_an_interrupted_terminal_is_restored(
    run: Run, cloud: Cloud, terminal: OpenTerminal, frames: list[Callable[[], None]]
) -> None:
    """Ctrl-C during a wait leaves only the message, and ends with 130."""
    cloud.add_server("web", **{TASK: "powering-off"})
    path = f"/v2.1/servers/{UUID.format(1)}/action"
    cloud.fixed[("POST", path)] = (202, None)
    screen = terminal("stderr")

    def interrupt() -> None:
        screen.read()
        assert "powering-off" in screen.view.text
        raise KeyboardInterrupt

    frames.append(interrupt)
    assert run("server", "stop", "web", "--wait").code == 130
    screen.read()
    assert screen.view.text.strip() == "berth: interrupted"
    assert screen.view.cursor_shown


def test_a_narrower_terminal_gets_a_region_that_fits(terminal: OpenTerminal) -> None:
    """No line is longer than the terminal, and the lines that it has wrapped are erased."""
    screen = terminal("stderr", width=100)
    with progress("moving servers") as shown:
        shown.show({"a": Item("a" * 30, "b" * 200, Phase.ACTIVE)})
        screen.read()
        assert max(map(len, screen.view.text.splitlines())) == 100
        screen.resize(50, 24)
        shown.pause(0.01)
        written = screen.read()
    # The head had more than 50 cells, and so had the row: each now takes two lines.
    assert "\x1b[4A\x1b[J" in written


def test_a_pipe_gets_a_line_with_the_time_for_each_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unchanged items are not repeated, and nothing is on standard output."""
    with progress("moving") as shown:
        shown.show(items(a=Phase.WAITING, b=Phase.WAITING))
        shown.show(items(a=Phase.ACTIVE, b=Phase.WAITING))
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert [line[26:] for line in lines] == ["a a: waiting", "b b: waiting", "a a: active"]
    assert all(line[:2] == "20" and line[10] == " " for line in lines)
    assert captured.out == ""


def test_many_items_in_a_pipe_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """Above 100 items each reason of failures has a line, and the counts come every 5 s."""
    many = {f"s{number}": Phase.ACTIVE for number in range(200)}
    with progress("building") as shown:
        shown.show(items(**many))
        shown.show(items(**{**many, "s7": Phase.FAILED, "s8": Phase.FAILED}))
        shown.show(items(**dict.fromkeys(many, Phase.DONE)))
    lines = [line[26:] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["building: 0 of 200", "s7 s7: failed", "building: 200 of 200"]


def test_json_is_alone_in_a_pipe(run: Run, cloud: Cloud) -> None:
    """With --json a pipe gets the document, and no progress on standard error either."""
    cloud.add_flavor("small")
    ended = run("server", "create", "web", "--flavor", "small", "--wait", "--json")
    assert json.loads(ended.out)["servers"][0]["status"] == "ACTIVE"
    assert ended.err == ""


def test_a_short_outage_is_shown_and_survived(
    run: Run, cloud: Cloud, frames: list[Callable[[], None]]
) -> None:
    """A wait goes on when the service answers again."""
    cloud.add_server("web", status="BUILD", **{TASK: "powering-off"})
    cloud.fixed[("POST", f"/v2.1/servers/{UUID.format(1)}/action")] = (202, None)
    cloud.fixed[("GET", f"/v2.1/servers/{UUID.format(1)}/os-instance-actions")] = (
        200,
        {"instanceActions": []},
    )
    cloud.builds = {"status": "SHUTOFF", TASK: None}

    def fail() -> None:
        cloud.fails = httpx.ConnectError("refused")

    def heal() -> None:
        cloud.fails = None

    frames += [fail, heal]
    ended = run("server", "stop", "web", "--wait")
    assert (ended.code, ended.out) == (0, f"{UUID.format(1)} web is SHUTOFF\n")
    assert "cannot reach http://127.0.0.1:8774 (refused)" in ended.err
    assert "; trying again" in ended.err


@pytest.mark.parametrize(
    ("span_s", "text"), [(0.4, "0 s"), (59.9, "59 s"), (61, "1:01"), (4_025, "1:07:05")]
)
def test_durations(span_s: float, text: str) -> None:
    """Minutes and hours appear once they are needed."""
    assert span_text(span_s) == text


def test_a_region_is_cut_at_the_height_of_the_terminal(terminal: OpenTerminal) -> None:
    """A region that scrolled the terminal could not be erased."""
    screen = terminal("stderr", height=5)
    with progress("moving") as shown:
        shown.show(items(**{f"s{number}": Phase.ACTIVE for number in range(50)}))
        screen.read()
        assert len(screen.view.text.splitlines()) == 4
