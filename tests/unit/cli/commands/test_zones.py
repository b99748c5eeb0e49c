"""`berth zone`: the records of child zones."""

import io
import json
from pathlib import Path

import pytest

from tests.unit.cli.cloud import Cloud, Json
from tests.unit.cli.conftest import Run

URL = "https://west.example/berth"


@pytest.fixture(autouse=True)
def _no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the developer's own shell says."""
    monkeypatch.delenv("BERTH_ZONE_PASSWORD", raising=False)


def zone(number: int = 1, name: str = "west", **more: object) -> Json:
    """Return a zone as the API shows it."""
    return {
        "id": number,
        "name": name,
        "api_url": URL,
        "is_enabled": True,
        "is_active": True,
        "username": "parent",
        "has_password": True,
        "weight_offset": 0.0,
        "weight_scale": 1.0,
        "failures": 0,
        "seen_at": "2026-11-22T10:00:00+00:00",
        "capabilities": {"hypervisor": ["kvm", "qemu"]},
        "ranges": {"free.VCPU": [0.0, 8.0]},
        **more,
    }


@pytest.fixture
def tree(cloud: Cloud) -> Cloud:
    """A zone with two children, and one that is added or changed."""
    east = zone(2, "east", is_active=False, seen_at=None, failures=4)
    cloud.fixed = {
        ("GET", "/zones/detail"): (200, {"zones": [zone(), east]}),
        ("POST", "/zones"): (201, {"zone": zone(3, "south")}),
        ("PUT", "/zones/1"): (200, {"zone": zone()}),
        ("PUT", "/zones/2"): (200, {"zone": east}),
        ("DELETE", "/zones/2"): (204, ""),
    }
    return cloud


def typed(monkeypatch: pytest.MonkeyPatch, answer: str) -> list[str]:
    """Let somebody sit at a terminal, who answers questions; return what was asked."""
    asked: list[str] = []

    def prompt(text: str, *, hide_input: bool, **_: object) -> str:
        assert hide_input
        asked.append(text)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("berth.cli.commands.zone_account.click.prompt", prompt)
    return asked


# ---- adding -----------------------------------------------------------------------------------


def test_a_zone_without_an_account_is_added(run: Run, tree: Cloud) -> None:
    """What is not said is left to the service."""
    ended = run("zone", "add", "south", URL)
    assert ended.code == 0, ended.err
    assert tree.body() == {"zone": {"name": "south", "api_url": URL}}


def test_a_zone_is_added_with_all_that_can_be_said(run: Run, tree: Cloud, tmp_path: Path) -> None:
    """The password comes from the first line of a file."""
    (tmp_path / "secret").write_text("s3crét pw \nmore\n", "utf-8")
    words = ("--zone-user", "parent", "--zone-password-file", tmp_path / "secret")
    more = ("--weight-offset", "-2.5", "--weight-scale", "3", "--disable", "--json")
    ended = run("zone", "add", "south", URL, *words, *more)
    assert ended.code == 0, ended.err
    assert tree.body() == {
        "zone": {
            "name": "south",
            "api_url": URL,
            "username": "parent",
            "password": "s3crét pw ",
            "weight_offset": -2.5,
            "weight_scale": 3.0,
            "is_enabled": False,
        }
    }
    assert json.loads(ended.out)["name"] == "south"


def test_the_password_comes_from_standard_input(
    run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a program hands it over."""
    monkeypatch.setattr("sys.stdin", io.StringIO("piped\r\nrest"))
    run("zone", "add", "south", URL, "--zone-user", "u", "--zone-password-file", "-")
    assert tree.body()["zone"]["password"] == "piped"


def test_the_password_comes_from_the_environment(
    run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own variable: BERTH_PASSWORD is for the service that is asked."""
    monkeypatch.setenv("BERTH_ZONE_PASSWORD", "around")
    monkeypatch.setenv("BERTH_PASSWORD", "mine")
    run("zone", "add", "south", URL, "--zone-user", "u")
    assert tree.body()["zone"]["password"] == "around"


def test_the_password_is_asked_for(run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, unseen."""
    asked = typed(monkeypatch, "typed")
    run("zone", "add", "south", URL, "--zone-user", "ann")
    assert asked == ["Password of ann"]
    assert tree.body()["zone"]["password"] == "typed"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--zone-user", "u"), "BERTH_ZONE_PASSWORD"),
        (("--zone-user", "u", "--zone-password-file", "/no/such/file"), "cannot be read"),
        (("--zone-user", "u", "--zone-password-file", "/dev/null"), "is empty"),
        (("--zone-password-file", "/dev/null"), "needs --zone-user"),
        (("--weight-scale", "nan"), "nan"),
        (("--weight-offset", "inf"), "inf"),
    ],
)
def test_a_zone_is_not_added_by_halves(
    run: Run,
    tree: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    reason: str,
) -> None:
    """The service is not asked at all."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ended = run("zone", "add", "south", URL, *words)
    assert ended.code == 2
    assert reason in ended.err
    assert tree.asked == []


def test_a_password_in_no_text_is_refused(run: Run, tree: Cloud, tmp_path: Path) -> None:
    """A wrong file is told, and not what is in it."""
    (tmp_path / "secret").write_bytes(b"\xff\xfe\x00abc")
    words = ("--zone-user", "u", "--zone-password-file", tmp_path / "secret")
    ended = run("zone", "add", "south", URL, *words)
    assert ended.code == 2
    assert "UTF-8" in ended.err
    assert "abc" not in ended.err


def test_no_option_takes_the_password_itself(run: Run, tree: Cloud) -> None:
    """Other users of the machine see options."""
    ended = run("zone", "add", "south", URL, "--zone-user", "u", "--zone-password", "s3cret")
    assert ended.code == 2
    assert tree.asked == []


# ---- looking ----------------------------------------------------------------------------------


def test_zones_are_listed_with_their_states(run: Run, tree: Cloud) -> None:
    """Up, down, or not asked."""
    ended = run("zone", "list")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert [line.split()[:4] for line in lines[-2:]] == [
        ["1", "west", URL, "up"],
        ["2", "east", URL, "down"],
    ]
    (_, (_, document)) = next(iter(tree.fixed.items()))
    assert json.loads(run("zone", "list", "--json").out) == document


def test_a_zone_just_added_is_not_said_to_be_up(run: Run, cloud: Cloud) -> None:
    """It is asked for room, but nobody knows yet whether it answers."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": [zone(seen_at=None)]})}
    assert f"{URL}  not seen yet" in run("zone", "list").out


def test_a_tree_without_children_is_said_to_be_one(run: Run, cloud: Cloud) -> None:
    """And is no mistake."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": []})}
    ended = run("zone", "list")
    assert (ended.code, ended.out) == (0, "no zones\n")


@pytest.mark.parametrize("name", ["west", "1"])
def test_a_zone_is_shown_by_name_or_number(run: Run, tree: Cloud, name: str) -> None:
    """With what it tells, and that a password is kept."""
    ended = run("zone", "show", name)
    assert ended.code == 0
    words = [line.strip().split("  ") for line in ended.out.splitlines()]
    fields = {line[0]: line[-1].strip() for line in words}
    assert fields["state"] == "up"
    assert fields["password"] == "stored"
    assert fields["capabilities"] == "hypervisor=kvm;qemu"
    assert fields["ranges"] == "free.VCPU=0..8"


def test_a_name_beats_a_number(run: Run, cloud: Cloud) -> None:
    """A zone may call itself 1."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": [zone(), zone(2, "1")]})}
    assert json.loads(run("zone", "show", "1", "--json").out)["id"] == 2


@pytest.mark.parametrize("words", [("show",), ("remove",), ("set", "--disable")])
def test_a_zone_that_there_is_not_is_told(run: Run, tree: Cloud, words: tuple[str, ...]) -> None:
    """By all commands, and nothing is changed."""
    ended = run("zone", words[0], "north", *words[1:])
    assert ended.code == 4
    assert "berth zone list" in ended.err
    assert [one.method for one in tree.asked] == ["GET"]


def test_a_deployment_that_is_no_zone_says_so(run: Run, cloud: Cloud) -> None:
    """With what to set."""
    error = {"notImplemented": {"code": 501, "message": "zones.name makes it one."}}
    cloud.fixed = {("GET", "/zones/detail"): (501, error)}
    ended = run("zone", "list")
    assert ended.code == 1
    assert "zones.name" in ended.err


# ---- changing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("--disable",), {"is_enabled": False}),
        (("--enable",), {"is_enabled": True}),
        (("--api-url", "http://x"), {"api_url": "http://x"}),
        (("--weight-scale", "0.5"), {"weight_scale": 0.5}),
        (("--weight-offset", "0"), {"weight_offset": 0.0}),
        (("--zone-user", "new"), {"username": "new"}),
        (("--no-account",), {"username": "", "password": ""}),
    ],
)
def test_what_is_not_given_stays(
    run: Run,
    tree: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sent: Json,
) -> None:
    """The password above all, whatever the environment says."""
    monkeypatch.setenv("BERTH_ZONE_PASSWORD", "around")
    ended = run("zone", "set", "west", *words)
    assert ended.code == 0, ended.err
    assert tree.last.url.path == "/zones/1"
    assert tree.body() == {"zone": sent}


def test_a_password_is_changed(
    run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a file; or by the flag that asks for one."""
    (tmp_path / "secret").write_text("filed")
    run("zone", "set", "east", "--zone-password-file", tmp_path / "secret")
    assert tree.last.url.path == "/zones/2"
    assert tree.body() == {"zone": {"password": "filed"}}
    asked = typed(monkeypatch, "typed")
    run("zone", "set", "west", "--new-password")
    assert asked == ["Password of west"]
    assert tree.body() == {"zone": {"password": "typed"}}


@pytest.mark.parametrize(
    "words",
    [(), ("--no-account", "--new-password"), ("--no-account", "--zone-user", "u")],
)
def test_a_change_that_makes_no_sense_is_refused(
    run: Run, tree: Cloud, words: tuple[str, ...]
) -> None:
    """Before anything is asked."""
    assert run("zone", "set", "west", *words).code == 2
    assert tree.asked == []


def test_a_zone_is_removed(run: Run, tree: Cloud) -> None:
    """And it is said what that does not do."""
    ended = run("zone", "remove", "east")
    assert (tree.last.method, tree.last.url.path) == ("DELETE", "/zones/2")
    assert ended.out == "zone east removed; its servers keep running there\n"
