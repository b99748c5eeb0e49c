"""Connections to one zone: kept while they can be trusted, and one request at a time on each."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, cast

from berth.adapters.zones.responses import ResponseError, ResponseReader

IDLE_S: Final = 4.0
"""Seconds after which an unused connection is not used again: servers of Berth close it after
five, and what is sent just then is lost."""
CONNECTIONS_MAX: Final = 64
"""Connections to one zone; who comes when all are in use waits for one."""
_SEEN_BYTES_MAX: Final = 64 * 1024
"""How much may wait to be sent below TLS where nobody can see it."""
KEPT_S: Final = 10.0
"""Seconds for which a name is not looked up again."""


class ConnectionsClosedError(Exception):
    """This process ends, and connects to nobody any more."""


class ResolvedAddresses:
    """The addresses of one host.

    Args:
        host: name or address.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._found: Sequence[str] = (host,) if _is_address(host) else ()
        self._until_s = float("inf") if self._found else 0.0
        self._looking: asyncio.Task[Sequence[str]] | None = None

    async def all(self) -> Sequence[str]:
        """Return the addresses, those to try first before others.

        Raises:
            OSError: the host has none.
            UnicodeError: no name server could be asked for its name.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._until_s:
            return self._found
        if self._looking is None:
            self._looking = loop.create_task(self._look())
            self._looking.add_done_callback(self._end)
        # Whoever stops waiting leaves the look-up to others.
        return await asyncio.shield(self._looking)

    async def _look(self) -> Sequence[str]:
        found = await look_up(self._host)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def _end(self, done: "asyncio.Task[Sequence[str]]") -> None:
        self._looking = None
        if not done.cancelled() and done.exception() is None:
            self._found = done.result()
            self._until_s = done.get_loop().time() + KEPT_S


async def look_up(host: str) -> Sequence[tuple[int, int, int, str, tuple[object, ...]]]:
    """Ask for the addresses of a host, as `getaddrinfo` does."""
    return await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class ZoneConnection(asyncio.Protocol):
    """One connection. What comes on it while nobody has asked ends it.

    It is cut off and never closed gently, which takes as long as the server likes: it would neither
    read what is left of a request, nor say goodbye.
    """

    def __init__(self) -> None:
        self.is_kept = False
        """Whether a request has been answered on it."""
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    # ---- what the loop tells --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have a connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read an answer; what nobody has asked for could be taken for the next one."""
        reader = self._reader
        if reader is None:
            self.close()
            return
        try:
            reader.feed(data)
        except ResponseError as error:
            self._end(error)
        else:
            if reader.is_whole:
                self._end(None)

    def eof_received(self) -> None:
        """End with the server; returning nothing closes the connection."""
        self._lose()

    def connection_lost(self, exc: Exception | None) -> None:
        """Have no connection any more."""
        self._lose()

    def _lose(self) -> None:
        if self._reader is not None:
            self._end(self._reader.lost())
        self.close()

    def _end(self, error: Exception | None) -> None:
        """Let whoever waits for the answer go on."""
        self._reader = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    # ---- what is done with it -------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: Sequence[bytes], reader: ResponseReader, until_s: float) -> None:
        """Send a request, in pieces, and wait until its answer is whole.

        Whatever keeps that from being so, the connection is not used again, nor is it when some of
        the request may not have been sent.

        Args:
            request: what is sent.
            reader: reads the answer.
            until_s: time of the loop until which is waited.

        Raises:
            ResponseError: what came is no answer.
            TimeoutError: it has not come in time.
        """
        transport = self._transport
        if transport is None:
            raise reader.lost()
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        self._reader = reader
        timer = loop.call_at(until_s, self._end, TimeoutError())
        try:
            for piece in request:
                transport.write(piece)
            await waiter
        finally:
            timer.cancel()
            self._reader = self._waiter = None
            if not (reader.can_go_on and self.is_open and self._has_sent(request)):
                self.close()
            self.is_kept = True

    def _has_sent(self, request: Sequence[bytes]) -> bool:
        transport = self._transport
        if transport is None or transport.get_write_buffer_size():
            return False
        is_secured = transport.get_extra_info("sslcontext") is not None
        return not is_secured or sum(map(len, request)) <= _SEEN_BYTES_MAX

    def rest(self) -> None:
        """Close it when nobody has taken it for some seconds."""
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def wake(self) -> None:
        """Keep it open from now on."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def close(self) -> None:
        """Close it, with whatever has not been sent: no server has to read that."""
        self.wake()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


class ZoneConnections:
    """All connections to one zone, in use or not.

    Args:
        host: name or address.
        port: where it listens.
        context: checks its certificate; None sends in the clear.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._host = host
        self._port = port
        self._addresses = ResolvedAddresses(host)
        self._context = context
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self._resting: list[ZoneConnection] = []
        self._used: set[ZoneConnection] = set()
        self._is_closed = False

    async def take(self, until_s: float, *, is_new: bool = False) -> ZoneConnection:
        """Return a connection for one request; `put_back` it, whatever came of that.

        Args:
            until_s: time of the loop until which is waited for one.
            is_new: take none that was used before.

        Raises:
            ConnectionsClosedError: they are closed.
            OSError: there is none, or not in time (TimeoutError).
            UnicodeError: the name of a host that no name server could be asked for.
        """
        connection = None if is_new or self._turns.locked() else self._rested()
        if connection is not None:
            await self._turns.acquire()  # at once
        else:
            async with asyncio.timeout_at(until_s):
                connection = await self._waited_for(is_new=is_new)
        self._used.add(connection)
        return connection

    def put_back(self, connection: ZoneConnection) -> None:
        """Let others use a connection, if it can be trusted still."""
        self._used.discard(connection)
        self._turns.release()
        if self._is_closed:
            connection.close()
        elif connection.is_open:
            connection.rest()
            self._resting.append(connection)

    def _rested(self) -> ZoneConnection | None:
        while self._resting:
            connection = self._resting.pop()
            connection.wake()
            if connection.is_open:
                return connection
        return None

    async def _waited_for(self, *, is_new: bool) -> ZoneConnection:
        await self._turns.acquire()
        try:
            kept = None if is_new else self._rested()
            return await self._connected() if kept is None else kept
        except BaseException:
            self._turns.release()
            raise

    async def _connected(self) -> ZoneConnection:
        self._check_open()
        addresses = await self._addresses.all()
        for address in addresses[:-1]:
            try:
                return await self._connected_to(address)
            except OSError:
                continue
        return await self._connected_to(addresses[-1])

    async def _connected_to(self, address: str) -> ZoneConnection:
        self._check_open()
        _, connection = await asyncio.get_running_loop().create_connection(
            ZoneConnection,
            address,
            self._port,
            ssl=self._context,
            server_hostname=None if self._context is None else self._host,
        )
        try:
            self._check_open()
        except ConnectionsClosedError:
            connection.close()
            raise
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionsClosedError

    def close(self) -> None:
        """Close them all, and make no more; whoever waits for an answer is told."""
        self._is_closed = True
        for connection in (*self._resting, *self._used):
            connection.close()
        self._resting.clear()
