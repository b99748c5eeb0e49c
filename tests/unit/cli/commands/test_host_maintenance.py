"""`berth host drain`, `maintain`, `resume` and `maintenance`, with a simulated cloud."""

import json
import time
from collections.abc import Callable, Sequence

import pytest

from berth.cli.failures import CommandError
from berth.cli.moments import moment_s, moment_text
from tests.unit.cli.cloud import UUID, Cloud, Json
from tests.unit.cli.conftest import OpenTerminal, Run

HOST = "/berth/v1/hosts/h1"
DRAIN = f"{HOST}/drain"
MAINTENANCE = f"{HOST}/maintenance"


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace sleeping, so that waiting takes no time."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


def server(number: int, state: str, **more: object) -> Json:
    """Return one server of a drain as the API shows it."""
    return {
        "instance_uuid": UUID.format(number),
        "name": f"vm-{number}",
        "state": state,
        "method": "live",
        "destination": None,
        "reason": None,
        "request_id": None,
        "attempts": 0,
        "next_try_s": None,
    } | more


def maintenance(state: str, *servers: Json, message: str = "") -> Json:
    """Return a maintenance with a drain as the API shows it."""
    names = ("waiting", "moving", "moved", "blocked", "failed")
    counts = {name: sum(one["state"] == name for one in servers) for name in names}
    drain = {
        "state": state,
        "message": message,
        "migrate": "live",
        "parallel": 1,
        "deadline_s": None,
        "moves_locked": False,
        "started_at_s": 1.0,
        "ended_at_s": None,
        "counts": counts,
        "servers": list(servers),
    }
    return {"host": "h1", "reason": "disk", "until_s": None, "is_ending": False, "drain": drain}


class Course(dict[tuple[str, str], tuple[int, object]]):
    """The fixed answers of a cloud, of which each read of the maintenance gets the next one."""

    def __init__(self, documents: Sequence[Json | int]) -> None:
        super().__init__()
        self[("POST", DRAIN)] = (202, maintenance("running"))
        self[("GET", MAINTENANCE)] = (500, "")
        self.left = list(documents)

    def __getitem__(self, key: tuple[str, str]) -> tuple[int, object]:
        """Return an answer."""
        if key != ("GET", MAINTENANCE):
            return super().__getitem__(key)
        document = self.left.pop(0)
        return (document, "") if isinstance(document, int) else (200, document)


@pytest.fixture
def course(cloud: Cloud) -> Callable[..., None]:
    """Return a function that sets the course of a drain."""

    def set_course(*documents: Json | int) -> None:
        cloud.fixed = Course(documents)

    return set_course


def test_a_drain_prints_each_change_once(
    run: Run, cloud: Cloud, course: Callable[..., None]
) -> None:
    """In a pipe there is a line for each change of a server, then the outcome."""
    moving = server(1, "moving", destination="h2")
    moved = server(1, "moved", destination="h2")
    course(
        maintenance("running", server(1, "waiting")),
        maintenance("running", moving),
        503,
        maintenance("running", moving),
        maintenance("drained", moved),
    )
    ended = run(
        *("host", "drain", "h1", "--parallel", "3", "--migrate", "cold", "--deadline", "2h"),
        *("--include-locked", "--reason", "new disk"),
    )
    assert ended.code == 0, ended.err
    assert ended.out == "h1: drain drained; 1 of 1 moved\n"
    lines = [line.split(" ", 2)[2] for line in ended.err.splitlines()]
    outage = lines.pop(2)
    assert "503" in outage
    assert outage.endswith("; trying again")
    assert lines == [
        f"{UUID.format(1)} vm-1: waiting",
        f"{UUID.format(1)} vm-1: moving live to h2",
        f"{UUID.format(1)} vm-1: moved to h2",
    ]
    body = next(json.loads(one.content) for one in cloud.asked if one.method == "POST")
    assert body.pop("deadline_s") == pytest.approx(time.time() + 7_200.0, abs=60.0)
    assert body == {"migrate": "cold", "parallel": 3, "moves_locked": True, "reason": "new disk"}


def test_what_is_left_is_listed_with_its_reason(run: Run, course: Callable[..., None]) -> None:
    """The command exits with 1 and names the request that explains the refusal."""
    failed = server(1, "failed", reason="No valid host was found", request_id="req-1")
    blocked = server(2, "blocked", method=None, reason="is locked")
    course(maintenance("incomplete", failed, blocked, message="2 servers cannot be moved"))
    ended = run("host", "drain", "h1")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "h1: drain incomplete (2 servers cannot be moved); 0 of 2 moved, 1 failed, 1 blocked",
        f"  {UUID.format(1)} vm-1: failed: No valid host was found; see `berth explain req-1`",
        f"  {UUID.format(2)} vm-2: blocked: is locked",
    ]


def test_json_is_one_document(run: Run, course: Callable[..., None]) -> None:
    """With --json nothing else is printed."""
    done = maintenance("drained", server(1, "moved"))
    course(maintenance("running", server(1, "moving")), done)
    assert json.loads(run("host", "drain", "h1", "--json").out) == done


def test_ctrl_c_ends_only_the_display(
    run: Run, course: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says that the drain goes on, and how to see and stop it."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    course(maintenance("running", server(1, "moving")))
    monkeypatch.setattr(time, "sleep", interrupt)
    ended = run("host", "drain", "h1")
    assert ended.code == 130
    assert "The drain of h1 goes on." in ended.err
    assert "berth host drain h1 --stop" in ended.err


def test_without_waiting_only_the_request_is_sent(run: Run, cloud: Cloud) -> None:
    """--no-wait returns as soon as the drain is recorded."""
    cloud.fixed[("POST", DRAIN)] = (202, maintenance("running", server(1, "waiting")))
    ended = run("host", "drain", "h1", "--no-wait")
    assert (ended.code, ended.out) == (0, "h1: drain running; 0 of 1 moved, 1 waiting\n")
    assert [one.method for one in cloud.asked] == ["POST"]


def test_a_dry_run_prints_the_plan(run: Run, cloud: Cloud) -> None:
    """Each server has its destination, or the reason why it has none."""
    plan = {
        "host": "h1",
        "migrate": "live",
        "fits": 1,
        "total": 2,
        "servers": [
            server(1, "planned", destination="h2"),
            server(2, "failed", reason="No valid host was found"),
        ],
    }
    cloud.fixed[("GET", DRAIN)] = (200, plan)
    ended = run("host", "drain", "h1", "--dry-run", "--include-locked")
    assert ended.out.splitlines() == [
        f"{UUID.format(1)} vm-1: planned live to h2",
        f"{UUID.format(2)} vm-2: failed: No valid host was found",
        "1 of 2 servers would leave h1",
    ]
    assert dict(cloud.last.url.params) == {"migrate": "live", "moves_locked": "true"}
    assert json.loads(run("host", "drain", "h1", "--dry-run", "--json").out) == plan


def test_a_drain_is_stopped(run: Run, cloud: Cloud) -> None:
    """The answer shows what the drain has reached."""
    cloud.fixed[("DELETE", DRAIN)] = (200, maintenance("stopped", server(1, "moving")))
    assert run("host", "drain", "h1", "--stop").out == "h1: drain stopped; 0 of 1 moved, 1 moving\n"


def test_a_host_is_maintained_and_resumed(run: Run, cloud: Cloud) -> None:
    """The end is a span from now or a time."""
    kept = {"host": "h1", "reason": "disk", "until_s": 1_800_000_000.0, "drain": None}
    cloud.fixed[("PUT", MAINTENANCE)] = (200, kept)
    cloud.fixed[("DELETE", MAINTENANCE)] = (204, {})
    ended = run("host", "maintain", "h1", "--until", "2027-01-15T08:00+00:00", "--reason", "disk")
    assert ended.out == "h1 is disabled until 2027-01-15 08:00:00+00:00\n"
    assert cloud.body() == {"until_s": 1_800_000_000.0, "reason": "disk"}
    assert run("host", "resume", "h1").out == "h1 is enabled\n"
    wrong = run("host", "maintain", "h1", "--until", "tomorrow")
    assert wrong.code == 2
    assert "--until 'tomorrow' must be a span such as 90s" in wrong.err


def test_maintenance_is_listed_and_shown(run: Run, cloud: Cloud) -> None:
    """The list has one row for each host, and one host shows its servers."""
    shown = maintenance("running", server(1, "moving", destination="h2"))
    kept = shown | {"host": "h2", "drain": None, "until_s": 1_800_000_000.0}
    path = "/berth/v1/maintenances"
    cloud.fixed[("GET", path)] = (200, {"maintenances": [shown, kept]})
    cloud.fixed[("GET", MAINTENANCE)] = (200, shown)
    listed = run("host", "maintenance").out
    assert "running" in listed
    assert "0 of 1 moved, 1 moving" in listed
    assert "2027-01-15 08:00:00+00:00" in listed
    assert json.loads(run("host", "maintenance", "--json").out)["maintenances"] == [shown, kept]
    one = run("host", "maintenance", "h1").out
    assert UUID.format(1) in one
    assert "h2" in one
    assert json.loads(run("host", "maintenance", "h1", "--json").out) == shown
    cloud.fixed[("GET", path)] = (200, {"maintenances": []})
    assert run("host", "maintenance").out == "no host is in maintenance\n"


def test_a_terminal_shows_a_table(
    run: Run, course: Callable[..., None], terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers that move come first, and the table never exceeds the screen."""
    screen = terminal("stderr", width=100, height=10)
    frames: list[str] = []

    def pause(_: float) -> None:
        screen.read()
        frames.append(screen.view.text)

    monkeypatch.setattr(time, "sleep", pause)
    servers = [server(number, "waiting") for number in range(1, 30)]
    moving = server(40, "moving", destination="h\x1b2")
    course(
        maintenance("running", *servers, moving, message="busy"),
        maintenance("drained", server(1, "moved")),
    )
    assert run("host", "drain", "h1").code == 0
    lines = frames[0].splitlines()
    assert len(lines) == 9
    assert lines[0].split()[:2] == ["draining", "h1"]
    assert "0 of 30" in lines[0]
    assert [line.split() for line in lines[1:3]] == [
        ["busy"],
        ["vm-40", "moving", "live", "to", "h\ufffd2"],
    ]
    assert lines[-1].strip() == "… and 24 more"
    screen.read()
    assert screen.view.text == ""


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("90s", 1_090.0),
        ("1.5m", 1_090.0),
        ("2H", 8_200.0),
        ("1d", 87_400.0),
        ("1970-01-01T00:00:05Z", 5.0),
    ],
)
def test_moments(text: str, expected_s: float) -> None:
    """A span counts from now."""
    assert moment_s(text, "--until", 1_000.0) == expected_s


@pytest.mark.parametrize("text", ["", "5", "h", "-5m", "5w", "2026-13-01", "now"])
def test_other_texts_are_no_moments(text: str) -> None:
    """The error names the option and the forms."""
    with pytest.raises(CommandError, match="--until"):
        moment_s(text, "--until", 1_000.0)
    assert moment_text(None) is None
