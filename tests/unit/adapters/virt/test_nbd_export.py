"""Detection of an NBD server."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from berth.adapters.virt.nbd_export import wait_for_server
from berth.domain.errors import DriverError


@asynccontextmanager
async def saying(text: bytes, *, ends: bool) -> AsyncGenerator[int]:
    """Serve a text to each client, yield the port, and wait for all connections to close."""
    guests: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guests.add(asyncio.current_task())
        writer.write(text)
        with contextlib.suppress(OSError):
            await writer.drain()
            if not ends:
                await reader.read()  # until the client hangs up
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
    await asyncio.gather(*(one for one in guests if one is not None))


async def test_a_server_of_disks_is_known_by_its_greeting() -> None:
    """An NBD server is recognised by the start of its greeting."""
    async with saying(b"NBDMAGICIHAVEOPT\0\3", ends=True) as port:
        await wait_for_server("127.0.0.1", port)


@pytest.mark.parametrize(
    ("text", "ends", "told"),
    [
        (b"NBD", True, "cannot connect to an NBD"),
        (b"HTTP/1.1", True, "not an NBD"),
        (b"HTTP/1.1", False, "not an NBD"),
    ],
)
async def test_others_are_told_apart(text: bytes, ends: bool, told: str) -> None:
    """A server that hangs up early or speaks another protocol raises an error."""
    async with saying(text, ends=ends) as port:
        with pytest.raises(DriverError, match=told):
            await wait_for_server("127.0.0.1", port)


async def test_nobody_waits_for_ever() -> None:
    """A server that accepts connections but sends nothing raises an error after the timeout."""
    async with saying(b"", ends=False) as port:
        with pytest.raises(DriverError, match=r"within 0\.1 s"):
            await wait_for_server("127.0.0.1", port, within_s=0.1)


async def test_nobody_is_there() -> None:
    """A port on which no server listens raises an error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DriverError, match="cannot connect to an NBD"):
        await wait_for_server("127.0.0.1", port)
