"""Actions on servers."""

import pytest

from tests.unit.api.cloud import Json, Stack


@pytest.mark.parametrize("action", ["createImage", "rescue", "addFloatingIp", "os-getVNCConsole"])
async def test_what_nova_has_and_berth_has_not_is_501(stack: Stack, action: str) -> None:
    """The client learns that it is not its own mistake, and why."""
    body: Json = {action: None}
    answer = await stack.ask("POST", f"/v2.1/servers/{await stack.server()}/action", body)
    assert answer.status == 501
    message = answer.body["notImplemented"]["message"]
    assert message.startswith(f"The action {action} is not there: ")


@pytest.mark.parametrize("body", [{"dance": {}}, {}, {"reboot": {}, "pause": None}, []])
async def test_anything_else_is_400(stack: Stack, body: object) -> None:
    """An unknown action, none, or two."""
    answer = await stack.ask("POST", f"/v2.1/servers/{await stack.server()}/action", body)
    assert answer.status == 400


async def test_force_delete_is_delete(stack: Stack) -> None:
    """There is no softer one."""
    path = f"/v2.1/servers/{await stack.server()}"
    assert (await stack.ask("POST", f"{path}/action", {"forceDelete": None})).status == 204
    server = (await stack.ask("GET", path)).body["server"]
    assert server["OS-EXT-STS:task_state"] == "deleting"


async def test_the_server_must_be_there(stack: Stack) -> None:
    """Before anything is said about the action."""
    assert (await stack.ask("POST", "/v2.1/servers/none/action", {"pause": None})).status == 404
