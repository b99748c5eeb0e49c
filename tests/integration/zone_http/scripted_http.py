"""A small HTTP server whose answers a test scripts: correct, malformed or none."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Received:
    """A request as it arrived, with header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


Answering = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """An HTTP/1.1 server that reads requests and lets a function write any bytes.

    Attributes:
        port: the port on which it listens.
        requests: the requests that arrived.
        connections: the number of connections so far.
        is_asked: set when a request has arrived.
        is_left: set when a client has closed its connection.
    """

    def __init__(self, answering: Answering) -> None:
        self.port = 0
        self.requests: list[Received] = []
        self.connections = 0
        self.is_asked = asyncio.Event()
        self.is_left = asyncio.Event()
        self._answering = answering
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                fields = {name.lower(): value for name, value in headers.items()}
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                request = Received(head[0], fields, body, number)
                self.requests.append(request)
                self.is_asked.set()
                await self._answering(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.is_left.set()
        finally:
            self._writers.discard(writer)
            writer.close()

    def end(self) -> None:
        """Send the end of the stream on all connections."""
        for writer in self._writers:
            writer.write_eof()

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def scripted(
    answering: Answering, context: ssl.SSLContext | None = None
) -> AsyncGenerator[ScriptedServer]:
    """Run a server on a free local port and yield it."""
    server = ScriptedServer(answering)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.hang_up()
        listener.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(listener.wait_closed(), 1.0)


def answer_of(body: bytes = b"{}", *, status: str = "200 OK", more: str = "") -> bytes:
    """Return the bytes of an answer; `more` are further lines of its head."""
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


def always(raw: bytes) -> Answering:
    """Return a function that answers every request with the same bytes."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return answer


async def never(_: Received, __: asyncio.StreamWriter) -> None:
    """Send no answer, and keep the connection open."""


async def hang_up(_: Received, writer: asyncio.StreamWriter) -> None:
    """Close the connection without an answer."""
    writer.close()


def cut(raw: bytes) -> Answering:
    """Return a function that writes these bytes and closes the connection."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    return answer
