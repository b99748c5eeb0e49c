"""Uvicorn's WebSocket protocol for consoles, without logs of URLs, which contain tokens."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.server import ServerProtocol

from berth.adapters.http_connections import Connection, ConnectionLimit

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Maximum size in bytes of a message from a browser; the longest ones carry pasted text."""

# Both libraries log the path and the query of each connection.
_NO_LOG: Final = logging.getLogger("berth.console")
_NO_LOG.setLevel(logging.CRITICAL)


class ConsoleWebSocket(WebSocketsSansIOProtocol):
    """One connection, served by the application as a WebSocket.

    Pings detect clients that are gone; see uvicorn's `ws_ping_interval`, 20 seconds by default.

    In the limit on connections, the connection is idle until the application accepts it, and after
    the application has closed it.

    Args:
        config: uvicorn's configuration.
        server_state: the state that all connections share.
        app_state: the application's state.
        limit: the limit on the connections of the server.
        entry: the entry of this connection in the limit.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limit: ConnectionLimit,
        entry: Connection,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limit = limit
        self._entry = entry
        self.logger = _NO_LOG
        # Compression is not offered: the encodings of RFB compress already.
        self.conn = ServerProtocol(max_size=MESSAGE_BYTES_MAX, logger=_NO_LOG)

    async def send(self, message: "ASGISendEvent") -> None:
        """Send a message of the application, and note whether the connection is in use."""
        if message["type"] == "websocket.accept":
            self._limit.note_busy(self._entry)
        await super().send(message)
        if message["type"] == "websocket.close":
            self._limit.note_idle(self._entry)

    def keepalive_timeout(self) -> None:
        """Close the connection to a client that has not answered a ping."""
        super().keepalive_timeout()
        # A client that reads nothing would otherwise keep the connection open: uvicorn closes it
        # only once the client has read everything.
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another connection."""
        self._limit.remove(self._entry)
        super().connection_lost(exc)
