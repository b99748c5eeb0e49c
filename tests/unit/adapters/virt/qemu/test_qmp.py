"""The QMP client, with a server that acts as QEMU."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from berth.adapters.virt.qemu.qmp import Message, Qmp, QmpError, QmpRefusedError

GREETING: dict[str, Any] = {"QMP": {"version": {}, "capabilities": []}}


class Server:
    """A server that greets its client and answers each command as the test specifies."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "qmp")
        self.commands: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], list[object]] = lambda one: [self.ok(one)]
        self.greets = True
        self.lines: asyncio.StreamWriter | None = None
        self.events: list[Message | None] = []
        self.client: Qmp | None = None

    @staticmethod
    def ok(command: dict[str, Any], value: object = None) -> object:
        """Return a successful answer."""
        return {"return": {} if value is None else value, "id": command["id"]}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        self.lines = writer
        if self.greets:
            self.write(GREETING)
        while line := await reader.readline():
            command = json.loads(line)
            self.commands.append(command)
            for message in self.answer(command):
                self.write(message)

    def write(self, message: object) -> None:
        """Send a message in two pieces."""
        assert self.lines is not None
        text = json.dumps(message).encode() + b"\r\n"
        self.lines.write(text[:5])
        self.lines.write(text[5:])

    async def connect(self, timeout_s: float = 5.0) -> Qmp:
        """Connect a client and return it."""
        self.client = Qmp(self.events.append)
        await self.client.connect(self.path, timeout_s=timeout_s)
        return self.client


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    """Yield a server that listens on a socket."""
    server = Server(tmp_path)
    listening = await asyncio.start_unix_server(server.serve, server.path)
    yield server
    if server.client is not None:
        await server.client.close()
    if server.lines is not None:
        server.lines.close()
    listening.close()
    await listening.wait_closed()


async def test_answers_go_to_who_asked(server: Server) -> None:
    """Each caller gets its own answer, whatever the order of answers and events."""
    qmp = await server.connect()
    waiting: list[dict[str, Any]] = []

    def in_reverse(command: dict[str, Any]) -> list[object]:
        waiting.append(command)
        if len(waiting) < 2:
            return [{"event": "STOP"}]
        return [server.ok(one, one["execute"]) for one in reversed(waiting)]

    server.answer = in_reverse
    first, second = await asyncio.gather(qmp.execute("one"), qmp.execute("two", {"a": 1}))
    assert (first, second) == ("one", "two")
    assert server.commands[-1]["arguments"] == {"a": 1}
    assert server.events == [{"event": "STOP"}]


async def test_a_refusal_says_why(server: Server) -> None:
    """The error has the refused command and QEMU's reason."""
    qmp = await server.connect()
    server.answer = lambda one: [{"error": {"class": "X", "desc": "not now"}, "id": one["id"]}]
    with pytest.raises(QmpError, match="balloon: not now"):
        await qmp.execute("balloon")


async def test_without_an_answer_somebody_waits_for_a_while(server: Server) -> None:
    """A call times out, and its late answer does not disturb later calls."""
    qmp = await server.connect()
    asked: list[dict[str, Any]] = []

    def note(command: dict[str, Any]) -> list[object]:
        asked.append(command)
        return []

    server.answer = note
    with pytest.raises(QmpError, match=r"slow: QEMU did not answer within 0\.05 s"):
        await qmp.execute("slow", timeout_s=0.05)
    server.write(server.ok(asked[0]))
    server.answer = lambda one: [server.ok(one, 7)]
    assert await qmp.execute("next") == 7


async def test_a_broken_connection_is_named_as_such(server: Server) -> None:
    """A connection that breaks while a command is sent is no QEMU that does not answer."""
    qmp = await server.connect()
    qmp._socket.shutdown(socket.SHUT_WR)
    with pytest.raises(QmpError, match=r"balloon: the connection to QEMU broke \(Broken pipe\)"):
        await qmp.execute("balloon")


async def test_the_end_of_qemu_is_told(server: Server) -> None:
    """The end of QEMU fails current and later commands and is published as an event."""
    qmp = await server.connect()

    def hang_up(command: dict[str, Any]) -> list[object]:
        assert server.lines is not None
        server.lines.close()
        return []

    server.answer = hang_up
    with pytest.raises(QmpError, match="ended"):
        await qmp.execute("quit")
    assert qmp.is_closed
    with pytest.raises(QmpError, match="ended"):
        await qmp.execute("query-status")
    assert server.events == [None]


async def test_a_second_client_waits_in_vain(server: Server) -> None:
    """A client that gets no greeting raises an error after its timeout."""
    server.greets = False
    with pytest.raises(QmpError, match="no greeting"):
        await server.connect(timeout_s=0.05)


async def test_nobody_may_be_there(tmp_path: Path) -> None:
    """Connecting to a missing socket raises an error."""
    qmp = Qmp(lambda _: None)
    with pytest.raises(QmpError, match="does not answer"):
        await qmp.connect(str(tmp_path / "none"), timeout_s=1)


async def test_nonsense_ends_the_connection(server: Server) -> None:
    """A line that is not valid JSON ends the connection."""
    qmp = await server.connect()
    assert server.lines is not None
    server.lines.write(b"{nonsense\n")
    with pytest.raises(QmpError, match="ended"):
        await qmp.execute("query-status")


async def test_a_descriptor_goes_with_its_command(tmp_path: Path) -> None:
    """A file descriptor is sent with its command and opens the same file at the receiver."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.setblocking(False)
    qmp = Qmp(lambda _: None)
    qmp._socket.close()
    qmp._socket = ours
    ours.setblocking(False)
    with (tmp_path / "file").open("w+") as file:
        await qmp._send(b'{"execute":"getfd"}\n', file.fileno())
        data, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        data += theirs.recv(100)
        os.write(fds[0], b"here")
        os.close(fds[0])
        assert (tmp_path / "file").read_text() == "here"
    assert data == b'{"execute":"getfd"}\n'
    theirs.close()
    await qmp.close()


async def test_a_qemu_that_takes_no_clients_is_about_to_end(tmp_path: Path) -> None:
    """A refused connection raises QmpRefusedError, which differs from that of a hung QEMU."""
    path = str(tmp_path / "qmp")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
    with pytest.raises(QmpRefusedError):
        await Qmp(lambda _: None).connect(path, timeout_s=1)
