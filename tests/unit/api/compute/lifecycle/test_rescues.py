"""Rescues over HTTP."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.domain.compute.flavor import Image
from tests.unit.api.compute.lifecycle.staffed import OTHER, OWNER, Staffed


async def test_a_rescue_returns_a_password_and_ends_with_unrescue(cloud: Staffed) -> None:
    """The response has the given password or a new one, and the status is RESCUE meanwhile."""
    uuid = await cloud.built(imageRef="debian")
    answer = await cloud.act(uuid, "rescue", {"adminPass": "secret"}, token=OWNER)
    assert (answer.status, answer.body) == (200, {"adminPass": "secret"})
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, "rescuing")
    assert (await cloud.act(uuid, "unrescue", token=OWNER)).status == 409
    await cloud.work()
    assert await cloud.states(uuid) == ("RESCUE", "rescued", 1, None)
    machine = cloud.machines[await cloud.host_of(uuid)]
    assert machine.guests[uuid].rescue_image == "debian"
    listed = await cloud.ask("GET", "/v2.1/servers?status=rescue", token=OWNER)
    assert [one["id"] for one in listed.body["servers"]] == [uuid]
    answer = await cloud.act(uuid, "unrescue", token=OWNER)
    assert (answer.status, answer.body) == (202, None)
    assert await cloud.states(uuid) == ("RESCUE", "rescued", 1, "unrescuing")
    await cloud.work()
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, None)
    answer = await cloud.act(uuid, "rescue", token=OWNER)
    assert len(answer.body["adminPass"]) >= 12
    path = f"/v2.1/servers/{uuid}/os-instance-actions"
    actions = (await cloud.ask("GET", path, token=OWNER)).body["instanceActions"]
    assert [one["action"] for one in actions][:3] == ["rescue", "unrescue", "rescue"]


async def test_a_rescue_may_name_an_image(cloud: Staffed) -> None:
    """An image that is not configured gets 400, and so does a server without any image."""
    cloud.parts = replace(cloud.parts, images={"tools": Image("tools")})
    cloud.app = build_app(cloud.parts)
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "rescue")).status == 400
    answer = await cloud.act(uuid, "rescue", {"rescue_image_ref": "none"})
    assert answer.status == 400
    assert "rescue_image_ref" in answer.body["badRequest"]["message"]
    assert (await cloud.act(uuid, "rescue", {"rescue_image_ref": "tools"})).status == 200
    await cloud.work()
    machine = cloud.machines[await cloud.host_of(uuid)]
    assert machine.guests[uuid].rescue_image == "tools"


@pytest.mark.parametrize("args", [{"adminPass": 1}, {"image": "x"}, [], {"rescue_image_ref": ""}])
async def test_other_arguments_are_400(cloud: Staffed, args: object) -> None:
    """Malformed and unknown arguments get 400."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "rescue", args)).status == 400


async def test_the_wrong_state_is_409_in_novas_words(cloud: Staffed) -> None:
    """A paused server is not rescued, a locked one only by administrators, a foreign one never."""
    uuid = await cloud.built(imageRef="debian")
    await cloud.done(uuid, "pause")
    answer = await cloud.act(uuid, "rescue", token=OWNER)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'rescue' instance {uuid} while it is in vm_state paused"
    )
    await cloud.done(uuid, "unpause")
    await cloud.done(uuid, "lock")
    assert (await cloud.act(uuid, "rescue", token=OWNER)).status == 409
    assert (await cloud.act(uuid, "rescue", token=OTHER)).status == 404
    assert (await cloud.act(uuid, "rescue")).status == 200


async def test_a_server_that_was_never_built_is_not_rescued(cloud: Staffed) -> None:
    """A server whose build failed has no disks to rescue."""
    uuid = await cloud.built(imageRef="debian")
    await cloud.force(uuid, launched_at_s=None)
    answer = await cloud.act(uuid, "rescue", token=OWNER)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'rescue' instance {uuid} while it is in launched_at None"
    )
