"""Actions on servers in the compute API."""

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.domain.compute.instance import Instance
from berth.services.servers.consoles import serve_console
from tests.unit.api.cloud import Json, Stack


@pytest.mark.parametrize("action", ["changePassword", "addFloatingIp", "os-getSPICEConsole"])
async def test_what_nova_has_and_berth_has_not_is_501(stack: Stack, action: str) -> None:
    """An action of Nova that Berth lacks gets 501 with the reason."""
    body: Json = {action: None}
    answer = await stack.ask("POST", f"/v2.1/servers/{await stack.server()}/action", body)
    assert answer.status == 501
    message = answer.body["notImplemented"]["message"]
    assert message.startswith(f"The action {action} is not supported: ")


@pytest.mark.parametrize("body", [{"dance": {}}, {}, {"reboot": {}, "pause": None}, []])
async def test_anything_else_is_400(stack: Stack, body: object) -> None:
    """A body with an unknown action, none or two gets 400."""
    answer = await stack.ask("POST", f"/v2.1/servers/{await stack.server()}/action", body)
    assert answer.status == 400


async def test_force_delete_is_delete(stack: Stack) -> None:
    """`forceDelete` deletes the server like DELETE."""
    path = f"/v2.1/servers/{await stack.server()}"
    assert (await stack.ask("POST", f"{path}/action", {"forceDelete": None})).status == 202
    server = (await stack.ask("GET", path)).body["server"]
    assert server["OS-EXT-STS:task_state"] == "deleting"


async def test_the_server_must_be_there(stack: Stack) -> None:
    """An action on an unknown server gets 404."""
    assert (await stack.ask("POST", "/v2.1/servers/none/action", {"pause": None})).status == 404


async def test_a_console_is_read_from_the_agent_of_the_host(stack: Stack) -> None:
    """The console has all or the last lines; without an agent, the request gets 503."""
    uuid = await stack.server()
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    assert instance.host is not None
    path, body = f"/v2.1/servers/{uuid}/action", {"os-getConsoleOutput": {"length": "1"}}
    assert (await stack.ask("POST", path, body)).status == 503
    driver = FakeDriver(FakeHost(instance.host), stack.clock)
    serve_console(stack.bus, instance.host, HostConsoles(instance.host, driver, stack.clock))
    assert (await stack.ask("POST", path, body)).status == 409
    for _ in range(2):
        await driver.spawn(instance)
        await driver.stop(uuid, grace_s=0.0)
    for arguments, expected in (({"length": 1}, 1), ({"length": -1}, 2), ({}, 2)):
        answer = await stack.ask("POST", path, {"os-getConsoleOutput": arguments})
        assert answer.status == 200
        assert len(answer.body["output"].splitlines()) == expected
    assert (await stack.ask("POST", path, {"os-getConsoleOutput": {"length": -2}})).status == 400
