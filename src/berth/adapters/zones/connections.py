"""Persistent HTTP connections to one zone, with one request at a time on each.

A connection is reused only when its last response was read completely and unambiguously; see
docs/adr/0027-a-client-for-zones.md.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final, cast

from berth.adapters.zones.responses import ResponseError, ResponseReader

IDLE_S: Final = 4.0
"""Seconds after which an idle connection is closed. Servers of Berth close it after 5 s, and a
request sent at that moment would be lost."""
CONNECTIONS_MAX: Final = 64
"""The maximum number of connections to one zone; further requests wait for one."""
# The TLS layer buffers up to this many bytes below the transport, where `get_write_buffer_size`
# does not count them. After a larger request it is unknown whether all of it was sent.
_TLS_BUFFER_BYTES: Final = 64 * 1024
KEPT_S: Final = 10.0
"""Seconds for which the addresses of a host are cached."""


class ConnectionsClosedError(Exception):
    """The connections are closed because this process is shutting down."""


class ResolvedAddresses:
    """The addresses of one host, cached for 10 s.

    All callers share one lookup, because a lookup occupies a thread of the event loop's small pool
    until the name server answers, and lookups for other zones also need these threads.

    Args:
        host: the name or the address of the host.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._found: Sequence[str] = (host,) if _is_address(host) else ()
        self._until_s = float("inf") if self._found else 0.0
        self._looking: asyncio.Task[Sequence[str]] | None = None

    async def all(self) -> Sequence[str]:
        """Return the addresses, in the order in which to try them.

        Raises:
            OSError: the host's name cannot be resolved.
            UnicodeError: the host's name cannot be encoded for DNS.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._until_s:
            return self._found
        if self._looking is None:
            self._looking = loop.create_task(self._look())
            self._looking.add_done_callback(self._end)
        # `shield` keeps a caller that is cancelled from cancelling the lookup for the others.
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
    """Return the addresses of a host as `getaddrinfo` does, without blocking the event loop.

    Raises:
        OSError: the host's name cannot be resolved.
        UnicodeError: the host's name cannot be encoded for DNS.
    """
    return await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class ZoneConnection(asyncio.Protocol):
    """One connection to a zone, which ends when data arrives without a request.

    It is always aborted and never closed gracefully, because an unresponsive server could keep a
    closing connection open for half a minute, in addition to the permitted number of connections.
    """

    def __init__(self) -> None:
        self.is_kept = False
        """Whether the connection was used for an earlier request."""
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    # ---- callbacks of the event loop ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass data to the response reader, or close the connection if no request is pending.

        Unrequested data could be mistaken for the response to the next request.
        """
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
        """Fail the pending request, if any, and close the connection."""
        self._lose()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request, if any, and forget the transport."""
        self._lose()

    def _lose(self) -> None:
        if self._reader is not None:
            self._end(self._reader.lost())
        self.close()

    def _end(self, error: Exception | None) -> None:
        """Complete the pending request, if any, successfully or with an error."""
        self._reader = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    # ---- requests -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: Sequence[bytes], reader: ResponseReader, until_s: float) -> None:
        """Send a request and wait for its complete response.

        Afterwards the connection is closed, unless the response is complete and permits another
        request, and the whole request was sent.

        Args:
            request: the pieces to send.
            reader: parses the response.
            until_s: the deadline, in the event loop's time.

        Raises:
            ResponseError: the server sent no valid response.
            TimeoutError: the response was not complete by the deadline.
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
            # A server may respond before it has received the whole request. It would then take the
            # rest for the start of the next one.
            if not (reader.can_go_on and self.is_open and self._has_sent(request)):
                self.close()
            self.is_kept = True

    def _has_sent(self, request: Sequence[bytes]) -> bool:
        transport = self._transport
        if transport is None or transport.get_write_buffer_size():
            return False
        is_secured = transport.get_extra_info("sslcontext") is not None
        return not is_secured or sum(map(len, request)) <= _TLS_BUFFER_BYTES

    def rest(self) -> None:
        """Start the idle timer, which closes the connection after `IDLE_S` seconds."""
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def wake(self) -> None:
        """Stop the idle timer."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def close(self) -> None:
        """Abort the connection, dropping unsent data."""
        self.wake()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


class ZoneConnections:
    """The connections to one zone, idle and in use.

    Args:
        host: the name or the address of the zone's host.
        port: the port of the zone's API.
        context: the TLS context; None connects without encryption.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._host = host
        self._port = port
        self._addresses = ResolvedAddresses(host)
        self._context = context
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[ZoneConnection] = []
        self._used: set[ZoneConnection] = set()
        self._is_closed = False

    async def take(self, until_s: float, *, is_new: bool = False) -> ZoneConnection:
        """Return a connection for one request; the caller must always return it with `put_back`.

        Nothing has been sent before this method returns, so a request that fails here can safely
        be sent again.

        Args:
            until_s: the deadline, in the event loop's time.
            is_new: open a new connection instead of reusing one.

        Raises:
            ConnectionsClosedError: the connections are closed.
            OSError: connecting failed, or did not succeed by the deadline (TimeoutError).
            UnicodeError: the host's name cannot be encoded for DNS.
        """
        connection = None if is_new or self._slots.locked() else self._take_idle()
        if connection is not None:
            await self._slots.acquire()  # does not wait: a slot is free
        else:
            async with asyncio.timeout_at(until_s):
                connection = await self._acquire(is_new=is_new)
        self._used.add(connection)
        return connection

    def put_back(self, connection: ZoneConnection) -> None:
        """Accept a connection that is no longer used, and keep it for reuse if it is open."""
        self._used.discard(connection)
        self._slots.release()
        if self._is_closed:
            connection.close()
        elif connection.is_open:
            connection.rest()
            self._idle.append(connection)

    def _take_idle(self) -> ZoneConnection | None:
        while self._idle:
            connection = self._idle.pop()
            connection.wake()
            if connection.is_open:
                return connection
        return None

    async def _acquire(self, *, is_new: bool) -> ZoneConnection:
        await self._slots.acquire()
        try:
            kept = None if is_new else self._take_idle()
            return await self._connect() if kept is None else kept
        except BaseException:
            self._slots.release()
            raise

    async def _connect(self) -> ZoneConnection:
        self._check_open()
        addresses = await self._addresses.all()
        for address in addresses[:-1]:
            try:
                return await self._connect_to(address)
            except OSError:
                continue
        return await self._connect_to(addresses[-1])

    async def _connect_to(self, address: str) -> ZoneConnection:
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
        """Close all connections and open no more; pending requests fail."""
        self._is_closed = True
        for connection in (*self._idle, *self._used):
            connection.close()
        self._idle.clear()
