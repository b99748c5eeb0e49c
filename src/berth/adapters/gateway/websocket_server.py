"""Sessions of agents over WebSocket, on the listener of the API.

Uvicorn hands a connection over after its upgrade. There is no task per connection, and no library
above the protocol itself, because a control plane has ten thousand of them.
"""

import asyncio
import logging
from typing import Final

import uvicorn
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from berth.adapters.gateway.session import (
    MALFORMED,
    NORMAL,
    PROOF_S_MAX,
    AgentSession,
    SessionList,
)
from berth.adapters.gateway.wire import AGENT_FRAME_BYTES_MAX

PATH: Final = "/berth/v1/agent"
"""The path at which agents connect."""

SILENT_S_MAX: Final = 45.0
"""Seconds of silence after which an agent is pinged.

After as many more seconds without an answer, its connection is closed.
"""

_UNPROVEN_FRAME_BYTES_MAX: Final = 4 * 1024
_UNPROVEN_BYTES_MAX: Final = 16 * 1024
UNPROVEN_MAX: Final = 4_096
"""The maximum number of connections on which no identity is proven yet; further ones get 503.

After a restart of the control plane all agents connect within seconds. If all were served at the
same time, all would be slow, and none would have proven its identity in time.
"""
_CLOSE_S_MAX: Final = 5.0
_BUFFERED_BYTES_MAX: Final = 128 * 1024 * 1024
# The library requires a logger for each connection; one that writes nothing costs nothing.
_NO_LOG: Final = logging.getLogger("berth.websocket")
_NO_LOG.setLevel(logging.CRITICAL)
_RESTARTING: Final = 1012


class AgentSocket(asyncio.Protocol):
    """One WebSocket connection, which carries one session.

    Args:
        sessions: the sessions of the process; None refuses all agents.
        connections: the connections of the server, which this one joins.
    """

    __slots__ = (
        "_alarm",
        "_connections",
        "_is_pinged",
        "_protocol",
        "_received_s",
        "_session",
        "_sessions",
        "_transport",
        "_unproven_bytes",
    )

    def __init__(self, sessions: SessionList | None, connections: "set[asyncio.Protocol]") -> None:
        self._sessions = sessions
        self._connections = connections
        # Before the proof of an identity, the control plane buffers only as much as the proof
        # needs.
        self._protocol = ServerProtocol(max_size=_UNPROVEN_FRAME_BYTES_MAX, logger=_NO_LOG)
        self._transport: asyncio.Transport | None = None
        self._session: AgentSession | None = None
        # The bytes that arrived before the proof of an identity.
        self._unproven_bytes = 0
        # The alarm limits the time until the proof, and watches for silence after it.
        self._alarm: asyncio.TimerHandle | None = None
        self._received_s = 0.0
        self._is_pinged = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add the connection to those of the server; see `asyncio.Protocol`."""
        self._transport = transport  # type: ignore[assignment] # uvloop's transports are none
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session."""
        del exc
        self._connections.discard(self)
        self._note_proven()
        self._disarm()
        if self._session is not None:
            self._session.ended()

    def eof_received(self) -> bool | None:
        """Close the connection after the agent has closed its side; see `asyncio.Protocol`."""
        self._protocol.receive_eof()
        self._flush()
        return None

    def data_received(self, data: bytes) -> None:
        """Handle the frames in the received bytes."""
        if self._session is None or not self._session.is_authentic:
            self._unproven_bytes += len(data)
            if self._unproven_bytes > _UNPROVEN_BYTES_MAX:
                self._abort()
                return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._accept(event)
            elif isinstance(event, Frame):
                self._take(event)
        is_proven = self._session is not None and self._session.is_authentic
        if is_proven and self._protocol.max_message_size != AGENT_FRAME_BYTES_MAX:
            self._note_proven()
            self._protocol.max_message_size = AGENT_FRAME_BYTES_MAX
            self._watch_silence(SILENT_S_MAX)
        self._received_s = asyncio.get_running_loop().time()
        self._is_pinged = False
        self._flush()

    def shutdown(self) -> None:
        """Close the connection because the server stops; uvicorn calls this."""
        self._close(_RESTARTING, "the process is stopping; connect again")

    def _watch_silence(self, after_s: float) -> None:
        self._disarm()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(after_s, self._check_silence)

    def _check_silence(self) -> None:
        """Ping an agent that is silent, and close its connection if it does not answer.

        A frozen agent, or a host without power, would otherwise keep its session for as long as
        nothing is sent to it. A live agent that rarely sends heartbeats answers the ping.
        """
        silent_s = asyncio.get_running_loop().time() - self._received_s
        if silent_s < SILENT_S_MAX:
            self._watch_silence(SILENT_S_MAX - silent_s)
        elif not self._is_pinged:
            self._is_pinged = True
            self._watch_silence(SILENT_S_MAX)
            if self._protocol.state is State.OPEN:
                self._protocol.send_ping(b"")
                self._flush()
        elif self._session is not None:
            self._session.end(NORMAL, "the agent has stopped sending heartbeats")

    def _accept(self, request: Request) -> None:
        protocol = self._protocol
        if self._sessions is None or request.path.partition("?")[0] != PATH:
            protocol.send_response(protocol.reject(404, f"agents connect at {PATH}\n"))
            return
        if len(self._sessions.unproven) >= UNPROVEN_MAX:
            text = "too many agents connect at the same time; try again\n"
            protocol.send_response(protocol.reject(503, text))
            return
        response = protocol.accept(request)
        protocol.send_response(response)
        if protocol.state is not State.OPEN:
            return
        self._sessions.unproven.add(self)
        self._session = AgentSession(self._sessions, self._send, self._close)
        self._session.begin()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(
            PROOF_S_MAX, self._close, MALFORMED, "the proof of the host's identity took too long"
        )

    def _note_proven(self) -> None:
        """Make room for another connection that has to prove an identity."""
        if self._sessions is not None:
            self._sessions.unproven.discard(self)

    def _take(self, frame: Frame) -> None:
        """Pass a binary frame on; the protocol itself answers pings, and closes the connection."""
        if self._session is None:
            return
        if frame.opcode not in {Opcode.BINARY, Opcode.TEXT, Opcode.CONT}:
            # Pings count as well, because each is answered.
            self._session.receive_control(len(frame.data))
            return
        if frame.opcode is not Opcode.BINARY or not frame.fin:
            self._session.end(MALFORMED, "frames must be binary and unfragmented")
            return
        self._session.receive(bytes(frame.data))

    def _send(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            self._protocol.send_binary(data)
        except InvalidState:
            return  # the connection is closing, and the agent gets a new view in its next session
        self._flush()

    def _close(self, code: int, reason: str) -> None:
        self._disarm()
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason.encode()[:120].decode(errors="ignore"))
        self._flush()
        if self._transport is not None:
            self._transport.close()
            # Without this limit, an agent that does not read would keep its session forever.
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(_CLOSE_S_MAX, self._abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        transport = self._transport
        if transport is None:
            return
        # An agent that does not read must not fill the memory of the control plane.
        if transport.get_write_buffer_size() > _BUFFERED_BYTES_MAX:
            transport.abort()
            return
        # Each write is a system call and a TLS record, so everything that is due is written at
        # once. An empty piece, which is always the last one, ends the connection.
        pieces = self._protocol.data_to_send()
        data = b"".join(pieces)
        if data:
            transport.write(data)
        if pieces and not pieces[-1]:
            transport.close()

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def socket_class(sessions: SessionList | None) -> type[asyncio.Protocol]:
    """Return the class that uvicorn instantiates for each upgraded connection."""

    class Socket(AgentSocket):
        """A connection of this server."""

        __slots__ = ()

        def __init__(
            self,
            config: uvicorn.Config,
            server_state: ServerState,
            app_state: dict[str, object],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            del config, app_state
            super().__init__(sessions, server_state.connections)  # type: ignore[arg-type]

    return Socket
