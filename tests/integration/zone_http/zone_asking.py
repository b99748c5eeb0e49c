"""Shared helpers for tests of requests to child zones."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from berth.adapters.zones import open_children
from berth.adapters.zones.http_children import HttpChildren
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone
from berth.ports.zones import ForwardedRequest, ForwardedResponse, NotAskedError
from tests.integration.zone_http.scripted_http import Answering, ScriptedServer, scripted

GET = ForwardedRequest("GET", "/v2.1/servers?limit=2")
POST = ForwardedRequest("POST", "/zones/select", {"Content-Type": "application/json"}, b'{"a":1}')


class Writer:
    """A writer of readable, numbered statements in place of signed ones."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, zone: str, asked: ForwardedRequest, *, project_id: str, user_id: str) -> str:
        """Return a statement with the zone, request, project, user and number."""
        words = f"{zone}|{asked.method}|{asked.path}|{project_id}|{user_id}|{len(self.written)}"
        self.written.append(words)
        return words


def zone_at(port: int, *, prefix: str = "", scheme: str = "http", username: str = "") -> Zone:
    """Return a zone at a local port."""
    return Zone(1, "west", f"{scheme}://127.0.0.1:{port}{prefix}", username)


async def ask(
    children: HttpChildren, zone: Zone, asked: ForwardedRequest = POST, *, timeout_s: float = 5.0
) -> ForwardedResponse:
    """Forward a request of a tenant and return the answer."""
    return await children.forward(zone, asked, project_id="p-1", user_id="u-1", timeout_s=timeout_s)


@asynccontextmanager
async def both(answering: Answering) -> AsyncGenerator[tuple[HttpChildren, ScriptedServer, Zone]]:
    """Yield a client, a scripted server, and the zone at the server."""
    async with (
        scripted(answering) as server,
        open_children(Writer(), password_of=lambda _: "s3cret") as children,
    ):
        yield children, server, zone_at(server.port)


async def refused(answering: Answering, asked: ForwardedRequest = POST) -> str:
    """Return the message of the UnavailableError after an answer; it is not a NotAskedError."""
    async with both(answering) as (children, _, zone):
        with pytest.raises(UnavailableError) as caught:
            await ask(children, zone, asked)
        assert not isinstance(caught.value, NotAskedError)
        return str(caught.value)
