"""A zone's API and its parent's client over real HTTP: both read a request in the same way."""

import asyncio
import os
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import pytest
import uvicorn

from berth.adapters.http_server import config_of, listening
from berth.adapters.zones import open_children
from berth.domain.compute.request import Request
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.zones import ForwardedRequest, ZoneForwarder
from berth.services.zoning.messages.assertions import AssertionWriter
from berth.services.zoning.messages.child_client import ChildClient
from berth.testing.builders import make_flavor
from tests.unit.api.zones.tree import Net, ZoneStack, key_of


class Quiet(uvicorn.Server):
    """A server that leaves signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signals."""
        yield


class Served:
    """A served zone, the parent's record of it, and the parent's client."""

    def __init__(self, stack: ZoneStack, zone: Zone, forwards: ZoneForwarder) -> None:
        self.stack = stack
        self.zone = zone
        self.forwards = forwards

    async def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """Send a request for tenant p and return the status."""
        asked = ForwardedRequest(method, path, {"OpenStack-API-Version": "compute 2.90"}, body)
        answer = await self.forwards.forward(
            self.zone, asked, project_id="p", user_id="u", timeout_s=10.0
        )
        return answer.status


@pytest.fixture
async def west() -> AsyncIterator[Served]:
    """Yield a zone with one host, served on a local port."""
    stack = ZoneStack(Net(), "west", number=1, parents=("root",))
    await stack.start(1)
    await stack.flavor()
    listener = listening("127.0.0.1", 0)
    zone = Zone(1, "west", f"http://127.0.0.1:{listener.getsockname()[1]}", "root")
    server = Quiet(config_of(stack.app))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    writer = AssertionWriter("root", key_of("root"), stack.clock.now_s, os.urandom)
    async with open_children(writer, password_of=lambda _: "") as forwards:
        yield Served(stack, zone, forwards)
    server.should_exit = True
    await serving
    listener.close()
    await stack.ledger.close()


async def test_a_zone_is_asked_for_offers(west: Served) -> None:
    """A parent gets a zone's name and the requested number of offers over HTTP."""
    asking = ChildClient(west.forwards, west.stack.clock)
    assert (await asking.info(west.zone, timeout_s=10.0)).name == "west"
    uuids = tuple(f"{number:08}-0000-4000-8000-000000000000" for number in range(5))
    request = Request("req-1", uuids, make_flavor(), project_id="p", user_id="u")
    order = SelectOrder(request, "root", west.stack.clock.now_s() + 2.0)
    offers = await asking.select(west.zone, order, timeout_s=10.0)
    assert len(offers.blobs) == len(offers.weights) == 5
    assert {len(blob) for blob in offers.blobs} == {order.blob_bytes}


async def test_paths_are_signed_as_they_are_sent(west: Served) -> None:
    """A zone accepts statements for escaped paths and queries and for a long body."""
    uuid = await west.stack.server(token="u:p")
    path = f"/v2.1/servers/{uuid}"
    assert await west.ask("PUT", f"{path}/tags/t%C3%A9%3F%25%20") == 201
    assert await west.ask("GET", f"{path}/tags/t%C3%A9%3F%25%20") == 204
    assert await west.ask("GET", "/v2.1/servers/detail?name=%5Evm%20%26&limit=3") == 200
    assert await west.ask("GET", path) == 200
    assert await west.ask("DELETE", path) == 204
    assert await west.ask("POST", "/zones/select", b"{}" + b" " * 3_000_000) == 400


async def test_a_zone_that_is_not_trusted_is_told(west: Served) -> None:
    """A parent that is not trusted, or that addresses another zone, gets 401."""
    other = AssertionWriter("mallory", key_of("mallory"), west.stack.clock.now_s, os.urandom)
    async with open_children(other, password_of=lambda _: "") as forwards:
        asking = ChildClient(forwards, west.stack.clock)
        with pytest.raises(UnavailableError, match="answered 401"):
            await asking.info(west.zone, timeout_s=10.0)
    elsewhere = Zone(1, "east", west.zone.api_url)
    with pytest.raises(UnavailableError, match="answered 401"):
        await ChildClient(west.forwards, west.stack.clock).info(elsewhere, timeout_s=10.0)
