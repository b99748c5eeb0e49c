"""The server's end of a WebSocket: what strangers and slow or noisy agents can cost."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from berth.adapters.gateway import wire
from berth.adapters.gateway.websocket_server import (
    PATH,
    SILENT_S_MAX,
    UNPROVEN_MAX,
    AgentSocket,
)
from tests.unit.adapters.gateway.rig import Agent, Plane, open_plane

MIB = 1024 * 1024


class Transport:
    """A transport that records what is written to it, and may pretend that nobody reads it."""

    def __init__(self) -> None:
        self.sent = b""
        self.writes = 0
        self.unread = 0
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        """Record the data."""
        self.sent += data
        self.writes += 1

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the peer has not read."""
        return self.unread

    def is_closing(self) -> bool:
        """Return whether the transport was closed."""
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        """Close after everything is sent, which never happens while the peer does not read."""
        self.is_closed = True

    def abort(self) -> None:
        """Close now."""
        self.is_aborted = True


class Client:
    """The client's end of a connection, without a network."""

    def __init__(self, plane: Plane, path: str = PATH) -> None:
        self.transport = Transport()
        self.connections: set[asyncio.Protocol] = set()
        self.socket = AgentSocket(plane.sessions, self.connections)
        self.socket.connection_made(cast("asyncio.BaseTransport", self.transport))
        self.protocol = ClientProtocol(parse_uri(f"ws://control{path}"), max_size=64 * MIB)
        self.protocol.send_request(self.protocol.connect())
        self.hello = [one for one in self.flush() if isinstance(one, Frame)]

    def flush(self) -> list[object]:
        """Pass data on in both directions, and return what the client received."""
        for data in self.protocol.data_to_send():
            self.socket.data_received(data)
        sent, self.transport.sent = self.transport.sent, b""
        self.protocol.receive_data(sent)
        return list(self.protocol.events_received())

    def prove(self, agent: Agent) -> None:
        """Prove the identity of an agent."""
        (frame,) = self.hello
        hello = wire.control_frame_of(bytes(frame.data))
        assert isinstance(hello, wire.Hello)
        signature = agent.key.sign(wire.proof_text(agent.host, "s", hello.nonce))
        self.protocol.send_binary(
            wire.encode(wire.Proof(wire.PROTOCOL, agent.host, "s", signature))
        )
        self.flush()


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    """Return a control plane with two hosts."""
    return await open_plane(tmp_path)


async def connected(plane: Plane) -> tuple[Client, Agent]:
    """Return a client that has proven the identity of a host."""
    agent = await plane.agent("host-1")
    client = Client(plane)
    client.prove(agent)
    assert "host-1" in plane.sessions.by_host
    return client, agent


async def test_agents_connect_at_one_path(plane: Plane) -> None:
    """An upgrade at another path is refused."""
    client = Client(plane, "/elsewhere")
    client.flush()
    assert client.protocol.handshake_exc is not None
    assert "404" in str(client.protocol.handshake_exc)


async def test_the_first_frame_comes_with_the_response(plane: Plane) -> None:
    """The response to the upgrade and the first frame of the session are written together."""
    client = Client(plane)
    assert len(client.hello) == 1
    assert client.transport.writes == 1


async def test_a_stranger_can_send_little(plane: Plane) -> None:
    """A connection without a proof is cut off after 16 KiB, whatever frames it sends."""
    client = Client(plane)
    for _ in range(1_000):
        client.protocol.send_ping(b"x" * 100)
        client.flush()
        if client.transport.is_aborted:
            break
    assert client.transport.is_aborted


async def test_a_stranger_has_ten_seconds(plane: Plane) -> None:
    """A connection without a proof is closed after 10 s."""
    client = Client(plane)
    await asyncio.sleep(9)
    assert not client.transport.is_closing()
    await asyncio.sleep(2)
    assert client.transport.is_closing()


async def test_agents_that_all_connect_at_once_wait_for_each_other(plane: Plane) -> None:
    """Connections beyond a number are refused until others have proven an identity or are lost."""
    agent = await plane.agent("host-1")
    clients = [Client(plane) for _ in range(UNPROVEN_MAX)]
    assert all(client.hello for client in clients)
    refused = Client(plane)
    assert not refused.hello
    assert isinstance(refused.protocol.handshake_exc, InvalidStatus)
    assert refused.protocol.handshake_exc.response.status_code == 503
    clients[0].prove(agent)
    assert Client(plane).hello
    assert not Client(plane).hello
    clients[1].socket.connection_lost(None)
    assert Client(plane).hello
    assert not Client(plane).hello


async def test_pings_count_as_frames(plane: Plane) -> None:
    """A flood of pings ends the session of a host, like a flood of other frames."""
    client, _ = await connected(plane)
    for _ in range(5_000):
        client.protocol.send_ping(b"x")
        client.flush()
        if client.transport.is_closing():
            break
    assert client.transport.is_closing()


async def test_an_agent_that_does_not_read_is_cut_off(plane: Plane) -> None:
    """A connection with too much unread data is aborted, and so is one that does not close."""
    client, _ = await connected(plane)
    client.transport.unread = 200 * MIB
    client.protocol.send_binary(wire.encode(wire.Beat(wants_echo=True)))
    client.flush()
    assert client.transport.is_aborted
    slow, _ = await connected(plane)
    slow.socket.shutdown()
    assert slow.transport.is_closed
    assert not slow.transport.is_aborted
    await asyncio.sleep(6)
    assert slow.transport.is_aborted


async def test_a_silent_agent_is_pinged_and_then_cut_off(plane: Plane) -> None:
    """An agent that answers pings keeps its session; one that is frozen loses it."""
    client, _ = await connected(plane)
    await asyncio.sleep(1.5 * SILENT_S_MAX)
    frames = client.flush()  # the client's protocol answers the ping
    assert [one.opcode for one in frames if isinstance(one, Frame)][-1] is Opcode.PING
    client.flush()
    await asyncio.sleep(1.2 * SILENT_S_MAX)
    assert not client.transport.is_closing()
    await asyncio.sleep(2 * SILENT_S_MAX)
    assert client.transport.is_closed
    (*_, closing) = client.flush()
    assert isinstance(closing, Frame)
    assert b"stopped sending heartbeats" in closing.data


async def test_a_lost_connection_leaves_nothing(plane: Plane) -> None:
    """The session and the connection are forgotten, and no timer stays."""
    client, _ = await connected(plane)
    client.socket.shutdown()
    client.socket.connection_lost(None)
    assert not plane.sessions.by_host
    assert not client.connections
    await asyncio.sleep(6)
    assert not client.transport.is_aborted
