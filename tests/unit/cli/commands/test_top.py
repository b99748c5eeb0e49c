"""`berth top`, with a simulated cloud and on a pseudo-terminal."""

import json
import sys
import time
from collections.abc import Callable
from io import BytesIO, TextIOWrapper

import httpx
import pytest

from tests.unit.cli.cloud import Cloud, Json
from tests.unit.cli.conftest import OpenTerminal, Run

PATH = ("GET", "/berth/v1/top")


def amounts(used: int, *, reserved: int = 0, total: int = 100) -> Json:
    """Return the amounts of a resource class without overcommitment."""
    return {"total": total, "reserved": reserved, "capacity": total - reserved, "used": used}


def host(name: str, used: int, **more: object) -> Json:
    """Return a host with the given share of its VCPUs in use."""
    return {
        "name": name,
        "node": name,
        "zones": ["east"],
        "state": "up",
        "instances": used,
        "tasks": 1,
        "resources": {"VCPU": amounts(used)},
    } | more


def answer(**more: object) -> Json:
    """Return a response of the service."""
    scheduler = {
        "id": "0123456789ab",
        "part": "scheduler",
        "age_s": 2.2,
        "lag": 4,
        "placed": 1234,
        "refused": 5,
        "lost": 6,
        "placed_per_s": 12.5,
        "refused_per_s": 0.0,
        "lost_per_s": 0.25,
    }
    unknown = dict.fromkeys(scheduler) | {"id": "ba9876543210", "part": "up", "age_s": 1.0}
    return {
        "at_s": 1_800_000_000.0,
        "ledger_version": 9000,
        "replica_version": 8999,
        "lag": 1,
        "hosts": {"total": 40, "up": 38, "down": 1, "disabled": 1},
        "instances": 321,
        "tasks": 7,
        "resources": {
            "CUSTOM_FPGA": amounts(0, total=3),
            "MEMORY_MB": amounts(95, reserved=50, total=150),
            "VCPU": amounts(25),
        },
        "queue": {"requests": 2, "instances": 30, "oldest_s": 1.26},
        "schedulers": [scheduler, unknown],
        "busiest": [host(f"rack{number}", 100 - number) for number in range(1, 40)],
    } | more


def test_one_view_is_printed(run: Run, cloud: Cloud) -> None:
    """The view has the counts, the rates, a line for each scheduler and class, and the hosts."""
    cloud.fixed[PATH] = (200, answer())
    ended = run("top", "--once", "--sort", "VCPU", "--az", "east", "--hosts", 7)
    assert ended.code == 0, ended.err
    sent = {"sort": "VCPU", "availability_zone": "east", "limit": "7"}
    assert dict(cloud.last.url.params) == sent
    lines = ended.out.splitlines()
    assert "40 hosts: 38 up, 1 down, 1 disabled" in lines[0]
    assert "queue: 2 requests for 30 servers, the oldest waits for 1.3 s" in lines[0]
    assert lines[1].startswith("requests per second: 12.5 placed, 0.0 refused, 0.2 claims lost")
    assert "ledger version 9,000, this API is 1 behind" in lines[1]
    assert lines[2].startswith("scheduler 01234567 (scheduler)  4 behind  placed 1,234 (12.5/s)")
    assert lines[3].startswith("scheduler ba987654 (up)  ? behind  placed ? (?/s)")
    assert [line.split()[0] for line in lines[5:8]] == ["VCPU", "MEMORY_MB", "CUSTOM_FPGA"]
    assert lines[5].split()[2:] == ["25%", "25", "of", "100", "used,", "0", "of", "100", "reserved"]
    head = lines.index(next(line for line in lines if line.startswith("Host")))
    assert lines[head].split()[:6] == ["Host", "Zones", "State", "Servers", "Tasks", "VCPU"]
    assert lines[head + 1].split()[:5] == ["rack1", "east", "up", "99", "1"]
    assert lines[head + 1].split()[6] == "99%"


@pytest.mark.parametrize(
    ("found", "bar"),
    [
        (amounts(0), "░" * 30),
        (amounts(1), "█" + "░" * 29),
        (amounts(99), "█" * 29 + "░"),
        (amounts(100), "█" * 30),
        (amounts(50, reserved=50, total=100), "█" * 15 + "▒" * 15),
        (amounts(120), "█" * 30),
        ({"total": 10, "reserved": 10, "capacity": 0, "used": 0}, "▒" * 30),
    ],
)
def test_a_bar_shows_used_free_and_reserved(run: Run, cloud: Cloud, found: Json, bar: str) -> None:
    """Any use is visible, and only a full class has a full bar."""
    cloud.fixed[PATH] = (200, answer(resources={"VCPU": found}, busiest=[]))
    line = next(one for one in run("top", "--once").out.splitlines() if one[:4] == "VCPU")
    assert line.split()[1] == bar


def test_json_is_the_response(run: Run, cloud: Cloud) -> None:
    """With --once it is one document; the number of hosts does not depend on a terminal."""
    cloud.fixed[PATH] = (200, answer())
    assert json.loads(run("top", "--once", "--json").out) == answer()
    assert cloud.last.url.params["limit"] == "20"


def test_a_fleet_without_schedulers_says_so(run: Run, cloud: Cloud) -> None:
    """Nothing would be placed then."""
    cloud.fixed[PATH] = (200, answer(schedulers=[]))
    out = run("top", "--once").out
    assert "no scheduler is alive" in out
    assert "? placed" in out


def test_a_pipe_gets_view_after_view(
    run: Run, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --json each view is a line; Ctrl-C ends the command with 0."""
    cloud.fixed[PATH] = (200, answer())
    pauses: list[float] = []

    def pause(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    ended = run("top", "--json", "--interval", "7")
    assert (ended.code, pauses) == (0, [7.0] * 3)
    assert [json.loads(line) for line in ended.out.splitlines()] == [answer()] * 3


def test_a_refusal_of_the_service_is_passed_on(run: Run, cloud: Cloud) -> None:
    """A wrong order or zone ends the command at once."""
    told = {"badRequest": {"code": 400, "message": "sort: 'x' is no order; use one of load"}}
    cloud.fixed[PATH] = (400, told)
    ended = run("top", "--sort", "x")
    assert ended.code == 1
    assert "use one of load" in ended.err


def test_a_terminal_has_as_many_hosts_as_fit(
    run: Run, cloud: Cloud, terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view follows a resized terminal, keeps the last one during an outage, and ends on q."""
    cloud.fixed[PATH] = (200, answer())
    screen = terminal("stdin", "stdout", width=120, height=16)
    frames: list[str] = []

    def fail() -> str:
        cloud.fails = httpx.ConnectError("refused")
        screen.resize(60, 14)
        return "x"

    acts: list[Callable[[], str]] = [fail, lambda: "q"]

    def key_within(_: float) -> str:
        screen.read()
        frames.append(screen.view.text)
        return acts.pop(0)()

    monkeypatch.setattr("berth.cli.screen._key_within", key_within)
    assert run("top").code == 0
    assert cloud.asked[0].url.params["limit"] == "16"
    first, second = (frame.splitlines() for frame in frames)
    assert len(first) == 16
    assert first[-1].split()[0] == "rack6"
    assert "CUSTOM_FPGA" in first[9]
    assert len(second) == 14
    assert "cannot reach" in second[1]
    assert max(map(len, second)) <= 60
    screen.read()
    assert not screen.view.is_alternate


def test_a_terminal_without_unicode_gets_ascii(
    run: Run, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks would be question marks there."""
    cloud.fixed[PATH] = (200, answer(resources={"VCPU": amounts(50, reserved=50)}, busiest=[]))
    written = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(written, encoding="ascii"))
    assert run("top", "--once").code == 0
    sys.stdout.flush()
    assert b"#" * 15 + b"x" * 15 in written.getvalue()
