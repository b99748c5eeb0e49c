"""Soft deletions over HTTP."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from tests.unit.api.compute.lifecycle.staffed import OTHER, OWNER, Staffed, open_staffed


@pytest.fixture
async def kept() -> Staffed:
    """Return a deployment that keeps deleted servers."""
    cloud = await open_staffed()
    cloud.parts = replace(cloud.parts, soft_deletes=True)
    cloud.app = build_app(cloud.parts)
    return cloud


async def listed(cloud: Staffed, query: str, *, token: str | None = OWNER) -> list[str]:
    """Return the ids of the servers in a list."""
    answer = await cloud.ask("GET", f"/v2.1/servers?{query}", token=token)
    assert answer.status == 200, answer.body
    return [one["id"] for one in answer.body["servers"]]


async def test_a_deleted_server_is_hidden_and_can_be_restored(kept: Staffed) -> None:
    """It is shown by id and by status, not in lists; `restore` makes it active again."""
    uuid, path = await kept.built(), "/v2.1/servers"
    answer = await kept.ask("DELETE", f"{path}/{uuid}", token=OWNER)
    assert answer.status in {202, 204}
    assert await kept.states(uuid) == ("ACTIVE", "active", 1, "soft-deleting")
    await kept.work()
    assert await kept.states(uuid) == ("SOFT_DELETED", "soft-delete", 4, None)
    assert await listed(kept, "") == []
    assert await listed(kept, "all_tenants=1", token=None) == []
    assert await listed(kept, "status=soft_deleted") == [uuid]
    assert await listed(kept, "status=SOFT_DELETED&status=ACTIVE") == [uuid]
    assert await listed(kept, "changes-since=2000-01-01T00:00:00Z") == [uuid]
    assert await listed(kept, "all_tenants=1&deleted=1", token=None) == [uuid]
    used = await kept.ask("GET", "/v2.1/limits", token=OWNER)
    assert used.body["limits"]["absolute"]["totalInstancesUsed"] == 0
    assert (await kept.act(uuid, "os-start", token=OWNER)).status == 409
    assert (await kept.act(uuid, "restore", token=OTHER)).status == 404
    answer = await kept.act(uuid, "restore", token=OWNER)
    assert (answer.status, answer.body) == (202, None)
    assert await kept.states(uuid) == ("SOFT_DELETED", "soft-delete", 4, "restoring")
    await kept.work()
    assert await kept.states(uuid) == ("ACTIVE", "active", 1, None)
    assert await listed(kept, "") == [uuid]
    answer = await kept.act(uuid, "restore", token=OWNER)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'restore' instance {uuid} while it is in vm_state active"
    )


async def test_a_second_delete_changes_nothing_and_a_forced_one_deletes(kept: Staffed) -> None:
    """A repeated delete does not extend the time; `forceDelete` frees the room at once."""
    uuid = await kept.built()
    await kept.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)
    await kept.work()
    before = await kept.show(uuid)
    answer = await kept.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)
    assert answer.status in {202, 204}
    assert await kept.show(uuid) == before
    assert (await kept.act(uuid, "forceDelete", token=OWNER)).status == 202
    await kept.work()
    answer = await kept.ask("GET", f"/v2.1/servers/{uuid}", token=OWNER)
    assert answer.status == 404
    assert not any(machine.guests for machine in kept.machines.values())


async def test_a_repeated_delete_is_completed_without_the_host(kept: Staffed) -> None:
    """The agent that should have stopped the guest may have died after the first request."""
    uuid = await kept.built()
    path, host = f"/v2.1/servers/{uuid}", await kept.host_of(uuid)
    for _ in range(2):
        assert (await kept.ask("DELETE", path, token=OWNER)).status in {202, 204}
        assert await kept.states(uuid) == ("ACTIVE", "active", 1, "soft-deleting")
    await kept.take_down(host)
    assert (await kept.ask("DELETE", path, token=OWNER)).status in {202, 204}
    assert await kept.states(uuid) == ("SOFT_DELETED", "soft-delete", 4, None)
    before = await kept.show(uuid)
    assert (await kept.ask("DELETE", path, token=OWNER)).status in {202, 204}
    assert await kept.show(uuid) == before


async def test_what_never_ran_or_is_on_no_host_is_deleted_at_once(kept: Staffed) -> None:
    """As in Nova, there is nothing to restore."""
    shelved = await kept.built()
    await kept.done(shelved, "shelve")
    building = await kept.server(token=OWNER)
    for uuid in (shelved, building):
        await kept.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)
    await kept.work()
    for uuid in (shelved, building):
        answer = await kept.ask("GET", f"/v2.1/servers/{uuid}", token=OWNER)
        assert answer.status == 404


async def test_a_locked_server_is_kept_from_its_owner(kept: Staffed) -> None:
    """The owner can neither delete nor restore a locked server."""
    uuid = await kept.built()
    await kept.done(uuid, "lock")
    path = f"/v2.1/servers/{uuid}"
    assert (await kept.ask("DELETE", path, token=OWNER)).status == 409
    assert (await kept.ask("DELETE", path)).status in {202, 204}
    await kept.work()
    assert (await kept.act(uuid, "restore", token=OWNER)).status == 409
    assert (await kept.act(uuid, "forceDelete", token=OWNER)).status == 409
