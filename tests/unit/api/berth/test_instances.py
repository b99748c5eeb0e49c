"""Records of instances in the API."""

import msgspec

from berth.domain.compute.instance import Instance
from tests.unit.api.cloud import Stack


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
