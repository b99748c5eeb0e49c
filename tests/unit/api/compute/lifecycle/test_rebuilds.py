"""The action `rebuild` over HTTP."""

import pytest

from berth.domain.compute.flavor import Image
from tests.unit.api.compute.lifecycle.staffed import OWNER, Staffed
from tests.unit.api.conftest import MakeStack

IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
ARGS = {"imageRef": IMAGE}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJSzOmi6xAM4Hjj0uS9AKo6V2WxyIHpyOhL4GJ0EpH1 a@b"


async def test_a_rebuild_answers_with_the_server(cloud: Staffed) -> None:
    """The answer is 202 with the location and the changed server."""
    uuid = await cloud.built()
    args = ARGS | {"name": "new", "metadata": {"a": "b"}, "description": "d"}
    answer = await cloud.act(uuid, "rebuild", args, token=OWNER)
    assert answer.status == 202
    assert answer.headers["location"].endswith(f"/v2.1/servers/{uuid}")
    server = answer.body["server"]
    assert (server["id"], server["name"], server["status"]) == (uuid, "new", "REBUILD")
    assert (server["image"]["id"], server["metadata"]) == (IMAGE, {"a": "b"})
    assert server["description"] == "d"
    assert len(server["adminPass"]) == 12
    assert await cloud.states(uuid) == ("REBUILD", "active", 1, "rebuilding")
    await cloud.work()
    assert (await cloud.states(uuid))[0] == "ACTIVE"


@pytest.mark.parametrize("was", ["os-stop", "error"])
async def test_what_is_off_or_broken_can_be_rebuilt(cloud: Staffed, was: str) -> None:
    """A stopped server is stopped again after the rebuild, and one in error is active."""
    uuid = await cloud.built()
    if was == "error":
        await cloud.act(uuid, "os-resetState", {"state": "error"})
    else:
        await cloud.done(uuid, was)
    assert (await cloud.act(uuid, "rebuild", ARGS)).body["server"]["status"] == "REBUILD"
    await cloud.work()
    assert (await cloud.states(uuid))[0] == ("ACTIVE" if was == "error" else "SHUTOFF")


SINCE = [
    ("2.18", "description", "d"),
    ("2.53", "key_name", None),
    ("2.56", "user_data", "dGV4dA=="),
    ("2.62", "trusted_image_certificates", None),
    ("2.89", "hostname", "box"),
]


@pytest.mark.parametrize(("before", "field", "value"), SINCE)
async def test_fields_came_with_microversions(
    cloud: Staffed, before: str, field: str, value: object
) -> None:
    """Each field is refused before its microversion."""
    uuid = await cloud.built()
    args = {**ARGS, field: value}
    assert (await cloud.act(uuid, "rebuild", args, version=before)).status == 400
    minor = int(before.partition(".")[2]) + 1
    assert (await cloud.act(uuid, "rebuild", args, version=f"2.{minor}")).status == 202


async def test_a_rebuild_changes_the_key(cloud: Staffed) -> None:
    """A rebuild sets another key pair of the caller, removes it with null, or keeps it."""
    key = {"keypair": {"name": "mine", "public_key": KEY}}
    assert (await cloud.ask("POST", "/v2.1/os-keypairs", key, token=OWNER)).status == 200
    uuid = await cloud.built()
    refused = await cloud.act(uuid, "rebuild", {**ARGS, "key_name": "no"}, token=OWNER)
    assert refused.status == 400
    assert "rebuild.key_name" in refused.body["badRequest"]["message"]
    for args, name, data in (
        ({"key_name": "mine"}, "mine", KEY),
        ({}, "mine", KEY),
        ({"key_name": None}, None, None),
    ):
        answer = await cloud.act(uuid, "rebuild", ARGS | args, token=OWNER)
        assert answer.body["server"]["key_name"] == name
        assert (await cloud.parts.instances.get(uuid)).extra.get("key_data") == data
        await cloud.work()


async def test_files_are_those_of_the_rebuild(cloud: Staffed) -> None:
    """Before 2.57, a rebuild replaces the files, also by none; later ones do not have the field."""
    uuid = await cloud.built()
    files = [{"path": "/a", "contents": "YQ=="}]
    args = {**ARGS, "personality": files}
    assert (await cloud.act(uuid, "rebuild", args, version="2.57")).status == 400
    assert (await cloud.act(uuid, "rebuild", args, version="2.56")).status == 202
    assert (await cloud.parts.instances.get(uuid)).extra["files"] == files
    await cloud.work()
    assert (await cloud.act(uuid, "rebuild", ARGS, version="2.56")).status == 202
    extra = (await cloud.parts.instances.get(uuid)).extra
    assert "files" not in extra
    assert "has_config_drive" not in extra
    await cloud.work()
    too_many = {**ARGS, "personality": files * 6}
    assert (await cloud.act(uuid, "rebuild", too_many, version="2.56")).status == 403


async def test_user_data_is_in_the_answer(cloud: Staffed) -> None:
    """From 2.57 on, the owner's answer has the user data."""
    uuid = await cloud.built()
    args = {**ARGS, "user_data": "dGV4dA=="}
    answer = await cloud.act(uuid, "rebuild", args, version="2.57", token=OWNER)
    assert answer.body["server"]["user_data"] == "dGV4dA=="
    await cloud.work()
    answer = await cloud.act(uuid, "rebuild", ARGS, version="2.56", token=OWNER)
    assert "user_data" not in answer.body["server"]


@pytest.mark.parametrize(
    "args",
    [
        None,
        {},
        {"imageRef": ""},
        {"imageRef": 1},
        {**ARGS, "name": ""},
        {**ARGS, "size": 1},
        {**ARGS, "preserve_ephemeral": "maybe"},
    ],
)
async def test_wrong_arguments_are_400(cloud: Staffed, args: object) -> None:
    """A missing image, unknown fields and invalid values are refused."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "rebuild", args)).status == 400


async def test_a_paused_server_is_not_rebuilt(cloud: Staffed) -> None:
    """A paused server gets 409 with Nova's message."""
    uuid = await cloud.built()
    await cloud.done(uuid, "pause")
    answer = await cloud.act(uuid, "rebuild", ARGS)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        f"Cannot 'rebuild' instance {uuid} while it is in vm_state paused"
    )


async def test_an_image_that_the_host_rejects_is_refused(make_stack: MakeStack) -> None:
    """The message names the filters that reject the host."""
    arm = Image("arm", properties={"hw_architecture": "aarch64"})
    stack = await make_stack(images={IMAGE: Image(IMAGE), "arm": arm})
    await stack.flavor()
    uuid = await stack.server(imageRef=IMAGE)
    await stack.activate(uuid)
    answer = await stack.ask(
        "POST", f"/v2.1/servers/{uuid}/action", {"rebuild": {"imageRef": "arm"}}
    )
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        "the instance's host rejects the image (filter: ImagePropertiesFilter); rebuild from "
        "another image"
    )
