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
    """Remove the variable that the developer's shell may set."""
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
    """Return a cloud with two child zones, to which one can be added."""
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
    """Simulate a terminal that gives this answer, and return the list of prompts."""
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
    """Fields that are not given are not sent, so the service's defaults apply."""
    ended = run("zone", "add", "south", URL)
    assert ended.code == 0, ended.err
    assert tree.body() == {"zone": {"name": "south", "api_url": URL}}


def test_a_zone_is_added_with_all_that_can_be_said(run: Run, tree: Cloud, tmp_path: Path) -> None:
    """All options are sent, with the password from the first line of a file."""
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
    """With `-` as the file, the password is the first line of standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO("piped\r\nrest"))
    run("zone", "add", "south", URL, "--zone-user", "u", "--zone-password-file", "-")
    assert tree.body()["zone"]["password"] == "piped"


def test_the_password_comes_from_the_environment(
    run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BERTH_ZONE_PASSWORD is used, not BERTH_PASSWORD, which is for the service itself."""
    monkeypatch.setenv("BERTH_ZONE_PASSWORD", "around")
    monkeypatch.setenv("BERTH_PASSWORD", "mine")
    run("zone", "add", "south", URL, "--zone-user", "u")
    assert tree.body()["zone"]["password"] == "around"


def test_the_password_is_asked_for(run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, the command prompts for the password without showing it."""
    asked = typed(monkeypatch, "typed")
    run("zone", "add", "south", URL, "--zone-user", "ann")
    assert asked == ["Password of ann"]
    assert tree.body()["zone"]["password"] == "typed"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--zone-user", "u"), "BERTH_ZONE_PASSWORD"),
        (("--zone-user", "u", "--zone-password-file", "/no/such/file"), "cannot be read"),
        (("--zone-user", "u", "--zone-password-file", "/dev/null"), "must not be empty"),
        (("--zone-password-file", "/dev/null"), "requires --zone-user"),
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
    """An incomplete account or an invalid weight ends with 2 before any request is sent."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    ended = run("zone", "add", "south", URL, *words)
    assert ended.code == 2
    assert reason in ended.err
    assert tree.asked == []


def test_a_password_in_no_text_is_refused(run: Run, tree: Cloud, tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused without showing its content."""
    (tmp_path / "secret").write_bytes(b"\xff\xfe\x00abc")
    words = ("--zone-user", "u", "--zone-password-file", tmp_path / "secret")
    ended = run("zone", "add", "south", URL, *words)
    assert ended.code == 2
    assert "UTF-8" in ended.err
    assert "abc" not in ended.err


def test_no_option_takes_the_password_itself(run: Run, tree: Cloud) -> None:
    """There is no option for the password, since other users of the machine could see it."""
    ended = run("zone", "add", "south", URL, "--zone-user", "u", "--zone-password", "s3cret")
    assert ended.code == 2
    assert tree.asked == []


# ---- looking ----------------------------------------------------------------------------------


def test_zones_are_listed_with_their_states(run: Run, tree: Cloud) -> None:
    """Zones are listed by name with their states, and JSON has the service's answer."""
    ended = run("zone", "list")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert [line.split()[:4] for line in lines[-2:]] == [
        ["2", "east", URL, "down"],
        ["1", "west", URL, "up"],
    ]
    (_, (_, document)) = next(iter(tree.fixed.items()))
    found = json.loads(run("zone", "list", "--json", "--sort", "id").out)
    assert found == document


def test_a_zone_just_added_is_not_said_to_be_up(run: Run, cloud: Cloud) -> None:
    """An active zone that has not answered yet is listed as not seen."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": [zone(seen_at=None)]})}
    assert f"{URL}  not seen yet" in run("zone", "list").out


def test_a_tree_without_children_is_said_to_be_one(run: Run, cloud: Cloud) -> None:
    """Without child zones, the list says so and ends with 0."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": []})}
    ended = run("zone", "list")
    assert (ended.code, ended.out) == (0, "no zones\n")


@pytest.mark.parametrize("name", ["west", "1"])
def test_a_zone_is_shown_by_name_or_number(run: Run, tree: Cloud, name: str) -> None:
    """A zone is found by its name or id and shown with its capabilities."""
    ended = run("zone", "show", name)
    assert ended.code == 0
    words = [line.strip().split("  ") for line in ended.out.splitlines()]
    fields = {line[0]: line[-1].strip() for line in words}
    assert fields["state"] == "up"
    assert fields["password"] == "stored"
    assert fields["capabilities"] == "hypervisor=kvm;qemu"
    assert fields["ranges"] == "free.VCPU=0..8"


def test_a_name_beats_a_number(run: Run, cloud: Cloud) -> None:
    """A zone named `1` is preferred to the zone with id 1."""
    cloud.fixed = {("GET", "/zones/detail"): (200, {"zones": [zone(), zone(2, "1")]})}
    assert json.loads(run("zone", "show", "1", "--json").out)["id"] == 2


@pytest.mark.parametrize("words", [("show",), ("remove",), ("set", "--disable")])
def test_a_zone_that_there_is_not_is_told(run: Run, tree: Cloud, words: tuple[str, ...]) -> None:
    """An unknown zone ends each command with 4, and nothing is changed."""
    ended = run("zone", words[0], "north", *words[1:])
    assert ended.code == 4
    assert "berth zone list" in ended.err
    assert [one.method for one in tree.asked] == ["GET"]


def test_a_deployment_that_is_no_zone_says_so(run: Run, cloud: Cloud) -> None:
    """The error names the setting that makes the deployment a zone."""
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
    """Only given options are sent; the password in the environment is not."""
    monkeypatch.setenv("BERTH_ZONE_PASSWORD", "around")
    ended = run("zone", "set", "west", *words)
    assert ended.code == 0, ended.err
    assert tree.last.url.path == "/zones/1"
    assert tree.body() == {"zone": sent}


def test_a_password_is_changed(
    run: Run, tree: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A new password comes from a file or, with --new-password, from a prompt."""
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
    """Missing or contradictory options end with 2 before any request is sent."""
    assert run("zone", "set", "west", *words).code == 2
    assert tree.asked == []


def test_a_zone_is_removed(run: Run, tree: Cloud) -> None:
    """The zone is removed, and the output says that its servers keep running."""
    ended = run("zone", "remove", "east")
    assert (tree.last.method, tree.last.url.path) == ("DELETE", "/zones/2")
    assert ended.out == "zone east removed; its servers keep running there\n"
