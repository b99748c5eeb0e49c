"""What remains of deleted servers: the deletion in the history, and the status of a resize."""

import pytest

from tests.unit.api.cloud import Json
from tests.unit.api.compute.lifecycle.staffed import NEWEST, OWNER, Staffed


async def history(cloud: Staffed, uuid: str, *, token: str | None = None) -> list[Json]:
    """Return the actions of a server with their events, newest first."""
    path = f"/v2.1/servers/{uuid}/os-instance-actions"
    listed = await cloud.ask("GET", path, version=NEWEST, token=token)
    assert listed.status == 200, listed.body
    found: list[Json] = []
    for one in listed.body["instanceActions"]:
        answer = await cloud.ask("GET", f"{path}/{one['request_id']}", version=NEWEST, token=token)
        found.append(answer.body["instanceAction"])
    return found


@pytest.mark.parametrize("how", ["DELETE", "forceDelete", "away"])
async def test_the_history_has_the_deletion(cloud: Staffed, how: str) -> None:
    """The deletion is an action of its caller, which ends with the step that destroys the guest."""
    uuid = await cloud.built()
    host = await cloud.host_of(uuid)
    if how == "away":
        await cloud.take_down(host)
    path = f"/v2.1/servers/{uuid}"
    if how == "forceDelete":
        answer = await cloud.act(uuid, "forceDelete", token=OWNER)
    else:
        answer = await cloud.ask("DELETE", path, token=OWNER)
    assert answer.status in {202, 204}
    if how == "DELETE":
        begun = (await history(cloud, uuid))[0]
        assert (begun["action"], begun["message"], begun["events"]) == ("delete", None, [])
    await cloud.work()
    assert (await cloud.ask("GET", path, token=OWNER)).status == 404
    deletion, creation = await history(cloud, uuid, token=OWNER)
    assert creation["action"] == "create"
    assert (deletion["action"], deletion["message"]) == ("delete", None)
    assert deletion["request_id"] == answer.headers["x-openstack-request-id"]
    assert (deletion["user_id"], deletion["project_id"]) == ("alice", "web")
    (event,) = deletion["events"]
    assert (event["event"], event["result"]) == ("compute_terminate_instance", "Success")
    assert (await history(cloud, uuid))[0]["events"][0]["host"] == host


async def test_a_deletion_ends_the_action_in_progress(cloud: Staffed) -> None:
    """The interrupted action is marked as failed, and the deletion as successful."""
    uuid = await cloud.built()
    await cloud.act(uuid, "os-stop", token=OWNER)
    await cloud.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)
    await cloud.work()
    told = [(one["action"], one["message"]) for one in await history(cloud, uuid)]
    assert told == [("delete", None), ("stop", "Error"), ("create", None)]


async def test_a_create_without_a_host_has_an_event(cloud: Staffed) -> None:
    """The event names the step, and tells administrators why no host was found."""
    await cloud.flavor("huge", vcpus=10_000)
    uuid = await cloud.server(token=OWNER, flavorRef="huge")
    await cloud.work()
    (creation,) = await history(cloud, uuid, token=OWNER)
    assert (creation["action"], creation["message"]) == ("create", "Error")
    (event,) = creation["events"]
    assert event["event"] == "conductor_schedule_and_build_instances"
    assert (event["result"], event["hostId"]) == ("Error", "")
    assert "traceback" not in event
    (event,) = (await history(cloud, uuid))[0]["events"]
    assert (event["host"], bool(event["traceback"])) == ("", True)


@pytest.mark.parametrize("away", [False, True])
async def test_the_deletion_of_a_resized_server_confirms_the_resize(
    cloud: Staffed, away: bool
) -> None:
    """The migration ends as confirmed, at once and after the source has cleaned up."""
    uuid = await cloud.built()
    source = await cloud.host_of(uuid)
    assert (await cloud.done(uuid, "resize", {"flavorRef": "large"}))["status"] == "VERIFY_RESIZE"
    if away:
        await cloud.take_down(source)
    await cloud.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)
    await cloud.work()
    listed = await cloud.ask("GET", "/v2.1/os-migrations", version=NEWEST)
    assert [one["status"] for one in listed.body["migrations"]] == ["confirmed"]
