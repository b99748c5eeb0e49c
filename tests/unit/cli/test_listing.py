"""Lists: their order, the pager, and `--watch` on a terminal and in a pipe."""

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from berth.cli.listing import natural_key
from berth.cli.main import main
from berth.cli.moments import age_text
from berth.cli.output import table_text
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import OpenTerminal, Run
from tests.unit.cli.terminal import PseudoTerminal

SERVERS = ("server", "list")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Replace sleeping: each pause calls the next of these functions; after the last, Ctrl-C."""
    calls: list[Callable[[], None]] = []

    def pause(_: float) -> None:
        if not calls:
            raise KeyboardInterrupt
        calls.pop(0)()

    monkeypatch.setattr(time, "sleep", pause)
    return calls


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a pager that writes its input and $LESS to a file; return the file."""
    script, output = tmp_path / "pager", tmp_path / "paged"
    script.write_text(f'#!/bin/sh\necho "$LESS" > {output}\ncat >> {output}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PAGER", str(script))
    monkeypatch.delenv("LESS", raising=False)
    return output


def names(out: str) -> list[str]:
    """Return the names in a printed list of services."""
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_numbers_in_names_are_sorted_by_value(run: Run, cloud: Cloud) -> None:
    """Hosts come as an operator counts them, also in JSON, and backwards if asked."""
    for host in ("rack10-a", "rack2-b", "Rack2-a", "rack2"):
        cloud.add_service(host)
    assert names(run("service", "list").out) == ["rack2", "Rack2-a", "rack2-b", "rack10-a"]
    found = json.loads(run("service", "list", "--json", "--sort", "host:desc").out)["services"]
    assert [one["host"] for one in found] == ["rack10-a", "rack2-b", "Rack2-a", "rack2"]


def test_a_list_is_sorted_by_any_column(run: Run, cloud: Cloud) -> None:
    """Numbers are sorted by value, missing values come last, and a wrong column is refused."""
    for name, vcpus in (("a", 16), ("b", 2), ("c", 4)):
        cloud.add_flavor(name, vcpus=vcpus)
    lines = run("flavor", "list", "--sort", "vcpus").out.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["b", "c", "a"]
    ended = run("flavor", "list", "--sort", "cpus")
    assert ended.code == 2
    assert "use one of id, name, vcpus, memory-mb" in ended.err


def test_servers_stay_newest_first_with_zone_and_age(run: Run, cloud: Cloud) -> None:
    """The service sorts servers; all pages are in the list."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3_700))
    zone = {"OS-EXT-AZ:availability_zone": "east"}
    for number in range(5):
        cloud.add_server(f"vm{9 - number}", created=created, **zone)
    lines = run(*SERVERS).out.splitlines()
    assert lines[0].split() == ["ID", "Name", "Status", "Host", "Zone", "Flavor", "Age"]
    assert [line.split()[1] for line in lines[1:]] == ["vm9", "vm8", "vm7", "vm6", "vm5"]
    assert lines[1].split()[-4:] == ["east", "small", "1h", "1m"]
    assert cloud.asked[-1].url.params["marker"]


def test_a_long_list_goes_to_the_pager(
    run: Run, cloud: Cloud, terminal: OpenTerminal, pager: Path
) -> None:
    """Only a list that is longer than the terminal does, and `--no-pager` prints it."""
    screen = terminal("stdin", "stdout", height=10)
    for number in range(8):
        cloud.add_server(f"vm{number}")
    run(*SERVERS)
    assert not pager.exists()
    assert "vm7" in screen.read()
    cloud.add_server("vm8")
    run(*SERVERS, "--no-pager")
    assert not pager.exists()
    assert "vm8" in screen.read()
    run(*SERVERS)
    paged = pager.read_text().splitlines()
    assert paged[0] == "FRX"
    assert len(paged) == 11
    assert screen.read() == ""


def test_a_pipe_and_json_have_no_pager(
    run: Run, cloud: Cloud, terminal: OpenTerminal, pager: Path
) -> None:
    """Neither has an output that does not end."""
    for number in range(40):
        cloud.add_server(f"vm{number}")
    assert "vm39" in run(*SERVERS).out
    terminal("stdin", "stdout", height=10)
    run(*SERVERS, "--json")
    assert not pager.exists()


@pytest.mark.parametrize("chosen", ["", "cat", "no-such-pager", "'unclosed"])
def test_without_a_usable_pager_the_list_is_printed(
    run: Run,
    cloud: Cloud,
    terminal: OpenTerminal,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
) -> None:
    """A pager that does not exist costs nothing."""
    monkeypatch.setenv("PAGER", chosen)
    screen = terminal("stdin", "stdout", height=5)
    for number in range(9):
        cloud.add_server(f"vm{number}")
    assert run(*SERVERS).code == 0
    assert "vm8" in screen.read()


def test_a_watch_in_a_pipe_appends_snapshots(
    run: Run, cloud: Cloud, steps: list[Callable[[], None]]
) -> None:
    """Each snapshot has its time, Ctrl-C is the normal end, and an outage is reported once."""
    cloud.add_service("h1")

    def fail() -> None:
        cloud.fails = httpx.ConnectError("refused")

    def heal() -> None:
        cloud.fails = None
        cloud.add_service("h2")

    steps += [fail, lambda: None, heal]
    ended = run("service", "list", "--watch")
    assert ended.code == 0
    first, second, _ = ended.out.split("\n\n")
    assert [line.split()[0] for line in first.splitlines()[1:]] == ["Host", "h1"]
    assert [line.split()[0] for line in second.splitlines()[1:]] == ["Host", "h1", "h2"]
    assert first[:2] == "20"
    assert ended.err.count("cannot reach") == 1
    assert "the service answers again at 20" in ended.err


def test_a_watch_with_json_has_a_line_for_each_snapshot(
    run: Run, cloud: Cloud, steps: list[Callable[[], None]]
) -> None:
    """A program reads the snapshots line by line."""

    def add() -> None:
        cloud.add_service("h1")

    steps.append(add)
    ended = run("service", "list", "--watch", "5", "--json")
    documents = [json.loads(line) for line in ended.out.splitlines()]
    assert [len(one["services"]) for one in documents] == [0, 1]
    assert all(one["at"].startswith("20") for one in documents)


def test_a_watch_ends_at_once_if_nothing_answers(run: Run, cloud: Cloud) -> None:
    """A wrong address is an error, not an outage."""
    cloud.fails = httpx.ConnectError("refused")
    assert run("service", "list", "--watch").code == 5
    cloud.fails = None
    assert run("service", "list", "--watch", "0").code == 2


class Watched:
    """A watch on a terminal, whose user acts whenever the watch waits for a key."""

    def __init__(self, screen: PseudoTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.screen = screen
        self.acts: list[Callable[[], object]] = []
        self.frames: list[str] = []
        monkeypatch.setattr("berth.cli.screen._key_within", self._wait)

    def _wait(self, _: float) -> str:
        self.screen.read()
        assert self.screen.view.is_alternate
        assert not self.screen.view.cursor_shown
        self.frames.append(self.screen.view.text)
        acted = self.acts.pop(0)()
        return acted if isinstance(acted, str) else ""


def test_a_watch_on_a_terminal_is_drawn_in_place(
    run: Run, cloud: Cloud, terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list stays during an outage, follows a resized terminal, and `q` restores the screen."""
    screen = terminal("stdin", "stdout", width=100, height=8)
    screen.view.feed("$ berth service list --watch\r\n")
    before = screen.attributes
    for number in range(12):
        cloud.add_service(f"h{number}")
    watched = Watched(screen, monkeypatch)

    def fail() -> str:
        cloud.fails = httpx.ConnectError("refused")
        return "x"

    def heal() -> str:
        cloud.fails = None
        screen.resize(60, 30)
        return "x"

    watched.acts += [fail, heal, lambda: "q"]
    assert run("service", "list", "--watch", "5").code == 0
    screen.read()
    assert screen.view.text == "$ berth service list --watch"
    assert screen.view.cursor_shown
    assert screen.attributes == before
    first, outage, resized = watched.frames
    assert "12 in the list" in first.splitlines()[0]
    assert [line.split()[0] for line in first.splitlines()[2:5]] == ["Host", "h0", "h1"]
    assert len(first.splitlines()) == 8
    assert "cannot reach http://127.0.0.1:8774 (refused)" in outage
    assert "h1" in outage
    assert "cannot reach" not in resized
    assert "h11" in resized
    assert max(map(len, resized.splitlines())) <= 60


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle SIGINT as in a shell's foreground; a shell's background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_restore_the_terminal(
    run: Run,
    cloud: Cloud,
    terminal: OpenTerminal,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    """Ctrl-C ends a watch with 0, and SIGTERM as in shells."""
    screen = terminal("stdin", "stdout")
    before = screen.attributes
    watched = Watched(screen, monkeypatch)
    watched.acts.append(lambda: os.kill(os.getpid(), number))
    assert run(*SERVERS, "--watch").code == {signal.SIGINT: 0, signal.SIGTERM: 143}[number]
    screen.read()
    assert not screen.view.is_alternate
    assert screen.view.cursor_shown
    assert screen.attributes == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_keys_are_read_without_a_line_and_not_printed(cloud: Cloud, terminal: OpenTerminal) -> None:
    """The real keyboard ends a watch at once."""
    screen = terminal("stdin", "stdout")
    # Keys that were typed before the watch began are ignored.
    typing = threading.Timer(0.2, screen.press, ["q"])
    typing.start()
    began_s = time.monotonic()
    assert main([*SERVERS, "--watch", "60"]) == 0
    assert time.monotonic() - began_s < 30
    typing.join()


def test_other_texts_are_sorted_without_numbers() -> None:
    """The key of a text without digits is the text in lower case."""
    texts = ["b", "A10", "a9", "a", "10", "9"]
    assert sorted(texts, key=natural_key) == ["a", "a9", "A10", "b", "9", "10"]


@pytest.mark.parametrize(
    ("since", "text"),
    [
        ("1970-01-01T00:16:35Z", "5s"),
        ("1970-01-01T00:00:00", "16m 40s"),
        ("1969-12-31T22:00:00+00:00", "2h 16m"),
        ("1969-12-20T00:00:00Z", "12d 0h"),
        ("1980-01-01T00:00:00Z", "0s"),
        ("soon", None),
        (None, None),
    ],
)
def test_ages(since: str | None, text: str | None) -> None:
    """An age has its two largest units, and times of the future count as now."""
    assert age_text(since, 1_000.0) == text


def test_texts_wrap_within_what_the_terminal_leaves() -> None:
    """Names stay whole, and only texts wrap; too little room gives a line for each value."""
    rows = [("name-1", "one two three four five six seven", 10)]
    columns = ("Name", "Text", "Number")
    text = table_text(columns, rows, wrap=("Text",), right=("Number",), width=40)
    assert text.splitlines() == [
        "Name    Text                      Number",
        "name-1  one two three four five       10",
        "        six seven",
    ]
    narrow = table_text(columns, rows, wrap=("Text",), width=25)
    assert narrow.split()[:2] == ["Name", "name-1"]
