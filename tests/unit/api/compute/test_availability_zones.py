"""Availability zones in the compute API."""

from tests.unit.api.cloud import Json, Stack

PATH = "/v2.1/os-availability-zone"
TIME = "2027-01-15T08:00:00.000000"


async def zones(stack: Stack, path: str = "", token: str | None = None) -> list[Json]:
    """Return the list of zones."""
    answer = await stack.ask("GET", PATH + path, token=token)
    assert answer.status == 200
    found: list[Json] = answer.body["availabilityZoneInfo"]
    return found


async def disable(stack: Stack, host: str) -> None:
    """Disable the service of a host."""
    body = {"host": host, "binary": "nova-compute"}
    await stack.ask("PUT", "/v2.1/os-services/disable", body)


async def test_hosts_make_the_zones(stack: Stack) -> None:
    """Hosts without a zone are in the default one, and a zone of disabled hosts is unavailable."""
    body = {"aggregate": {"name": "a", "availability_zone": "east"}}
    await stack.ask("POST", "/v2.1/os-aggregates", body)
    action = {"add_host": {"host": "host-0"}}
    await stack.ask("POST", "/v2.1/os-aggregates/1/action", action)
    east = {"zoneName": "east", "zoneState": {"available": True}, "hosts": None}
    nova = {"zoneName": "nova", "zoneState": {"available": True}, "hosts": None}
    assert await zones(stack, token="bob") == [east, nova]
    await disable(stack, "host-0")
    gone = {**east, "zoneState": {"available": False}}
    assert await zones(stack) == [nova, gone]


async def test_administrators_see_the_hosts(stack: Stack) -> None:
    """The details have enabled hosts with the state of their services."""
    await disable(stack, "host-2")
    (nova,) = await zones(stack, "/detail")
    service = {"available": True, "active": True, "updated_at": TIME}
    assert nova["hosts"] == {
        "host-0": {"nova-compute": service},
        "host-1": {"nova-compute": service},
    }
