"""A TCP proxy whose connections a test can delay, silence and break."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on between clients and a server.

    Attributes:
        port: the port on which it listens.
        is_closed: whether new connections are closed immediately.
        is_silent: whether connections stay open while nothing gets through. A connection that has
            lost data this way stays silent, as behind a firewall that has forgotten it.
        delay_s: delay of all data, in each direction.
        loses_answer_of: text that arrives when a client sends it, but whose answer is lost because
            the connection breaks. It breaks one connection and is None from then on.
        loses: text that does not arrive when a client sends it, because the connection breaks. It
            breaks one connection and is None from then on.
        kept: receives everything that passes, in both directions; None keeps nothing.
        connections: number of connections so far, without those that were closed immediately.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.is_closed = False
        self.is_silent = False
        self.delay_s = 0.0
        self.loses_answer_of: bytes | None = None
        self.loses: bytes | None = None
        self.kept: bytearray | None = None
        self.connections = 0
        self._target = host, port
        self._writers: set[asyncio.StreamWriter] = set()

    async def cut(self) -> None:
        """Break all connections."""
        for writer in [*self._writers]:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client with the server until either ends the connection."""
        if self.is_closed:
            writer.transport.abort()
            return
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        both = {writer, there_writer}
        self._writers |= both
        pair = _Pair(self)
        try:
            await asyncio.gather(
                pair.send(reader, there_writer), pair.receive(there_reader, writer)
            )
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()


class _Pair:
    """The two directions of one connection."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._is_dead = False
        self._breaks = False

    async def send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the client sends until it ends, or until the proxy loses it."""
        proxy = self._proxy
        try:
            while data := await reader.read(65_536):
                if proxy.loses is not None and proxy.loses in data:
                    proxy.loses = None
                    return
                if proxy.loses_answer_of is not None and proxy.loses_answer_of in data:
                    proxy.loses_answer_of = None
                    self._breaks = True
                await self._pass(data, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the server answers until it ends, or until an answer is to be lost."""
        try:
            while data := await reader.read(65_536):
                if self._breaks:
                    return
                await self._pass(data, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self._proxy.delay_s:
            await asyncio.sleep(self._proxy.delay_s)
        if self._proxy.kept is not None:
            self._proxy.kept += data
        self._is_dead = self._is_dead or self._proxy.is_silent
        if not self._is_dead:
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxying(
    host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Proxy]:
    """Run a proxy, which speaks TLS to its clients if it is given a context."""
    proxy = Proxy(host, port)
    server = await asyncio.start_server(proxy.take, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.cut()
        await asyncio.sleep(0.01)
