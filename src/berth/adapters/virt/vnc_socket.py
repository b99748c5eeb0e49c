"""Connections to the VNC servers of guests, over sockets that have no address.

A hypervisor gets one end of a pair of sockets, so that nothing but this process can connect.
"""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

from berth.domain.errors import DriverError


class SocketStream:
    """A connected socket as a stream; see the port `ByteStream`.

    Args:
        connected: the socket, which the stream closes.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)  # noqa: FBT003 - the socket's own method
        self._socket = connected
        self._uses = 0
        self._is_closed = False

    async def read(self, bytes_max: int) -> bytes:
        """See `ByteStream.read`."""
        with self._in_use():
            try:
                return await asyncio.get_running_loop().sock_recv(self._socket, bytes_max)
            except OSError:
                return b""

    async def write(self, data: bytes) -> None:
        """See `ByteStream.write`."""
        with self._in_use():
            try:
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
            except OSError as error:
                raise DriverError("the VNC connection has ended") from error

    def close(self) -> None:
        """See `ByteStream.close`. A read that is waiting returns no bytes."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):  # the other end may have closed the connection
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._uses:
            self._socket.close()

    @contextmanager
    def _in_use(self) -> Generator[None]:
        """Keep the descriptor open: the event loop would not notice that it is closed."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self._is_closed and not self._uses:
                self._socket.close()
