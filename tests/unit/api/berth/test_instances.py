"""Records of instances in the API."""

from dataclasses import replace

import msgspec
import pytest

from berth.domain.compute.instance import Instance, Status
from tests.unit.api.cloud import Json, Stack

AUDIT = "/berth/v1/audit?grace_s=0"


async def test_a_record_is_shown_as_it_is(stack: Stack) -> None:
    """The record is that of the ledger and names the request of its decision."""
    uuid = await stack.server()
    answer = await stack.ask("GET", f"/berth/v1/instances/{uuid}")
    assert msgspec.convert(answer.body, Instance) == await stack.ledger.get(Instance, uuid)
    decision = await stack.ask("GET", f"/berth/v1/decisions/{answer.body['request_id']}")
    assert decision.body["placements"][0]["host"] == answer.body["host"]


async def test_an_owner_does_not_see_the_host(stack: Stack) -> None:
    """The owner sees no host, and other projects get 404."""
    path = f"/berth/v1/instances/{await stack.server(token='bob')}"
    shown = (await stack.ask("GET", path, token="bob")).body
    assert (shown["host"], shown["node"]) == (None, None)
    assert "host-" not in str(shown)
    assert (await stack.ask("GET", path, token="eve")).status == 404
    assert (await stack.ask("GET", "/berth/v1/instances/none")).status == 404


async def test_the_zone_of_a_server_is_shown_and_changed(stack: Stack) -> None:
    """Moves obey it, so a server on a host of another zone is bound only by force."""
    uuid = await stack.server()
    await stack.activate(uuid)
    path = f"/berth/v1/instances/{uuid}/zone"
    shown = (await stack.ask("GET", path)).body
    assert (shown["availability_zone"], shown["host_availability_zone"]) == (None, "nova")
    east = {"availability_zone": "east"}
    assert (await stack.ask("PUT", path, east)).status == 400
    await stack.ask(
        "POST", "/v2.1/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "east"}}
    )
    refused = await stack.ask("PUT", path, east)
    assert refused.status == 409
    assert "in availability zone nova, not in east" in str(refused.body)
    forced = await stack.ask("PUT", path, east, headers={"x-berth-force": "true"})
    assert (forced.status, forced.body["availability_zone"]) == (200, "east")
    await stack.clock.sleep(1)
    codes = [one["code"] for one in (await stack.ask("GET", AUDIT)).body["discrepancies"]]
    assert codes == ["outside_zone"]
    freed = await stack.ask("PUT", path, {"availability_zone": None})
    assert freed.body["availability_zone"] is None
    assert (await stack.ask("PUT", path, {"availability_zone": "nova"})).status == 200
    history = await stack.ask("GET", f"/v2.1/servers/{uuid}/os-instance-actions")
    actions = [one["action"] for one in history.body["instanceActions"]]
    assert actions == ["bindZone"] * 3 + ["create"]


async def test_a_server_with_a_task_is_bound_only_by_force(stack: Stack) -> None:
    """Its build or move may still end in the old zone."""
    path = f"/berth/v1/instances/{await stack.server()}/zone"
    nova = {"availability_zone": "nova"}
    assert (await stack.ask("PUT", path, nova)).status == 409
    assert (await stack.ask("PUT", path, nova, headers={"x-berth-force": "true"})).status == 200


async def test_a_server_with_an_unconfirmed_move_is_bound_only_by_force(stack: Stack) -> None:
    """A revert may return it to a host in another zone."""
    uuid = await stack.server()
    await stack.activate(uuid)
    await stack.parts.instances.save(
        replace(await stack.parts.instances.get(uuid), migration_uuid="m", status=Status.RESIZED)
    )
    path, nova = f"/berth/v1/instances/{uuid}/zone", {"availability_zone": "nova"}
    refused = await stack.ask("PUT", path, nova)
    assert refused.status == 409
    assert "confirm or revert it first" in str(refused.body)
    assert (await stack.ask("PUT", path, nova, headers={"x-berth-force": "true"})).status == 200
    assert (await stack.ask("PUT", path, {"availability_zone": None})).status == 200


@pytest.mark.parametrize("body", [{}, {"availability_zone": "a:b"}, {"availability_zone": ""}])
async def test_bad_zones_of_servers_are_refused(stack: Stack, body: Json) -> None:
    """The name of a zone is required and checked; an unknown server gets 404."""
    uuid = await stack.server(token="bob")
    assert (await stack.ask("PUT", f"/berth/v1/instances/{uuid}/zone", body)).status == 400
    nova = {"availability_zone": "nova"}
    assert (await stack.ask("PUT", "/berth/v1/instances/none/zone", nova)).status == 404
    path = f"/berth/v1/instances/{uuid}/zone"
    assert (await stack.ask("PUT", path, nova, token="bob")).status == 403
    assert (await stack.ask("GET", path, token="bob")).status == 403
