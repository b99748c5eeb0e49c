"""HTTP on real sockets: how much a client may send before a request is complete, and how slowly."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.types import Receive, Scope, Send

from berth.adapters.gateway.websocket_server import socket_class
from berth.adapters.http_connections import ConnectionLimit
from berth.adapters.http_protocol import LimitedProtocol
from berth.adapters.http_server import (
    ConnectionPolicy,
    HttpConfig,
    HttpServer,
    TlsFiles,
    config_of,
    listening,
)
from berth.lab.certificates import write_certificate

UNREAD_BYTES_MAX = 4096
MESSAGE_S_MAX = 0.3
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def count(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body and the number of header fields; `/slow` takes longer."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(3 * MESSAGE_S_MAX)
    body = f"{length} {len(scope['headers'])}".encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Serve `count` under small limits and yield its port."""
    limited = partial(
        LimitedProtocol, unread_bytes_max=UNREAD_BYTES_MAX, message_s_max=MESSAGE_S_MAX
    )
    config = config_of(count)
    config.http = cast("Any", limited)
    async with serving_at(config) as port:
        yield port


@asynccontextmanager
async def serving_at(config: HttpConfig, **limits: float) -> AsyncGenerator[int]:
    """Serve an application within the context, and yield its port."""
    server = HttpServer(config, **limits)
    with listening("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        await serving


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *parts: bytes, pause_s: float = 0.0) -> None:
        """Send the parts one after another; parts that the server no longer reads are lost."""
        for part in parts:
            self._writer.write(part)
            await asyncio.sleep(pause_s)

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next answer; 0 if the connection is closed."""
        try:
            head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 20)
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, b""
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return int(head.split(b" ")[1]), await self._reader.readexactly(int(length))

    async def status(self) -> int:
        """Return the status of the next answer; 0 if the connection is closed."""
        try:
            head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 20)
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        return int(head.split(b" ")[1])

    def abort(self) -> None:
        """Close the connection without delay."""
        self._writer.transport.abort()


@pytest.fixture
async def client(port: int) -> AsyncIterator[Client]:
    """Yield a client that is connected to the server."""
    async with connected(port) as client:
        yield client


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Client]:
    """Yield a client that is connected to a server, with TLS if a context is given."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    yield Client(reader, writer)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET /", b"a" * 100),
        (GET + b"X: ", b"a" * 100),
        (GET, b"X: a\r\n"),
        (POST + b"1;", b"a" * 100),
        (POST + b"1\r\na\r\n0\r\nX: ", b"a" * 100),
        (POST + b"1\r\na\r\n0\r\n", b"X: a\r\n"),
        (b"", b"\r\n" * 50),
    ],
    ids=["path", "field", "fields", "chunk extension", "trailer", "trailers", "line feeds"],
)
async def test_what_never_becomes_a_request_is_not_kept(
    client: Client, begin: bytes, piece: bytes
) -> None:
    """A request head or chunk that grows too long gets 431, and the connection is closed."""
    await client.send(begin, pause_s=0.05)
    await client.send(piece * (UNREAD_BYTES_MAX // len(piece) + 1))
    status, body = await client.answer()
    assert status == 431
    (error,) = json.loads(body)["errors"]
    assert (error["status"], f"More than {UNREAD_BYTES_MAX} bytes" in error["detail"]) == (
        431,
        True,
    )
    assert await client.answer() == (0, b"")


@pytest.mark.parametrize("begin", [b"", b"GET /", GET + b"X: ", b"\r\n"])
async def test_a_head_that_does_not_come_is_not_waited_for(client: Client, begin: bytes) -> None:
    """A connection whose head is late is closed, even if bytes arrive one by one."""
    began_s = asyncio.get_running_loop().time()
    await client.send(begin)
    piece = b"\r\n" if begin == b"\r\n" else b"a"
    drops = [piece] * 400 if begin else []
    async with asyncio.TaskGroup() as tasks:
        dripping = tasks.create_task(client.send(*drops, pause_s=0.02))
        assert await client.answer() == (0, b"")
        dripping.cancel()
    assert asyncio.get_running_loop().time() - began_s < 10 * MESSAGE_S_MAX


async def test_the_next_request_on_a_connection_has_the_same_limits(client: Client) -> None:
    """Limits apply to each request of a connection anew."""
    for _ in range(3):
        await client.send(GET + b"X: " + b"a" * (UNREAD_BYTES_MAX - 100) + b"\r\n\r\n")
        assert await client.answer() == (200, b"0 2")
    await client.send(GET + b"X: ", *(b"a" for _ in range(400)), pause_s=0.005)
    assert await client.answer() == (0, b"")


async def test_a_body_may_be_long_and_take_its_time(client: Client) -> None:
    """The protocol limits neither the length nor the time of a body, nor the time of an answer."""
    piece = b"64\r\n" + b"a" * 100 + b"\r\n"
    pieces = [piece * 50 for _ in range(10)]
    await client.send(POST, *pieces, pause_s=MESSAGE_S_MAX / 5)
    await client.send(b"0\r\n\r\n")
    assert await client.answer() == (200, b"50000 2")
    await client.send(GET.replace(b"/ ", b"/slow ") + b"\r\n")
    assert await client.answer() == (200, b"0 1")


async def test_what_trails_a_body_is_no_header(client: Client) -> None:
    """Trailers of a body are not added to the headers."""
    await client.send(POST + b"2\r\nab\r\n0\r\nX-Roles: admin\r\n\r\n")
    assert await client.answer() == (200, b"2 2")


async def test_idle_connections_make_room() -> None:
    """A client that only connects does not keep others away, nor end requests in progress."""
    closed: list[str] = []
    policy = ConnectionPolicy(limit=ConnectionLimit(3, closed.append))
    async with (
        serving_at(config_of(count, connections=policy)) as port,
        AsyncExitStack() as stack,
        connected(port) as slow,
    ):
        await slow.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", pause_s=0.05)
        idle = [await stack.enter_async_context(connected(port)) for _ in range(6)]
        new = await stack.enter_async_context(connected(port))
        await new.send(GET + b"\r\n")
        assert await new.answer() == (200, b"0 1")
        assert await slow.answer() == (200, b"0 1")
        await new.send(GET + b"\r\n")
        assert await new.answer() == (200, b"0 1")
        assert await idle[0].answer() == (0, b"")
        assert closed == ["idle"] * 5


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    """Write a certificate and its key, and return their files."""
    files = TlsFiles(tmp_path / "certificate.pem", tmp_path / "key.pem")
    write_certificate(files.certificate, files.key)
    return files


async def test_handshakes_count_as_connections(tls: TlsFiles) -> None:
    """Clients that never begin TLS are limited like idle connections, and end at a deadline."""
    closed: list[str] = []
    limit = ConnectionLimit(3, closed.append)
    config = config_of(count, tls, connections=ConnectionPolicy(limit=limit))
    async with serving_at(config, handshake_s_max=MESSAGE_S_MAX) as port, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(port)) for _ in range(6)]
        assert await silent[0].answer() == (0, b"")
        assert (len(limit), closed) == (3, ["idle"] * 3)
        async with connected(port, ssl.create_default_context(cafile=tls.certificate)) as client:
            await client.send(GET, b"\r\n")
            assert await client.answer() == (200, b"0 1")
            assert [await one.answer() for one in silent] == [(0, b"")] * 6
            await client.send(GET + b"\r\n")
            assert await client.answer() == (200, b"0 1")
            assert len(limit) == 1
        strange = await stack.enter_async_context(connected(port))
        await strange.send(GET + b"\r\n")
        assert (await strange.answer())[0] == 0
        await stack.enter_async_context(connected(port))
    assert len(limit) == 0


async def test_clients_that_make_the_server_wait_make_room() -> None:
    """Clients that withhold a body or do not read responses give way to new connections."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/body":
            await receive()
        headers = [(b"content-length", b"4000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(40):
            message = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}
            await send(message)
        await send({"type": "http.response.body", "body": b""})

    closed: list[str] = []
    policy = ConnectionPolicy(limit=ConnectionLimit(4, closed.append))
    async with (
        serving_at(config_of(respond, connections=policy)) as port,
        AsyncExitStack() as stack,
    ):
        for number in range(8):
            client = await stack.enter_async_context(connected(port))
            head = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
            await client.send(head if number % 2 else GET + b"\r\n", pause_s=0.1)
        assert closed == ["idle"] * 4


CONSOLE = (
    b"GET /%s?token=x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n\r\n"
)


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept every console except `/check`, whose token is never checked; answer HTTP like `count`.

    `/end` ends at once. `/much` sends until the client leaves.
    """
    if scope["type"] != "websocket":
        await count(scope, receive, send)
        return
    await receive()
    if scope["path"] != "/check":
        await send({"type": "websocket.accept"})
    while scope["path"] == "/much":
        await send({"type": "websocket.send", "bytes": bytes(100_000)})
    if scope["path"] == "/end":
        await send({"type": "websocket.close"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def test_consoles_count_as_connections() -> None:
    """They give way only while their tokens are being checked, and after they have ended."""
    closed: list[str] = []
    limit = ConnectionLimit(3, closed.append)
    config = config_of(relay, sockets=socket_class(None), connections=ConnectionPolicy(limit=limit))
    async with serving_at(config) as port, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(port)) for _ in range(3)]
        for client in clients:
            await client.send(CONSOLE % b"check", pause_s=0.1)
        assert len(limit) == 3
        opened = [await stack.enter_async_context(connected(port)) for _ in range(3)]
        for client in opened:
            await client.send(CONSOLE % b"open")
            assert await client.status() == 101
        assert [await client.status() for client in clients] == [0] * 3
        assert (len(limit), closed) == (3, ["idle"] * 3)
        async with connected(port) as refused:
            await refused.send(GET + b"\r\n")
            assert await refused.answer() == (0, b"")
        opened[0].abort()
        await asyncio.sleep(0.1)
        ended = await stack.enter_async_context(connected(port))
        await ended.send(CONSOLE % b"end")
        assert await ended.status() == 101
        async with connected(port) as client:
            await client.send(GET + b"\r\n")
            assert await client.answer() == (200, b"0 1")
        assert closed == ["idle"] * 3 + ["refused", "idle"]
    assert len(limit) == 0


async def test_a_console_that_is_not_read_ends() -> None:
    """A client that answers no ping is disconnected, although it has not read everything."""
    limit = ConnectionLimit(3)
    config = config_of(relay, sockets=socket_class(None), connections=ConnectionPolicy(limit=limit))
    config.ws_ping_interval = config.ws_ping_timeout = MESSAGE_S_MAX
    async with serving_at(config) as port, connected(port) as client:
        await client.send(CONSOLE % b"much", pause_s=0.1)
        assert len(limit) == 1
        async with asyncio.timeout(10):
            while len(limit):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)


async def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    """A connection whose client reads nothing is closed, although its request is in progress."""
    limited = partial(
        LimitedProtocol, unread_bytes_max=UNREAD_BYTES_MAX, message_s_max=MESSAGE_S_MAX
    )
    ended = asyncio.Event()

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            message = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}
            await send(message)
        ended.set()

    config = config_of(respond)
    config.http = cast("Any", limited)
    async with serving_at(config) as port, connected(port) as client:
        await client.send(GET + b"\r\n")
        async with asyncio.timeout(10):
            await ended.wait()


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        ((), b"10.9.9.9", b"127.0.0.1"),
        (("10.0.0.1",), b"10.9.9.9", b"127.0.0.1"),
        (("127.0.0.1",), b"10.9.9.9", b"10.9.9.9"),
        (("127.0.0.0/8", "10.0.0.0/24"), b"10.9.9.9, 10.8.8.8, 10.0.0.7", b"10.8.8.8"),
    ],
    ids=["no proxy is trusted", "another proxy", "a proxy", "two proxies and a forged address"],
)
async def test_only_trusted_proxies_name_clients(
    proxies: tuple[str, ...], forwarded: bytes, expected: bytes
) -> None:
    """X-Forwarded-For counts only from trusted proxies, and only what they added themselves."""

    async def name_client(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        body = scope["client"][0].encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    policy = ConnectionPolicy(trusted_proxies=proxies)
    async with (
        serving_at(config_of(name_client, connections=policy)) as port,
        connected(port) as client,
    ):
        await client.send(GET + b"X-Forwarded-For: " + forwarded + b"\r\n\r\n")
        assert await client.answer() == (200, expected)
