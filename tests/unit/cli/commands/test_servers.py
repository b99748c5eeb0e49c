"""`berth server`, with a simulated cloud."""

import json
import time

import pytest

from tests.unit.cli.cloud import UUID, Cloud
from tests.unit.cli.conftest import Run


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace sleeping, so that waiting takes no time."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_creating_asks_as_the_compute_api_wants_it(run: Run, cloud: Cloud) -> None:
    """The flavor's name becomes its id, and hints are outside the server object."""
    cloud.add_flavor("small")
    run("group", "create", "g", "--policy", "affinity")
    ended = run(
        *("server", "create", "web", "--flavor", "small", "--image", "i", "--az", "az1:h"),
        *("--hint", "same_host=a", "--hint", "same_host=b", "--hint", "x=y=z"),
        *("--group", "g", "--key", "k1"),
    )
    assert ended.code == 0, ended.err
    created = next(one for one in cloud.asked if one.url.path == "/v2.1/servers")
    assert created.headers["Idempotency-Key"] == "k1"
    assert json.loads(created.content) == {
        "server": {
            "name": "web",
            "flavorRef": "id-small",
            "networks": "none",
            "imageRef": "i",
            "availability_zone": "az1:h",
            "min_count": 1,
            "max_count": 1,
            "return_reservation_id": False,
        },
        "os:scheduler_hints": {"same_host": ["a", "b"], "x": "y=z", "group": UUID.format(500)},
    }


def test_several_servers_are_found_by_their_reservation(run: Run, cloud: Cloud) -> None:
    """All servers of the reservation are listed, over several pages."""
    cloud.add_flavor("small")
    ended = run("server", "create", "web", "--flavor", "id-small", "--count", 5, "--json")
    assert ended.code == 0
    made = json.loads(ended.out)["servers"]
    assert len(made) == 5
    assert {one["status"] for one in made} == {"BUILD"}


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        (["--count", "3"], 3, 3),
        (["--min", "2"], 2, 2),
        (["--max", "4"], 1, 4),
        (["--min", "2", "--max", "4"], 2, 4),
    ],
)
def test_counts(run: Run, cloud: Cloud, words: list[str], least: int, most: int) -> None:
    """`--count` sets minimum and maximum, and `--min` alone sets both."""
    cloud.add_flavor("small")
    assert run("server", "create", "web", "--flavor", "small", *words).code == 0
    body = next(one for one in cloud.asked if one.url.path == "/v2.1/servers").content
    server = json.loads(body)["server"]
    assert (server["min_count"], server["max_count"]) == (least, most)


@pytest.mark.parametrize(
    "words",
    [
        ["--count", "2", "--min", "1"],
        ["--min", "3", "--max", "2"],
        ["--count", "0"],
        ["--hint", "x"],
        ["--hint", "=x"],
    ],
)
def test_what_makes_no_sense_is_not_asked(run: Run, cloud: Cloud, words: list[str]) -> None:
    """An invalid command line ends with 2 before any request is sent."""
    assert run("server", "create", "web", "--flavor", "small", *words).code == 2
    assert cloud.asked == []


def test_waiting_ends_when_all_are_built(run: Run, cloud: Cloud) -> None:
    """With --wait, the final state of all servers is printed."""
    cloud.add_flavor("small")
    ended = run("server", "create", "web", "--flavor", "small", "--count", 2, "--wait", "--json")
    assert ended.code == 0
    assert [one["status"] for one in json.loads(ended.out)["servers"]] == ["ACTIVE", "ACTIVE"]


def test_waiting_has_an_end(run: Run, cloud: Cloud) -> None:
    """A server that is still being built after the timeout ends the command with 1."""
    cloud.add_flavor("small")
    cloud.builds = {}
    ended = run("server", "create", "web", "--flavor", "small", "--wait", "--timeout", "0")
    assert ended.code == 1
    assert "still being built" in ended.err


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("No valid host was found for 1 instance. Of 3 hosts, ...", 3),
        ("Other schedulers took the room first, 5 times in a row.", 3),
        ("The disk is full.", 1),
    ],
)
def test_a_server_in_error_says_why(run: Run, cloud: Cloud, message: str, code: int) -> None:
    """The fault is printed, and lack of room has another exit code than a failed build."""
    cloud.add_flavor("small")
    cloud.builds = {"status": "ERROR", "fault": {"code": 500, "message": message}}
    ended = run("server", "create", "web", "--flavor", "small", "--wait")
    assert ended.code == code
    assert message in ended.err
    assert "ERROR" in ended.out


def test_a_flavor_that_is_not_there_ends_with_4(run: Run, cloud: Cloud) -> None:
    """With an unknown flavor, no server is created."""
    ended = run("server", "create", "web", "--flavor", "nope")
    assert ended.code == 4
    assert all(one.method == "GET" for one in cloud.asked)


def test_a_list_is_narrowed_by_options(run: Run, cloud: Cloud) -> None:
    """Each given option becomes a query parameter, and others are not sent."""
    cloud.add_server("web")
    words = ["--host", "h", "--status", "ACTIVE", "--reservation-id", "r", "--all"]
    assert run("server", "list", *words).out == "no servers\n"
    assert dict(cloud.last.url.params) == {
        "host": "h",
        "status": "ACTIVE",
        "reservation_id": "r",
        "all_tenants": "1",
    }
    assert "web" in run("server", "list").out
    assert dict(cloud.last.url.params) == {}


def test_a_server_is_shown_by_uuid_or_name(run: Run, cloud: Cloud) -> None:
    """A name must match completely, and an ambiguous name ends with 2."""
    cloud.add_server("web.1", fault={"message": "it broke"})
    cloud.add_server("webx1")
    for reference in (UUID.format(1), "web.1"):
        ended = run("server", "show", reference)
        assert ended.code == 0
        assert "it broke" in ended.out
    assert json.loads(run("server", "show", "webx1", "--json").out)["id"] == UUID.format(2)
    assert run("server", "show", "web").code == 4
    assert run("server", "show", UUID.format(3)).code == 4
    cloud.add_server("web.1")
    ended = run("server", "show", "web.1")
    assert ended.code == 2
    assert "give a uuid" in ended.err


def test_deleting_waits_until_they_are_gone(run: Run, cloud: Cloud) -> None:
    """No server is deleted if one of those named does not exist."""
    cloud.add_server("a")
    cloud.add_server("b")
    assert run("server", "delete", "a", "c").code == 4
    assert len(cloud.servers) == 2
    assert run("server", "delete", "a", UUID.format(2), "--wait").code == 0
    assert cloud.servers == {}


def test_deleting_does_not_wait_for_what_is_kept(run: Run, cloud: Cloud) -> None:
    """A server that can still be restored counts as deleted, unless its deletion is forced."""
    cloud.add_server("a", status="SOFT_DELETED")
    path = f"/v2.1/servers/{UUID.format(1)}"
    cloud.fixed[("DELETE", path)] = (204, None)
    assert run("server", "delete", UUID.format(1), "--wait", "--timeout", "0").code == 0
    cloud.fixed[("POST", f"{path}/action")] = (202, None)
    ended = run("server", "delete", "a", "--force", "--wait", "--timeout", "0")
    assert "is still being deleted; wait longer with --timeout" in ended.err
