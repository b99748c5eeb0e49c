"""A line to a server that a test can cut: a TCP proxy of its own."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on between clients and a server.

    Attributes:
        port: where it listens.
        is_closed: connections are taken and closed at once.
        is_silent: connections stay, and nothing gets through.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.is_closed = False
        self.is_silent = False
        self.connections = 0
        self._target = host, port
        self._writers: set[asyncio.StreamWriter] = set()

    async def cut(self) -> None:
        """Break all connections."""
        for writer in [*self._writers]:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client."""
        if self.is_closed:
            writer.transport.abort()
            return
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        both = {writer, there_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if not self.is_silent:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def proxying(
    host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Proxy]:
    """Run a proxy, which speaks TLS to its clients when it is given how."""
    proxy = Proxy(host, port)
    server = await asyncio.start_server(proxy.take, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.cut()
        await asyncio.sleep(0.01)
