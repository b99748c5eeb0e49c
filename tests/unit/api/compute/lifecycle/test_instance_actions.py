"""The action history of a server, as its owner and administrators see it."""

import pytest

from berth.adapters.virt.fake import DriverFaults
from tests.unit.api.cloud import Json
from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import NEWEST, OTHER, OWNER, Staffed

FIRST = {
    "action",
    "instance_uuid",
    "request_id",
    "user_id",
    "project_id",
    "start_time",
    "message",
}
EVENT = {"event", "start_time", "finish_time", "result"}


def path_of(uuid: str) -> str:
    """Return the path of a server's history."""
    return f"/v2.1/servers/{uuid}/os-instance-actions"


async def listed(cloud: Staffed, uuid: str, version: str = NEWEST, query: str = "") -> list[Json]:
    """Return the history of a server."""
    answer = await cloud.ask("GET", path_of(uuid) + query, version=version, token=OWNER)
    assert answer.status == 200, answer.body
    found: list[Json] = answer.body["instanceActions"]
    return found


async def stopped(cloud: Staffed) -> tuple[str, str]:
    """Stop a server and return its id and the request id."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, "os-stop", token=OWNER)
    await cloud.work()
    return uuid, answer.headers["x-openstack-request-id"]


@pytest.mark.parametrize(("version", "more"), [("2.57", set[str]()), ("2.58", {"updated_at"})])
async def test_the_owner_sees_what_was_asked(cloud: Staffed, version: str, more: set[str]) -> None:
    """Actions are listed newest first and include the creation."""
    uuid, request_id = await stopped(cloud)
    stop, create = await listed(cloud, uuid, version)
    assert (stop["action"], create["action"]) == ("stop", "create")
    assert stop.keys() == create.keys() == FIRST | more
    assert (stop["request_id"], stop["user_id"], stop["project_id"]) == (request_id, "alice", "web")
    assert stop["message"] is None
    assert stop["instance_uuid"] == uuid


async def test_a_rebuild_leaves_the_creation_as_it_was(cloud: Staffed) -> None:
    """A rebuild, which changes the launch time, does not change the create action."""
    uuid = await cloud.built()
    (before,) = await listed(cloud, uuid)
    shown = await cloud.ask("GET", f"/v2.1/servers/{uuid}", version=NEWEST, token=OWNER)
    await cloud.act(uuid, "rebuild", {"imageRef": "cirros"}, token=OWNER)
    await cloud.work()
    rebuilt, create = await listed(cloud, uuid)
    assert (rebuilt["action"], create) == ("rebuild", before)
    again = await cloud.ask("GET", f"/v2.1/servers/{uuid}", version=NEWEST, token=OWNER)
    launched, since = (answer.body["server"]["OS-SRV-USG:launched_at"] for answer in (shown, again))
    assert launched < since


@pytest.mark.parametrize(
    ("version", "token", "keys"),
    [
        ("2.50", OWNER, None),
        ("2.50", None, EVENT | {"traceback"}),
        ("2.51", OWNER, EVENT),
        ("2.51", None, EVENT | {"traceback"}),
        ("2.62", OWNER, EVENT | {"hostId"}),
        ("2.62", None, EVENT | {"traceback", "hostId", "host"}),
        ("2.84", OWNER, EVENT | {"hostId"}),
        ("2.84", None, EVENT | {"traceback", "hostId", "host", "details"}),
    ],
)
async def test_who_sees_what_of_the_steps(
    cloud: Staffed, version: str, token: str | None, keys: set[str] | None
) -> None:
    """Owners see neither hosts nor tracebacks in the events; administrators do."""
    uuid, request_id = await stopped(cloud)
    path = f"{path_of(uuid)}/{request_id}"
    answer = await cloud.ask("GET", path, version=version, token=token)
    action = answer.body["instanceAction"]
    if keys is None:
        assert "events" not in action
        return
    (event,) = action["events"]
    assert event.keys() == keys
    assert event["result"] == "Success"


async def test_owners_never_read_the_name_of_a_host(make_staffed: MakeStaffed) -> None:
    """An owner sees no host name in a failed action; an administrator does."""
    cloud = await make_staffed(faults=DriverFaults(share={"pause": 1.0}))
    uuid = await cloud.built()
    host = await cloud.host_of(uuid)
    await cloud.act(uuid, "pause", token=OWNER)
    await cloud.work()
    pause, _ = await listed(cloud, uuid)
    assert (pause["action"], pause["message"]) == ("pause", "Error")
    path = f"{path_of(uuid)}/{pause['request_id']}"
    for version in ("2.1", "2.51", "2.62", NEWEST):
        answer = await cloud.ask("GET", path, version=version, token=OWNER)
        assert host not in str(answer.body)
    told = (await cloud.ask("GET", path, version=NEWEST)).body["instanceAction"]["events"][0]
    assert (told["result"], told["host"]) == ("Error", host)
    assert told["details"] == told["traceback"] != ""
    server = await cloud.show(uuid, token=OWNER)
    assert told["hostId"] == server["hostId"]


async def test_what_goes_on_has_no_end_yet(cloud: Staffed) -> None:
    """An action in progress has no finished event and no message."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, "os-stop")
    request_id = answer.headers["x-openstack-request-id"]
    shown = await cloud.ask("GET", f"{path_of(uuid)}/{request_id}", version=NEWEST)
    action = shown.body["instanceAction"]
    assert (action["events"], action["message"]) == ([], None)
    assert action["updated_at"] == action["start_time"]


async def test_a_deleted_server_keeps_its_history(cloud: Staffed) -> None:
    """The history of a deleted server is shown from 2.21 on."""
    uuid, request_id = await stopped(cloud)
    await cloud.ask("DELETE", f"/v2.1/servers/{uuid}")
    await cloud.work()
    for path in (path_of(uuid), f"{path_of(uuid)}/{request_id}"):
        assert (await cloud.ask("GET", path, version="2.20", token=OWNER)).status == 404
        assert (await cloud.ask("GET", path, version="2.21", token=OWNER)).status == 200


async def test_pages_came_with_2_58(cloud: Staffed) -> None:
    """Pages have a link to the next one, and an unknown marker gets 400."""
    uuid, _ = await stopped(cloud)
    await cloud.done(uuid, "os-start")
    path = path_of(uuid)
    answer = await cloud.ask("GET", f"{path}?limit=2", version="2.58", token=OWNER)
    assert [one["action"] for one in answer.body["instanceActions"]] == ["start", "stop"]
    (link,) = answer.body["links"]
    assert link["rel"] == "next"
    following = await cloud.ask("GET", link["href"], version="2.58", token=OWNER)
    assert [one["action"] for one in following.body["instanceActions"]] == ["create"]
    assert "links" not in following.body
    assert (await cloud.ask("GET", f"{path}?marker=x", version="2.58")).status == 400
    assert len(await listed(cloud, uuid, "2.57", "?limit=1&marker=x")) == 3


EARLY, LATE = "2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("query", "version", "count"),
    [
        (f"changes-since={EARLY}", "2.58", 2),
        (f"changes-since={LATE}", "2.58", 0),
        (f"changes-since={LATE}", "2.57", 2),
        (f"changes-before={EARLY}", "2.66", 0),
        (f"changes-before={EARLY}", "2.65", 2),
    ],
)
async def test_a_period_may_be_asked_for(
    cloud: Staffed, query: str, version: str, count: int
) -> None:
    """The filters apply from 2.58 and 2.66 on and are ignored before."""
    uuid, _ = await stopped(cloud)
    assert len(await listed(cloud, uuid, version, f"?{query}")) == count


async def test_what_is_not_there_is_404(cloud: Staffed) -> None:
    """An unknown action, an unknown server and another project's server get 404."""
    uuid, request_id = await stopped(cloud)
    answer = await cloud.ask("GET", f"{path_of(uuid)}/req-none", version=NEWEST)
    assert answer.status == 404
    assert answer.body["itemNotFound"]["message"] == "Action req-none not found"
    assert (await cloud.ask("GET", path_of("none"), version=NEWEST)).status == 404
    for path in (path_of(uuid), f"{path_of(uuid)}/{request_id}"):
        assert (await cloud.ask("GET", path, version=NEWEST, token=OTHER)).status == 404
