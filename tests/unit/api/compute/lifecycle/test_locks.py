"""Locks over HTTP."""

import pytest

from berth.domain.compute.instance import Instance
from tests.unit.api.compute.lifecycle.staffed import OWNER, Staffed

ACTIONS = ["os-stop", "pause", "suspend", "shelve", "forceDelete"]


async def test_a_locked_server_is_for_administrators(cloud: Staffed) -> None:
    """The owner can neither change nor delete a locked server and sees the reason."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "lock", {"locked_reason": "mine"}, token=OWNER)).status == 202
    server = await cloud.show(uuid, token=OWNER)
    assert (server["locked"], server["locked_reason"]) == (True, "mine")
    for action in ACTIONS:
        answer = await cloud.act(uuid, action, token=OWNER)
        assert answer.status == 409
        assert answer.body["conflictingRequest"]["message"] == f"Instance {uuid} is locked"
    path = f"/v2.1/servers/{uuid}"
    assert (await cloud.ask("DELETE", path, token=OWNER)).status == 409
    tags = {"metadata": {"a": "b"}}
    assert (await cloud.ask("POST", f"{path}/metadata", tags, token=OWNER)).status == 409
    assert (await cloud.ask("POST", f"{path}/metadata", tags)).status == 200
    assert (await cloud.act(uuid, "os-stop")).status == 202


async def test_its_owner_may_unlock_it(cloud: Staffed) -> None:
    """An owner can unlock a server that they locked, and then stop it."""
    uuid = await cloud.built()
    await cloud.act(uuid, "lock", token=OWNER)
    assert (await cloud.act(uuid, "unlock", token=OWNER)).status == 202
    server = await cloud.show(uuid, token=OWNER)
    assert (server["locked"], server["locked_reason"]) == (False, None)
    assert (await cloud.act(uuid, "os-stop", token=OWNER)).status == 202


async def test_an_administrators_lock_is_not_the_owners_to_undo(cloud: Staffed) -> None:
    """An owner can neither remove nor replace an administrator's lock."""
    uuid = await cloud.built()
    await cloud.act(uuid, "lock", {"locked_reason": "ours"})
    assert (await cloud.act(uuid, "lock", {"locked_reason": "mine"}, token=OWNER)).status == 202
    assert (await cloud.show(uuid))["locked_reason"] == "ours"
    assert (await cloud.act(uuid, "unlock", token=OWNER)).status == 403
    assert (await cloud.act(uuid, "unlock")).status == 202


@pytest.mark.parametrize(("version", "reason"), [("2.72", None), ("2.73", "why")])
async def test_a_reason_is_read_from_2_73_on(
    cloud: Staffed, version: str, reason: str | None
) -> None:
    """Before 2.73, the reason is ignored, as in Nova."""
    uuid = await cloud.built()
    answer = await cloud.act(uuid, "lock", {"locked_reason": "why"}, version=version)
    assert answer.status == 202
    assert (await cloud.show(uuid))["locked_reason"] == reason


async def test_locks_stand_in_the_history(cloud: Staffed) -> None:
    """Each lock and unlock is an action that ended when it started."""
    uuid = await cloud.built()
    await cloud.act(uuid, "lock")
    await cloud.act(uuid, "unlock")
    actions = await cloud.ledger.actions(uuid)
    assert [one.name for one in actions] == ["unlock", "lock"]
    assert all(one.ended_at_s == one.started_at_s for one in actions)
    instance = await cloud.ledger.get(Instance, uuid)
    assert instance is not None
    assert instance.extra.keys().isdisjoint({"locked", "locked_by"})
