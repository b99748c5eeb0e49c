"""TLS handshakes of HTTP connections, which count against the limit on open connections.

With `loop.create_server`, the HTTP protocol learns of a connection only after its handshake. A
client could then hold any number of connections, each with buffers of 256 KiB or more, without ever
completing one. Berth therefore accepts the connections of a TLS server itself.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Final

from berth.adapters.http_connections import Connection, ConnectionLimit
from berth.domain.client_network import network_of

HANDSHAKE_S_MAX: Final = 10.0
"""Seconds within which a client must complete its handshake."""

_SHUTDOWN_S_MAX: Final = 5.0
# The values of asyncio's own server: the maximum number of connections that are accepted in one
# step of the event loop, the errors by which the system refuses further ones, and the pause that
# follows.
_ACCEPTS_MAX: Final = 100
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S: Final = 1.0


class TlsListener:
    """Accepts the connections of a listening socket, and limits their handshakes.

    For the limit, a connection is idle during its handshake, because the server waits for the
    client.

    Args:
        listener: the listening socket.
        context: the server's certificate and settings.
        protocol: creates the protocol of a connection. Its argument is the entry in the limit that
            the protocol must replace with its own when the connection is made.
        connections: the limit that all connections of the server share.
        handshake_s_max: the seconds within which a handshake must be complete.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[Connection], asyncio.Protocol],
        connections: ConnectionLimit,
        handshake_s_max: float = HANDSHAKE_S_MAX,
    ) -> None:
        self._listener = listener
        self._context = context
        self._protocol = protocol
        self._limit = connections
        self._handshake_s_max = handshake_s_max
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._is_open = True
        listener.settimeout(0)
        self._resume()

    def close(self) -> None:
        """Accept no more connections, and close those that are not yet encrypted."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._listener)
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all handshakes have ended."""
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Begin the handshakes of the connections that wait to be accepted."""
        for _ in range(_ACCEPTS_MAX):
            try:
                connected, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE_S, self._resume)
                return
            connected.settimeout(0)
            handshake = _Handshake(connected)
            self._limit.add(handshake, network_of(str(peer[0])))
            if not handshake.is_refused:
                self._begin(handshake)

    def _begin(self, handshake: "_Handshake") -> None:
        task = handshake.task = self._loop.create_task(self._shake_hands(handshake))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        task.add_done_callback(lambda _: self._limit.remove(handshake))
        task.add_done_callback(lambda _: handshake.close_unused())

    async def _shake_hands(self, handshake: "_Handshake") -> None:
        handshake.has_begun = True
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._protocol(handshake),
                handshake.socket,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s_max,
                ssl_shutdown_timeout=_SHUTDOWN_S_MAX,
            )
        except OSError:
            # The loop has closed the connection. This includes TimeoutError and SSLError.
            return


class _Handshake:
    """A connection in its handshake, as the limit sees it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self.is_refused = False

    @property
    def has_unsent(self) -> bool:
        """Return False, because no response is in progress."""
        return False

    def abort(self) -> None:
        """Close the connection without delay."""
        if self.task is None:
            self.is_refused = True
            self.close_unused()
        else:
            self.task.cancel()

    def close_unused(self) -> None:
        """Close the socket, unless the event loop has taken it over and will close it."""
        if not self.has_begun:
            self.socket.close()
