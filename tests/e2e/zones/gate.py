"""A proxy to a zone that holds requests or answers until a test lets them pass."""

import asyncio
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

BUILDS = b"POST /v2.1/servers "
SELECTS = b"POST /zones/select "

_CAME_S = 60.0
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)\r\n")
_BYTES_MAX = 16 * 1024 * 1024


class Gate:
    """A proxy to one zone, made by `gate_to`; its methods may be called from any thread.

    A held request reaches the zone in the end, even if its sender has closed the connection.

    Attributes:
        url: URL for clients of the zone.
        delay_s: delay of all data, in each direction.
        loses_answer_of: the answer to the next request that contains this text is lost.
        target: host and port of the zone.
        writers: writers of all connections.
        lines: tasks that serve the connections.
        late: answers of the zone to requests that were held.
    """

    def __init__(self, target: tuple[str, int], loop: asyncio.AbstractEventLoop) -> None:
        self.url = ""
        self.delay_s = 0.0
        self.loses_answer_of: bytes | None = None
        self.late: list[bytes] = []
        self.target = target
        self._loop = loop
        self._holds: bytes | None = None
        self._holds_answers_of: bytes | None = None
        self._go = asyncio.Event()
        self._came = threading.Event()
        self.writers: set[asyncio.StreamWriter] = set()
        self.lines: set[asyncio.Task[None]] = set()

    def hold(self, *, requests: bytes | None = None, answers_of: bytes | None = None) -> None:
        """Hold the requests that contain a text, or the answers to such requests."""
        self.late.clear()
        self._came.clear()
        self.call(self._go.clear)
        self._holds, self._holds_answers_of = requests, answers_of

    def lose(self, *, answer_of: bytes) -> None:
        """Lose the answer to the next request that contains a text; the request arrives."""
        self.loses_answer_of = answer_of

    def wait(self) -> None:
        """Wait until a request or an answer is held."""
        assert self._came.wait(_CAME_S), "nothing arrived at the gate"

    def hold_no_more(self) -> None:
        """Hold no further requests and answers; those that are held stay so."""
        self._holds = self._holds_answers_of = None

    def open(self) -> None:
        """Let pass what is held and everything that comes later."""
        self._holds = self._holds_answers_of = None
        self.call(self._go.set)

    def cut(self) -> None:
        """Break all connections; a held request still reaches the zone later."""
        self.call(self.abort)

    def abort(self) -> None:
        """Break all connections; to be called in the gate's thread."""
        for writer in self.writers:
            writer.transport.abort()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; to be called in the gate's thread."""
        self.writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            self.writers.discard(writer)
            return
        self.writers.add(there_writer)
        try:
            await _Line(self).run((reader, writer), (there_reader, there_writer))
        finally:
            for one in (writer, there_writer):
                one.transport.abort()
                self.writers.discard(one)

    def holds(self, request: bytes) -> bool:
        """Return whether a request is to be held; to be called in the gate's thread."""
        return self._notes(self._holds, request)

    def holds_answer_of(self, request: bytes) -> bool:
        """Return whether the answer to a request is to be held; for the gate's thread."""
        return self._notes(self._holds_answers_of, request)

    def _notes(self, text: bytes | None, request: bytes) -> bool:
        if text is None or text not in request:
            return False
        self._came.set()
        return True

    async def opened(self) -> None:
        """Wait until the gate is open; to be called in the gate's thread."""
        await self._go.wait()

    async def pause(self) -> None:
        """Wait for the delay; to be called in the gate's thread."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)

    def call(self, what: Callable[[], object]) -> None:
        """Schedule a call in the gate's thread."""
        self._loop.call_soon_threadsafe(what)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    """The two directions of one connection."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._asked = b""
        self._is_lost = False
        self._late: asyncio.Task[None] | None = None

    async def run(self, near: Ends, there: Ends) -> None:
        """Pass data on until the zone ends the connection; then send the held request, if any."""
        sending = asyncio.create_task(self._send(near, there[1]))
        try:
            await self._receive(there[0], near[1])
        finally:
            sending.cancel()
            if self._late is not None:
                await self._late

    async def _send(self, near: Ends, writer: asyncio.StreamWriter) -> None:
        gate = self._gate
        with suppress(OSError, asyncio.IncompleteReadError):
            while data := await _request(near[0]):
                self._asked = data
                if gate.loses_answer_of is not None and gate.loses_answer_of in data:
                    gate.loses_answer_of, self._is_lost = None, True
                if gate.holds(data):
                    self._late = asyncio.create_task(self._send_late(data, near[1]))
                    await asyncio.shield(self._late)
                else:
                    await gate.pause()
                    writer.write(data)

    async def _send_late(self, data: bytes, near: asyncio.StreamWriter) -> None:
        """Send a request once the gate is open, on a new connection; the old one may be closed."""
        gate = self._gate
        await gate.opened()
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*gate.target)
            gate.writers.add(writer)
            try:
                # The connection serves one request only, so reading its answer ends.
                writer.write(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                while answer := await reader.read(65_536):
                    gate.late.append(answer)
                    near.write(answer)
            finally:
                gate.writers.discard(writer)
                writer.transport.abort()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = self._gate
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self._is_lost:
                    return
                if gate.holds_answer_of(self._asked):
                    await gate.opened()
                await gate.pause()
                writer.write(data)


async def _request(reader: asyncio.StreamReader) -> bytes:
    """Return one complete request, so it survives the end of its client."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if length is not None:
        return head + await reader.readexactly(int(length[1]))
    if b"chunked" in head:
        return head + await reader.readuntil(b"\r\n0\r\n\r\n")
    return head


@contextmanager
def gate_to(url: str) -> Generator[Gate]:
    """Run a gate to the zone at a URL, and yield it."""
    parts = urlsplit(url)
    target = parts.hostname or "127.0.0.1", parts.port or 80
    made: list[tuple[Gate, asyncio.Event]] = []
    began = threading.Event()

    async def run() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        gate = Gate(target, loop)

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = asyncio.create_task(gate.take(reader, writer))
            gate.lines.add(line)
            line.add_done_callback(gate.lines.discard)

        server = await asyncio.start_server(take, "127.0.0.1", 0, limit=_BYTES_MAX)
        gate.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        made.append((gate, ended))
        began.set()
        await ended.wait()
        server.close()
        gate.open()
        gate.abort()
        await asyncio.gather(*gate.lines, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="gate")
    thread.start()
    began.wait()
    gate, ended = made[0]
    try:
        yield gate
    finally:
        gate.call(ended.set)
        thread.join()
