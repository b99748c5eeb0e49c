"""Live migration and evacuation over HTTP."""

import asyncio

import pytest

from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import OWNER, SLOW, Staffed

AUTO = {"host": None, "block_migration": "auto"}
OLD = {"host": None, "block_migration": False, "disk_over_commit": False}


async def test_a_live_migration_keeps_the_server_running(make_staffed: MakeStaffed) -> None:
    """Only administrators can live-migrate; the status is MIGRATING during the move."""
    cloud = await make_staffed(faults=SLOW)
    uuid = await cloud.built()
    before = await cloud.host_of(uuid)
    assert (await cloud.act(uuid, "os-migrateLive", AUTO, token=OWNER)).status == 403
    assert (await cloud.act(uuid, "os-migrateLive", AUTO)).status == 202
    await cloud.work(3.0)
    assert await cloud.states(uuid) == ("MIGRATING", "active", 1, "migrating")
    await cloud.work()
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, None)
    assert await cloud.host_of(uuid) != before


@pytest.mark.parametrize(
    ("version", "args", "status"),
    [
        ("2.1", OLD, 202),
        ("2.24", OLD | {"block_migration": "auto"}, 400),
        ("2.24", {"host": None, "block_migration": False}, 400),
        ("2.25", OLD, 400),
        ("2.25", AUTO, 202),
        ("2.25", AUTO | {"block_migration": "True"}, 202),
        ("2.25", AUTO | {"block_migration": "maybe"}, 400),
        ("2.25", {"block_migration": "auto"}, 400),
        ("2.25", {"host": None}, 400),
        ("2.25", AUTO | {"force": False}, 400),
        ("2.30", AUTO | {"force": False}, 202),
        ("2.30", AUTO | {"force": True}, 400),
        ("2.30", AUTO | {"host": "host-2", "force": True}, 202),
        ("2.67", AUTO | {"host": "host-2", "force": "true"}, 202),
        ("2.68", AUTO | {"host": "host-2", "force": True}, 400),
        ("2.68", AUTO | {"host": "nowhere"}, 400),
        ("2.68", None, 400),
    ],
)
async def test_what_a_live_migration_takes(
    cloud: Staffed, version: str, args: object, status: int
) -> None:
    """Each microversion accepts its own fields."""
    uuid = await cloud.built(availability_zone="nova:host-0", token=None)
    answer = await cloud.act(uuid, "os-migrateLive", args, version=version)
    assert answer.status == status, answer.body


async def test_a_server_that_is_off_is_not_moved_live(cloud: Staffed) -> None:
    """A stopped server gets 409 with the name of the action."""
    uuid = await cloud.built()
    await cloud.done(uuid, "os-stop")
    answer = await cloud.act(uuid, "os-migrateLive", AUTO)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'os-migrateLive' instance {uuid} while it is in vm_state stopped"
    )


async def dead(cloud: Staffed) -> str:
    """Create a server, force its host down, and return the server's id."""
    uuid = await cloud.built()
    await cloud.take_down(await cloud.host_of(uuid))
    return uuid


@pytest.mark.parametrize(("version", "status"), [("2.94", "ACTIVE"), ("2.95", "SHUTOFF")])
async def test_an_evacuated_server_is_made_anew_elsewhere(
    cloud: Staffed, version: str, status: str
) -> None:
    """An evacuated server is on another host, and is stopped from 2.95 on."""
    uuid = await dead(cloud)
    before = await cloud.host_of(uuid)
    assert (await cloud.act(uuid, "evacuate", {}, version=version, token=OWNER)).status == 403
    answer = await cloud.act(uuid, "evacuate", {}, version=version)
    assert (answer.status, answer.body) == (200, None)
    assert (await cloud.states(uuid))[::3] == ("REBUILD", "rebuilding")
    await cloud.work()
    assert (await cloud.states(uuid))[0] == status
    assert await cloud.host_of(uuid) != before


@pytest.mark.parametrize("version", ["2.94", "2.95"])
async def test_an_evacuation_without_a_host_changes_nothing(cloud: Staffed, version: str) -> None:
    """The server keeps its status and its host, whose agent would otherwise stop the guest."""
    uuid = await dead(cloud)
    before = await cloud.host_of(uuid)
    for host in ("host-0", "host-1", "host-2"):
        await cloud.take_down(host)
    assert (await cloud.act(uuid, "evacuate", {}, version=version)).status == 200
    await cloud.work()
    assert (await cloud.states(uuid))[0] == "ACTIVE"
    assert await cloud.host_of(uuid) == before


async def test_a_host_that_is_up_is_not_evacuated(cloud: Staffed) -> None:
    """A server whose host is up gets 400, as in Nova."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, "evacuate", {})
    assert answer.status == 400
    assert "still in use" in answer.body["badRequest"]["message"]


async def test_an_evacuation_from_hosts_that_may_be_up_must_be_forced(cloud: Staffed) -> None:
    """When too many hosts fell silent at once, only a forced evacuation is accepted."""
    uuid = await cloud.built()
    await asyncio.sleep(200)
    path, body = f"/v2.1/servers/{uuid}/action", {"evacuate": dict[str, str]()}
    answer = await cloud.act(uuid, "evacuate", {}, version="2.94")
    assert answer.status == 409
    assert "3 of 3 hosts fell silent" in answer.body["conflictingRequest"]["message"]
    assert (await cloud.states(uuid))[::3] == ("ACTIVE", None)
    shown = (await cloud.ask("GET", "/berth/v1/hosts")).body["hosts"]
    assert [one["service"]["is_uncertain"] for one in shown] == [True, True, True]
    for force, status in (("maybe", 400), ("false", 409), ("true", 200)):
        headers = {"X-Berth-Force": force}
        answer = await cloud.ask("POST", path, body, version="2.94", headers=headers)
        assert answer.status == status, answer.body


@pytest.mark.parametrize(
    ("version", "args", "status"),
    [
        ("2.13", {}, 400),
        ("2.13", {"onSharedStorage": True, "adminPass": "x"}, 400),
        ("2.14", {"onSharedStorage": False}, 400),
        ("2.14", None, 400),
        ("2.14", {"adminPass": "x"}, 200),
        ("2.28", {"force": False}, 400),
        ("2.29", {"force": False}, 200),
        ("2.29", {"force": True}, 400),
        ("2.67", {"force": True, "host": "host-2"}, 200),
        ("2.68", {"force": True, "host": "host-2"}, 400),
        ("2.68", {"host": "nowhere"}, 404),
        ("2.68", {"host": "host-0"}, 400),
        ("2.68", {"host": None}, 400),
        ("2.95", {"targetState": "stopped"}, 400),
    ],
)
async def test_what_an_evacuation_takes(
    cloud: Staffed, version: str, args: object, status: int
) -> None:
    """Each microversion accepts its own fields."""
    uuid = await cloud.built(availability_zone="nova:host-0", token=None)
    await cloud.take_down("host-0")
    answer = await cloud.act(uuid, "evacuate", args, version=version)
    assert answer.status == status, answer.body


@pytest.mark.parametrize(
    ("args", "password"),
    [
        ({"onSharedStorage": False, "adminPass": "word"}, "word"),
        ({"onSharedStorage": "True"}, None),
        ({"onSharedStorage": "False"}, 12),
    ],
)
async def test_before_2_14_the_answer_has_the_password(
    cloud: Staffed, args: object, password: str | int | None
) -> None:
    """The answer has the password that was sent, a new one, or null if the disk is kept."""
    uuid = await dead(cloud)
    answer = await cloud.act(uuid, "evacuate", args, version="2.13")
    told = answer.body["adminPass"]
    assert answer.status == 200
    assert (len(told) if isinstance(password, int) else told) == password
