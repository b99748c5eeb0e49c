"""Consoles over a real HTTP server, with a client that speaks websockify's protocol."""

import asyncio
import logging

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from berth.adapters.console_websocket import MESSAGE_BYTES_MAX
from berth.adapters.gateway.websocket_server import socket_class
from berth.adapters.http_server import config_of, listening
from tests.unit.api.cloud import Stack
from tests.unit.api.compute.test_remote_consoles import VERSION, token_of, with_guest


async def test_a_client_of_websockify_uses_a_console(caplog: pytest.LogCaptureFixture) -> None:
    """The guest answers; a message that is too long ends the connection; no log has the token."""
    stack = Stack()
    await stack.start()
    await stack.flavor()
    uuid, driver = await with_guest(stack)
    token = await token_of(stack, uuid)
    # The client logs the URL itself.
    caplog.set_level(logging.DEBUG)
    logging.getLogger("websockets.client").setLevel(logging.ERROR)
    listener = listening("127.0.0.1", 0)
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}/any/path?token={token}"
    server = uvicorn.Server(config_of(stack.app, sockets=socket_class(None)))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        binary = [Subprotocol("binary")]
        async with connect(url, subprotocols=binary, proxy=None) as client:
            assert client.subprotocol == "binary"
            assert await client.recv() == VERSION
            await client.send(VERSION)
            assert await client.recv() == b"\x01\x01"
            await client.send(bytes(MESSAGE_BYTES_MAX + 1))
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1009
        async with connect(url, proxy=None) as client:
            assert await client.recv() == VERSION
            await driver.destroy(uuid)
            with pytest.raises(ConnectionClosed):
                await client.recv()
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, proxy=None)
        assert refused.value.response.status_code == 403
    finally:
        server.should_exit = True
        await serving
        await stack.ledger.close()
    assert token not in caplog.text
