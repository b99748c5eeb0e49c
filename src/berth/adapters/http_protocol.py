"""Uvicorn's HTTP protocol with limits on the size and duration of incomplete requests.

The API enforces its own limits once it has a complete head. Before that, and between the chunks of
a body, only the protocol knows how many bytes have arrived and how long they took.
"""

import asyncio
import json
import re
import sys
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from berth.adapters.console_websocket import ConsoleWebSocket
from berth.adapters.http_connections import Connection, ConnectionLimit
from berth.domain.client_network import network_of

UNREAD_BYTES_MAX: Final = 128 * 1024
"""The maximum number of bytes of a head, or between two chunks of a body.

It exceeds the sum of the API's own limits.
"""
MESSAGE_S_MAX: Final = 35.0
"""Seconds within which a request must arrive, slightly more than the API allows for a body."""
READ_BYTES_MIN: Final = 16 * 1024
"""The minimum number of bytes of a waiting response that a client must read per `MESSAGE_S_MAX`."""

_TOKEN: Final = re.compile(rb"[?&]token=")
_MALFORMED: Final = (
    "The server could not comply with the request since it is either malformed or otherwise "
    "incorrect.\n\n {}  "
)
_TOO_LARGE: Final = "The request header fields were too large\n\n {}  "


class LimitedProtocol(HttpToolsProtocol):
    """One HTTP connection with limits, whose error responses have OpenStack's format.

    These errors occur before a request is complete, so the application cannot produce them.
    Trailers after a body are dropped.

    Args:
        config: uvicorn's configuration.
        server_state: the state that all connections share.
        app_state: the application's state.
        unread_bytes_max: the maximum number of bytes that may arrive without completing a head or a
            piece of a body.
        message_s_max: the seconds within which a complete request must arrive, and within which the
            client must read `READ_BYTES_MIN` bytes of a response that exceeds the send buffer.
        connections: the limit that all connections of the server share; None creates a limit for
            this connection alone.
        replaces: the entry of the connection in the limit during its TLS handshake, if there is
            one.
    """

    def __init__(  # noqa: PLR0913 - the arguments of uvicorn's protocols, and limits
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        unread_bytes_max: int = UNREAD_BYTES_MAX,
        message_s_max: float = MESSAGE_S_MAX,
        connections: ConnectionLimit | None = None,
        replaces: Connection | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unread_bytes_max = unread_bytes_max
        self._message_s_max = message_s_max
        self._open = ConnectionLimit() if connections is None else connections
        self._replaces = replaces
        self._unread_bytes = 0
        self._was_asked = False
        self._is_between = False
        self._alarm: asyncio.TimerHandle | None = None
        self._reader_alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._wait()
        # The limit counts by the peer's address, because the headers, which may name the client
        # behind a proxy, arrive later.
        if self._replaces is not None:
            self._open.remove(self._replaces)
            self._replaces = None
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        self._open.add(self, network_of(peer[0]) if peer else "")

    @property
    def has_unsent(self) -> bool:
        """Whether a part of a response still waits in the send buffer."""
        return self.transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Close the connection without delay."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._wait_no_more()
        self._watch_reader_no_more()
        self._open.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse more bytes; reject the request if too many arrive before a head or chunk ends."""
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._is_between and not self._unread_bytes:
            self._wait_no_more()
        elif self._unread_bytes > self._unread_bytes_max:
            reason = f"More than {self._unread_bytes_max} bytes arrived without a complete request."
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE.format(reason))
        elif self._alarm is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Note that the next request has begun to arrive."""
        super().on_message_begin()
        self._is_between = False

    def on_headers_complete(self) -> None:
        """Pass the head on to the application."""
        self._unread_bytes = 0
        headers = self.headers
        super().on_headers_complete()
        # The parser also reports trailers as headers. They must not be added to the headers of this
        # request. An upgrade has no trailers, and its headers are passed on.
        # Uvicorn sets the parser to None only when the connection is lost.
        upgrades = self.parser.should_upgrade()  # pyright: ignore[reportOptionalMemberAccess]
        is_upgrade = upgrades and self._should_upgrade()
        self.headers = headers if is_upgrade else []
        self._was_asked = True

    def on_response_complete(self) -> None:
        """Start the next request if it has already arrived; otherwise the connection is idle."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._open.note_idle(self)

    def pause_writing(self) -> None:
        """Pause the response until the client has read more; disconnect too slow a client."""
        super().pause_writing()
        self._open.note_idle(self)
        self._watch_reader()

    def resume_writing(self) -> None:
        """Let the application continue its response, now that the client has read enough."""
        super().resume_writing()
        self._watch_reader_no_more()
        if self._is_working:
            self._open.note_busy(self)

    @property
    def _is_working(self) -> bool:
        """Whether a request awaits its response; False before the first one, and for WebSockets."""
        # Uvicorn declares the cycle as always present, but sets it with the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to a WebSocket protocol.

        The query of a console's URL contains a token; consoles stay in the limit on connections.
        Agents send no query, and have limits of their own: one connection for each host, and
        `UNPROVEN_MAX` connections that have to prove the identity of a host.
        """
        self._wait_no_more()
        if _TOKEN.search(self.url):
            # This object still is the entry in the limit; it keeps the transport for that.
            console = partial(ConsoleWebSocket, limit=self._open, entry=self)
            self.ws_protocol_class = cast("type[asyncio.Protocol]", console)
        else:
            self._open.remove(self)
        super().handle_websocket_upgrade()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on to the application."""
        self._unread_bytes = 0
        self._open.note_idle(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request has arrived completely."""
        self._unread_bytes = 0
        self._is_between = True
        super().on_message_complete()
        # Until now the connection was idle, because the server waited for the rest of the request.
        # An application may respond before the request is complete; it then has no more work.
        if self._is_working:
            self._open.note_busy(self)

    def send_400_response(self, msg: str) -> None:
        """Respond to malformed HTTP with status 400, and close the connection."""
        # Uvicorn calls this while it handles the parser's error, and only that error states the
        # cause.
        cause = str(sys.exception() or "")
        reason = "content-length header must be an integer" if "Content-Length" in cause else msg
        self._refuse(HTTPStatus.BAD_REQUEST, _MALFORMED.format(reason))

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        if self.transport.is_closing():
            return
        error = {"status": status, "title": status.phrase, "detail": detail}
        body = json.dumps({"errors": [error]}).encode()
        head = (
            f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(self._message_s_max, self._stop_waiting)

    def _wait_no_more(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _watch_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reader_alarm = self.loop.call_later(self._message_s_max, self._check_reader, left)

    def _watch_reader_no_more(self) -> None:
        if self._reader_alarm is not None:
            self._reader_alarm.cancel()
            self._reader_alarm = None

    def _check_reader(self, left_before: int) -> None:
        """Close the connection if the client has read less than `READ_BYTES_MIN` bytes."""
        if left_before - self.transport.get_write_buffer_size() < READ_BYTES_MIN:
            self.abort()
        else:
            self._watch_reader()

    def _stop_waiting(self) -> None:
        """Close the connection, or wait again if the API still works on a request."""
        if self._was_asked and not self.cycle.response_complete:
            self._wait()
        else:
            self.transport.close()
