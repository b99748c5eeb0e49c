"""Uvicorn's WebSocket protocol for consoles, without logs of URLs, which contain tokens."""

import asyncio
import logging
from typing import Final

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.server import ServerProtocol

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Maximum size of a message from a browser; pasted text is the longest."""

# Both libraries log the path and the query of each connection.
_NO_LOG: Final = logging.getLogger("berth.console")
_NO_LOG.setLevel(logging.CRITICAL)


class ConsoleWebSocket(WebSocketsSansIOProtocol):
    """One connection, served by the application as a WebSocket.

    Pings detect clients that are gone; see uvicorn's `ws_ping_interval`, 20 seconds by default.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _NO_LOG
        # Compression is not offered: the encodings of RFB compress already.
        self.conn = ServerProtocol(max_size=MESSAGE_BYTES_MAX, logger=_NO_LOG)
