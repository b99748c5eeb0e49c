"""Compute services in the compute API."""

import pytest

from tests.unit.api.cloud import Answer, Json, Stack

PATH = "/v2.1/os-services"


async def first(stack: Stack, version: str = "2.69") -> Json:
    """Return the service of host-0."""
    answer = await stack.ask("GET", f"{PATH}?host=host-0", version=version)
    (service,) = answer.body["services"]
    found: Json = service
    return found


async def change(stack: Stack, body: object, version: str = "2.69") -> Answer:
    """Change the service of host-0 and return the answer."""
    path = f"{PATH}/{(await first(stack))['id']}"
    return await stack.ask("PUT", path, body, version=version)


async def test_services_are_listed(stack: Stack) -> None:
    """The binary has Nova's name, and ids are numbers before 2.53."""
    service = await first(stack)
    assert service == {
        "binary": "nova-compute",
        "host": "host-0",
        "id": service["id"],
        "zone": "nova",
        "status": "enabled",
        "state": "up",
        "updated_at": "2027-01-15T08:00:00.000000",
        "disabled_reason": None,
        "forced_down": False,
    }
    assert isinstance((await first(stack, "2.52"))["id"], int)
    assert "forced_down" not in await first(stack, "2.10")
    assert len((await stack.ask("GET", f"{PATH}?binary=nova-compute")).body["services"]) == 3
    assert (await stack.ask("GET", f"{PATH}?binary=nova-scheduler")).body["services"] == []


async def test_a_disabled_service_gets_no_servers(stack: Stack) -> None:
    """A disabled host gets no server; enabling it removes the reason."""
    answer = await change(stack, {"status": "disabled", "disabled_reason": "broken"})
    assert answer.status == 200
    assert answer.body["service"]["status"] == "disabled"
    assert (await first(stack))["disabled_reason"] == "broken"
    uuid = await stack.server(host="host-0")
    server = (await stack.ask("GET", f"/v2.1/servers/{uuid}")).body["server"]
    assert server["status"] == "ERROR"
    await change(stack, {"status": "enabled"})
    assert (await first(stack))["disabled_reason"] is None


async def test_a_service_is_forced_down(stack: Stack) -> None:
    """A service that is forced down is down but still enabled."""
    answer = await change(stack, {"forced_down": True})
    assert answer.body["service"]["forced_down"] is True
    assert (await first(stack))["state"] == "down"
    assert (await first(stack))["status"] == "enabled"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "perhaps"},
        {"disabled_reason": "x"},
        {"status": "enabled", "disabled_reason": "x"},
        {"forced_down": "perhaps"},
        {"host": "host-0", "binary": "nova-compute"},
        {"status": "disabled", "disabled_reason": "x" * 256},
    ],
)
async def test_bad_changes_are_refused(stack: Stack, body: Json) -> None:
    """An invalid change gets 400 and changes nothing."""
    before = await first(stack)
    assert (await change(stack, body)).status == 400
    assert await first(stack) == before


async def test_the_old_forms(stack: Stack) -> None:
    """Before 2.53, the path names the action and the body the host."""
    who = {"host": "host-0", "binary": "nova-compute"}

    async def put(action: str, version: str = "2.52", **more: object) -> Answer:
        return await stack.ask("PUT", f"{PATH}/{action}", {**who, **more}, version=version)

    assert (await put("disable")).body == {"service": {**who, "status": "disabled"}}
    reason = {**who, "status": "disabled", "disabled_reason": "x"}
    assert (await put("disable-log-reason", disabled_reason="x")).body == {"service": reason}
    assert (await first(stack))["disabled_reason"] == "x"
    assert (await put("enable")).body == {"service": {**who, "status": "enabled"}}
    down = {"service": {**who, "forced_down": True}}
    assert (await put("force-down", forced_down="true")).body == down
    assert (await first(stack))["forced_down"] is True
    assert (await put("disable-log-reason")).status == 400
    assert (await put("force-down")).status == 400
    assert (await put("force-down", "2.10", forced_down=True)).status == 404
    assert (await put("dance")).status == 404
    for body in ({}, {**who, "binary": "nova-scheduler"}):
        assert (await stack.ask("PUT", f"{PATH}/enable", body, version="2.52")).status == 400
    nobody = {"host": "host-9", "binary": "nova-compute"}
    assert (await stack.ask("PUT", f"{PATH}/enable", nobody, version="2.52")).status == 404


async def test_a_service_is_forgotten_with_its_host(stack: Stack) -> None:
    """Deleting a service removes its host, also from aggregates, unless it has servers."""
    await stack.ask("POST", "/v2.1/os-aggregates", {"aggregate": {"name": "a"}})
    action = {"add_host": {"host": "host-0"}}
    await stack.ask("POST", "/v2.1/os-aggregates/1/action", action)
    path = f"{PATH}/{(await first(stack))['id']}"
    assert (await stack.ask("DELETE", path, version="2.53")).status == 204
    assert (await stack.ask("DELETE", path, version="2.53")).status == 404
    listed = (await stack.ask("GET", "/v2.1/os-hypervisors", version="2.53")).body["hypervisors"]
    assert [one["hypervisor_hostname"] for one in listed] == ["node-1", "node-2"]
    assert (await stack.ask("GET", "/v2.1/os-aggregates/1")).body["aggregate"]["hosts"] == []
    await stack.server(availability_zone="nova:host-1")
    (busy,) = (await stack.ask("GET", f"{PATH}?host=host-1", version="2.53")).body["services"]
    assert (await stack.ask("DELETE", f"{PATH}/{busy['id']}", version="2.53")).status == 409
