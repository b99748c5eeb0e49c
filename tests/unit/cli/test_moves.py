"""`berth migration` and `berth host evacuate`, with a simulated cloud."""

import json
import time

import pytest

from tests.unit.cli.cloud import UUID, Cloud, Json
from tests.unit.cli.conftest import Run

PATH = "/v2.1/os-migrations"
HOST = "OS-EXT-SRV-ATTR:host"
TASK = "OS-EXT-STS:task_state"


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace sleeping, so that waiting takes no time."""

    def sleep(_: float) -> None:
        """Return immediately."""

    monkeypatch.setattr(time, "sleep", sleep)


def move(number: int) -> Json:
    """Return a migration as the API shows it."""
    return {
        "id": number,
        "uuid": UUID.format(700 + number),
        "instance_uuid": UUID.format(1),
        "migration_type": "resize",
        "status": "finished",
        "source_compute": "h1",
        "dest_compute": "h2",
        "created_at": "2026-01-01T00:00:00",
        "updated_at": None,
    }


def test_moves_are_listed(run: Run, cloud: Cloud) -> None:
    """The filters of the list are sent as query parameters."""
    cloud.fixed[("GET", PATH)] = (200, {"migrations": [move(1)]})
    ended = run(
        *("migration", "list", "--host", "h1", "--status", "finished", "--type", "resize"),
        *("--server", "u", "--since", "2026-01-01"),
    )
    assert ended.code == 0, ended.err
    assert "resize" in ended.out
    assert dict(cloud.last.url.params) == {
        "host": "h1",
        "status": "finished",
        "migration_type": "resize",
        "instance_uuid": "u",
        "changes-since": "2026-01-01",
    }
    assert json.loads(run("migration", "list", "--json").out) == {"migrations": [move(1)]}


def test_none_are_said_to_be_none(run: Run, cloud: Cloud) -> None:
    """Without migrations, the list says so instead of printing an empty table."""
    cloud.fixed[("GET", PATH)] = (200, {"migrations": []})
    assert run("migration", "list").out == "no migrations\n"


def test_moves_of_a_server(run: Run, cloud: Cloud) -> None:
    """The migrations of a server are found by its name."""
    uuid = cloud.add_server("web")["id"]
    cloud.fixed[("GET", PATH)] = (200, {"migrations": [move(1)]})
    assert run("server", "migrations", "web").code == 0
    assert cloud.last.url.params["instance_uuid"] == uuid


@pytest.fixture
def dead(cloud: Cloud) -> Cloud:
    """Return a cloud with two servers on host h1, whose service is down."""
    cloud.add_service("h1")["state"] = "down"
    for name in ("web", "db"):
        uuid = cloud.add_server(name, **{HOST: "h2"})["id"]
        cloud.fixed[("POST", f"/v2.1/servers/{uuid}/action")] = (200, None)
        path = f"/v2.1/servers/{uuid}/os-instance-actions"
        cloud.fixed[("GET", path)] = (200, {"instanceActions": []})
    return cloud


def test_a_dead_host_is_evacuated(run: Run, dead: Cloud) -> None:
    """The servers of all projects are evacuated, with a line for each."""
    ended = run("host", "evacuate", "h1")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        f"{UUID.format(1)} web: evacuation requested",
        f"{UUID.format(2)} db: evacuation requested",
    ]
    listing = next(one for one in dead.asked if one.url.path == "/v2.1/servers/detail")
    assert dict(listing.url.params) == {"host": "h1", "all_tenants": "1"}
    assert dead.body() == {"evacuate": {}}
    assert dead.last.headers["OpenStack-API-Version"] == "compute 2.94"


def test_deleted_servers_that_are_kept_are_not_evacuated(run: Run, dead: Cloud) -> None:
    """They stay on the dead host, so the command says so and fails."""
    for server in dead.servers.values():
        server["status"] = "SOFT_DELETED"
    ended = run("host", "evacuate", "h1")
    assert ended.code == 1
    assert len(ended.out.splitlines()) == len(dead.servers)
    assert f"{UUID.format(1)} web: is deleted but kept on h1; delete it with" in ended.out
    assert not [one for one in dead.asked if one.method == "POST"]


def test_where_to_and_whether_they_run_can_be_said(run: Run, dead: Cloud) -> None:
    """`--to` sends the target host, and `--stopped` another microversion."""
    assert run("host", "evacuate", "h1", "--to", "h3", "--stopped").code == 0
    assert dead.body() == {"evacuate": {"host": "h3"}}
    assert dead.last.headers["OpenStack-API-Version"] == "compute 2.96"


@pytest.mark.parametrize(("words", "force"), [([], None), (["--force"], "true")])
def test_the_evacuation_of_a_host_is_forced_on_request(
    run: Run, dead: Cloud, words: list[str], force: str | None
) -> None:
    """`--force` applies to each server of the host."""
    assert run("host", "evacuate", "h1", *words).code == 0
    evacuations = [one for one in dead.asked if one.method == "POST"]
    assert [one.headers.get("X-Berth-Force") for one in evacuations] == [force, force]


def test_waiting_says_where_each_is(run: Run, dead: Cloud) -> None:
    """A failed evacuation is printed and ends with 1; the others are waited for."""
    path = f"/v2.1/servers/{UUID.format(1)}/os-instance-actions"
    failed = {"action": "evacuate", "message": "Error"}
    dead.fixed[("GET", path)] = (200, {"instanceActions": [failed]})
    ended = run("host", "evacuate", "h1", "--wait")
    first, second = ended.out.splitlines()
    assert first.startswith(f"{UUID.format(1)} web: evacuate failed")
    assert second == f"{UUID.format(2)} db: is ACTIVE on h2"
    assert ended.code == 1


@pytest.mark.parametrize(("status", "lines"), [(409, 2), (503, 1)])
def test_one_that_is_refused_does_not_stop_the_others(
    run: Run, dead: Cloud, status: int, lines: int
) -> None:
    """A refusal does not stop the other evacuations; an unavailable service does."""
    told = {"conflictingRequest": {"code": status, "message": "not now"}}
    dead.fixed[("POST", f"/v2.1/servers/{UUID.format(1)}/action")] = (status, told)
    ended = run("host", "evacuate", "h1")
    assert ended.code == 1
    assert "web: not now" in ended.out
    assert len(ended.out.splitlines()) == lines


@pytest.mark.parametrize(("host", "code"), [("h1", 6), ("nowhere", 4)])
def test_only_what_is_down_is_evacuated(run: Run, cloud: Cloud, host: str, code: int) -> None:
    """A host whose service is up or missing is not evacuated."""
    cloud.add_service("h1")["state"] = "up"
    ended = run("host", "evacuate", host)
    assert ended.code == code
    assert "berth service" in ended.err


def test_an_empty_host_is_no_failure(run: Run, cloud: Cloud) -> None:
    """A host without servers ends with 0."""
    cloud.add_service("h1")["state"] = "down"
    ended = run("host", "evacuate", "h1")
    assert (ended.code, ended.out) == (0, "no servers on h1\n")
