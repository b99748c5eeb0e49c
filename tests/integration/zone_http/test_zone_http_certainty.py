"""Requests to child zones over HTTP: timeouts, kept connections, and failures before sending."""

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from berth.adapters.zones import connections, open_children
from berth.adapters.zones.connections import CONNECTIONS_MAX
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.zones.zone import Zone
from berth.lab.loopback import free_port
from berth.ports.zones import ForwardedRequest, NotAskedError
from tests.integration.zone_http.scripted_http import (
    Answering,
    Received,
    always,
    answer_of,
    hang_up,
    never,
    scripted,
)
from tests.integration.zone_http.zone_asking import GET, Writer, ask, both, zone_at


async def test_a_slow_answer_is_waited_for_within_the_time() -> None:
    """An answer that arrives byte by byte in time is read."""

    async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
        for byte in answer_of(b"slow"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with both(drip) as (children, _, zone):
        assert (await ask(children, zone)).body == b"slow"


@pytest.mark.parametrize(
    "answering", [never, always(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nha")]
)
async def test_no_answer_in_time_leaves_open_what_became_of_it(answering: Answering) -> None:
    """A timeout after sending raises no NotAskedError and closes the connection."""
    async with both(answering) as (children, server, zone):
        with pytest.raises(UnavailableError, match=r"no response within 0\.2 s") as caught:
            await ask(children, zone, timeout_s=0.2)
        assert not isinstance(caught.value, NotAskedError)
        await asyncio.wait_for(server.is_left.wait(), 5.0)


async def test_who_stops_waiting_closes_the_connection() -> None:
    """A cancelled request closes its connection."""
    async with both(never) as (children, server, zone):
        task = asyncio.create_task(ask(children, zone))
        await asyncio.wait_for(server.is_asked.wait(), 5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.is_left.wait(), 5.0)


async def test_a_body_that_nobody_reads_is_dropped_with_its_connection() -> None:
    """A request whose body is not read times out, and its connection is closed."""
    is_over, is_left = asyncio.Event(), asyncio.Event()

    async def read_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        with suppress(ConnectionError):
            while not writer.is_closing():  # writing fails once the client has left
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()
        is_left.set()

    listener = await asyncio.start_server(read_nothing, "127.0.0.1", 0)
    zone = zone_at(listener.sockets[0].getsockname()[1])
    asked = ForwardedRequest("POST", "/", {}, bytes(16 * 1024 * 1024))
    async with open_children(Writer(), password_of=lambda _: "") as children:
        with pytest.raises(UnavailableError, match=r"no response within 0\.2 s"):
            await ask(children, zone, asked, timeout_s=0.2)
        is_over.set()
        await asyncio.wait_for(is_left.wait(), 5.0)
    listener.close()


async def test_where_nobody_listens_nothing_was_asked() -> None:
    """A refused connection raises NotAskedError."""
    async with open_children(Writer(), password_of=lambda _: "") as children:
        with pytest.raises(NotAskedError, match="zone west: "):
            await ask(children, zone_at(free_port()))


@pytest.mark.parametrize(
    "url",
    [
        "http://no-such-host.invalid",
        "http://" + "x" * 70 + ".invalid",
        "http://a b/",
        "http://ä.invalid/",
        "http://127.0.0.1:1/a b",
        "http://[::1",
    ],
)
async def test_an_address_that_leads_nowhere_means_that_nothing_was_asked(url: str) -> None:
    """Unknown host names and invalid URLs raise NotAskedError."""
    async with open_children(Writer(), password_of=lambda _: "") as children:
        with pytest.raises(NotAskedError):
            await ask(children, Zone(1, "west", url))


@pytest.mark.parametrize(
    ("url", "username", "reason"),
    [
        ("http://[::1", "", "its URL is invalid; its form is https://HOST:PORT/PATH"),
        ("http://west:70000", "", "its URL is invalid; its form is https://HOST:PORT/PATH"),
        ("ftp://west", "", "its URL must begin with http:// or https://"),
        ("http:///zone", "", "its URL must name a host"),
        ("http://me@west", "", "its URL must not contain an account; set it separately"),
        ("http://west/a b", "", "its URL must contain only printable ASCII without spaces"),
        ("http://west", "me:you", "the username of its account must not contain a colon"),
    ],
)
async def test_an_unusable_zone_is_refused_with_the_reason(
    url: str, username: str, reason: str
) -> None:
    """The error names the zone, and the part of its record that must be changed."""
    async with open_children(Writer(), password_of=lambda _: "secret") as children:
        with pytest.raises(NotAskedError, match=f"^{re.escape(f'zone west: {reason}')}$"):
            await ask(children, Zone(1, "west", url, username=username))


async def test_a_name_is_looked_up_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent and repeated requests share one lookup of a host name."""
    loop, asked, is_known = asyncio.get_running_loop(), list[object](), asyncio.Event()

    async def look(host: object, *_: object, **__: object) -> list[object]:
        asked.append(host)
        await is_known.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    async with both(always(answer_of())) as (children, server, _):
        zone = Zone(1, "west", f"http://west.invalid:{server.port}")
        monkeypatch.setattr(connections, "look_up", look)
        for _ in range(3):
            with pytest.raises(NotAskedError, match="no response"):
                await ask(children, zone, timeout_s=0.05)
        assert asked == ["west.invalid"]
        loop.call_later(0.05, is_known.set)
        assert (await ask(children, zone)).status == 200
        assert server.requests[0].headers["host"] == f"west.invalid:{server.port}"
        await asyncio.gather(*(ask(children, zone) for _ in range(3)))
        assert asked == ["west.invalid"]


async def test_all_addresses_of_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of a name are tried in turn until one accepts a connection."""

    async def look(*_: object, **__: object) -> list[object]:
        numbers = ("127.0.0.7", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in numbers]

    monkeypatch.setattr(connections, "look_up", look)
    async with both(always(answer_of())) as (children, server, _):
        zone = Zone(1, "west", f"http://west.invalid:{server.port}")
        assert (await ask(children, zone)).status == 200


async def test_a_connection_that_does_not_come_about_in_time_means_that_nothing_was_asked() -> None:
    """A TLS handshake that does not end in time raises NotAskedError."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        zone = zone_at(silent.getsockname()[1], scheme="https")
        async with open_children(Writer(), password_of=lambda _: "") as children:
            with pytest.raises(NotAskedError, match=r"no response within 0\.2 s"):
                await ask(children, zone, timeout_s=0.2)


async def test_a_server_that_speaks_no_tls_was_not_asked() -> None:
    """A server without TLS raises NotAskedError for an https URL and gets no request."""
    async with both(never) as (children, server, _):
        with pytest.raises(NotAskedError):
            await ask(children, zone_at(server.port, scheme="https"), timeout_s=0.3)
        assert server.requests == []


async def test_who_gets_no_turn_has_not_asked() -> None:
    """A request that waits for one of `CONNECTIONS_MAX` connections raises NotAskedError."""
    is_full = asyncio.Event()

    async def take(_: Received, __: asyncio.StreamWriter) -> None:
        if len(server.requests) == CONNECTIONS_MAX:
            is_full.set()

    async with both(take) as (children, server, zone):
        waits = [asyncio.create_task(ask(children, zone)) for _ in range(CONNECTIONS_MAX)]
        await asyncio.wait_for(is_full.wait(), 5.0)
        with pytest.raises(NotAskedError, match=r"no response within 0\.3 s"):
            await ask(children, zone, timeout_s=0.3)
        waits[0].cancel()
        with pytest.raises(UnavailableError) as caught:
            await ask(children, zone, timeout_s=0.3)
        assert not isinstance(caught.value, NotAskedError)
        await children.close()
        ended = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(one) for one in ended} == {asyncio.CancelledError, UnavailableError}
        assert len(server.requests) == CONNECTIONS_MAX + 1


async def test_a_zone_whose_password_cannot_be_read_has_as_many_turns() -> None:
    """The limit of connections also holds for a zone with an account and an empty password."""
    async with (
        scripted(never) as server,
        open_children(Writer(), password_of=lambda _: "") as children,
    ):
        zone = zone_at(server.port, username="parent")
        waits = [asyncio.create_task(ask(children, zone)) for _ in range(CONNECTIONS_MAX)]
        while len(server.requests) < CONNECTIONS_MAX:
            server.is_asked.clear()
            await asyncio.wait_for(server.is_asked.wait(), 5.0)
        with pytest.raises(NotAskedError, match=r"no response within 0\.3 s"):
            await ask(children, zone, timeout_s=0.3)
        await children.close()
        await asyncio.gather(*waits, return_exceptions=True)
        assert server.connections == CONNECTIONS_MAX


async def test_once_closed_nobody_is_asked_and_who_waits_is_told() -> None:
    """Closing ends waiting requests with UnavailableError and refuses new ones."""
    async with both(never) as (children, server, zone):
        waits = asyncio.create_task(ask(children, zone))
        await asyncio.wait_for(server.is_asked.wait(), 5.0)
        await children.close()
        with pytest.raises(UnavailableError, match="closed before a response arrived"):
            await waits
        with pytest.raises(NotAskedError, match="this process is shutting down"):
            await ask(children, zone)
        assert len(server.requests) == 1


async def test_who_waits_by_an_older_record_is_told_at_the_end() -> None:
    """Closing also ends a request that was sent under an older record of the zone."""
    async with both(never) as (children, server, zone):
        waits = asyncio.create_task(ask(children, zone))
        await asyncio.wait_for(server.is_asked.wait(), 5.0)
        with pytest.raises(UnavailableError, match="no response"):
            await ask(children, zone_at(server.port, prefix="/moved"), timeout_s=0.1)
        await children.close()
        with pytest.raises(UnavailableError, match="closed before a response arrived"):
            await waits


async def test_who_reads_an_answer_at_the_end_is_told() -> None:
    """Closing ends a request whose answer is half read."""
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"
    is_written = asyncio.Event()

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(half)
        await writer.drain()
        is_written.set()

    async with both(answer) as (children, _, zone):
        waits = asyncio.create_task(ask(children, zone))
        await asyncio.wait_for(is_written.wait(), 5.0)
        await children.close()
        with pytest.raises(UnavailableError, match="closed before"):
            await waits


async def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    """A CA file without certificates is refused, and the error names the setting."""
    (tmp_path / "ca").write_text("nothing")
    with pytest.raises(InvalidInputError, match=r"zones\.ca_file"):
        async with open_children(Writer(), password_of=lambda _: "", ca_file=tmp_path / "ca"):
            pass


# ---- kept connections -------------------------------------------------------------------------


async def test_a_connection_is_kept_and_used_again() -> None:
    """Sequential requests share a connection; concurrent ones have one each."""
    async with both(always(answer_of())) as (children, server, zone):
        for _ in range(3):
            await ask(children, zone)
        assert server.connections == 1
        await asyncio.gather(*(ask(children, zone) for _ in range(5)))
        assert server.connections == 5


@pytest.mark.parametrize(
    "raw",
    [
        answer_of(more="connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        answer_of() + answer_of(b"this is for the next one"),
    ],
)
async def test_a_connection_that_cannot_be_trusted_any_more_is_not_kept(raw: bytes) -> None:
    """A connection is not kept after `close`, HTTP/1.0 or surplus bytes."""
    async with both(always(raw)) as (children, server, zone):
        for _ in range(2):
            assert (await ask(children, zone)).body in {b"{}", b""}
        assert server.connections == 2


@pytest.mark.parametrize(
    "raw", [answer_of(more="content-encoding: gzip\r\n"), answer_of(more="x: y\r\n" * 200)]
)
async def test_a_connection_with_an_answer_that_is_refused_is_not_kept(raw: bytes) -> None:
    """A connection is not kept after a refused answer, since more bytes may follow."""
    async with both(always(raw)) as (children, server, zone):
        for _ in range(2):
            with pytest.raises(UnavailableError):
                await ask(children, zone)
        assert server.connections == 2


async def test_what_comes_unasked_is_no_answer_to_the_next_request() -> None:
    """Bytes that arrive between requests are not taken for the next answer."""
    is_answered, is_forged = asyncio.Event(), asyncio.Event()

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.connection == 1:
            writer.write(answer_of(b"first"))
            await is_answered.wait()
            writer.write(answer_of(b"forged"))
            await writer.drain()
            is_forged.set()
        else:
            await is_forged.wait()
            writer.write(answer_of(b"honest"))

    async with both(answer) as (children, server, zone):
        assert (await ask(children, zone)).body == b"first"
        is_answered.set()
        # Bytes that were sent before this answer have arrived as well.
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(reader.readexactly(len(answer_of(b"honest"))), 5.0)
        writer.close()
        assert (await ask(children, zone)).body == b"honest"
        assert [one.connection for one in server.requests] == [1, 2, 3]


async def test_a_zone_with_another_record_is_asked_anew() -> None:
    """A zone with a changed record gets new connections; old ones close after their requests."""
    is_changed = asyncio.Event()

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.connection == 1:
            await is_changed.wait()
        writer.write(answer_of())

    async with both(answer) as (children, server, zone):
        waits = asyncio.create_task(ask(children, zone))
        await asyncio.wait_for(server.is_asked.wait(), 5.0)
        assert (await ask(children, zone_at(server.port, prefix="/moved"))).status == 200
        is_changed.set()
        assert (await waits).status == 200
        await asyncio.wait_for(server.is_left.wait(), 5.0)
    assert [one.line for one in server.requests] == [
        "POST /zones/select HTTP/1.1",
        "POST /moved/zones/select HTTP/1.1",
    ]
    assert server.connections == 2


async def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle connection is closed by the client."""
    monkeypatch.setattr(connections, "IDLE_S", 0.05)
    async with both(always(answer_of())) as (children, server, zone):
        await ask(children, zone)
        await asyncio.wait_for(server.is_left.wait(), 5.0)
        await ask(children, zone)
        assert server.connections == 2


async def test_a_kept_connection_that_has_ended_is_not_used() -> None:
    """A kept connection that the server has ended is not used again."""
    async with both(always(answer_of())) as (children, server, zone):
        await ask(children, zone)
        server.end()
        await asyncio.wait_for(server.is_left.wait(), 5.0)
        await ask(children, zone)
        assert server.connections == 2


def _ending_at_second() -> Answering:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.connection == 1 and request.headers["x-number"] == "2":
            writer.close()
        else:
            writer.write(answer_of(request.headers["x-number"].encode()))

    return answer


async def test_reading_is_tried_again_when_a_kept_connection_ends() -> None:
    """A GET on a kept connection that ends is retried on a new one, with a new statement."""
    async with both(_ending_at_second()) as (children, server, zone):
        for number in "12":
            asked = ForwardedRequest("GET", "/", {"X-Number": number})
            assert (await ask(children, zone, asked)).body == number.encode()
    assert [one.connection for one in server.requests] == [1, 1, 2]
    statements = [one.headers["x-berth-zone-statement"] for one in server.requests]
    assert len(set(statements)) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_writing_is_never_tried_again(method: str) -> None:
    """The zone may have done it before the connection ended."""
    async with both(_ending_at_second()) as (children, server, zone):
        await ask(children, zone, ForwardedRequest(method, "/", {"X-Number": "1"}))
        with pytest.raises(UnavailableError) as caught:
            await ask(children, zone, ForwardedRequest(method, "/", {"X-Number": "2"}))
        assert not isinstance(caught.value, NotAskedError)
        assert len(server.requests) == 2


async def test_reading_on_a_new_connection_is_not_tried_again() -> None:
    """A GET is not retried if a new connection ends without an answer."""
    async with both(hang_up) as (children, server, zone):
        with pytest.raises(UnavailableError, match="closed before a response arrived"):
            await ask(children, zone, GET)
        assert len(server.requests) == 1


async def test_reading_is_tried_again_only_once() -> None:
    """A server that always hangs up is asked on one kept connection and one new one."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 1:
            writer.write(answer_of())
        else:
            writer.close()

    async with both(answer) as (children, server, zone):
        await ask(children, zone, GET)
        with pytest.raises(UnavailableError, match="closed before a response arrived"):
            await ask(children, zone, GET)
        assert len(server.requests) == 3


# ---- certificates -----------------------------------------------------------------------------


def certify(folder: Path) -> ssl.SSLContext:
    """Write a certificate for 127.0.0.1 to `folder/ca`, and return a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "west")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca", folder / "key")
    return context


async def test_a_zone_with_a_certificate_that_is_known_is_asked(tmp_path: Path) -> None:
    """A zone whose certificate the CA file verifies is asked, and its connection is kept."""
    context = certify(tmp_path)
    async with (
        scripted(always(answer_of(b"secret")), context) as server,
        open_children(Writer(), password_of=lambda _: "", ca_file=tmp_path / "ca") as children,
    ):
        zone = zone_at(server.port, scheme="https")
        for _ in range(2):
            assert (await ask(children, zone)).body == b"secret"
        assert server.connections == 1


async def test_a_secured_connection_is_not_kept_when_a_request_may_be_unsent(
    tmp_path: Path,
) -> None:
    """A TLS connection is not kept when the server answered before it had read the body."""
    context, is_over = certify(tmp_path), asyncio.Event()
    connections: list[asyncio.StreamWriter] = []

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer_of(b"early"))
        await is_over.wait()
        writer.close()

    listener = await asyncio.start_server(answer_early, "127.0.0.1", 0, ssl=context)
    zone = zone_at(listener.sockets[0].getsockname()[1], scheme="https")
    long = ForwardedRequest("POST", "/", {}, bytes(16 * 1024 * 1024))
    async with open_children(
        Writer(), password_of=lambda _: "", ca_file=tmp_path / "ca"
    ) as children:
        assert (await ask(children, zone, long)).body == b"early"
        assert (await ask(children, zone)).body == b"early"
        assert len(connections) == 2
    is_over.set()
    listener.close()


async def test_who_waits_on_a_secured_connection_is_told_at_the_end(tmp_path: Path) -> None:
    """Closing ends a request on a TLS connection within 2 s, without the server's close."""
    context = certify(tmp_path)
    async with (
        scripted(never, context) as server,
        open_children(Writer(), password_of=lambda _: "", ca_file=tmp_path / "ca") as children,
    ):
        waits = asyncio.create_task(ask(children, zone_at(server.port, scheme="https")))
        await asyncio.wait_for(server.is_asked.wait(), 5.0)
        await children.close()
        with pytest.raises(UnavailableError, match="closed before a response arrived"):
            await asyncio.wait_for(waits, 2.0)


async def test_a_zone_with_another_certificate_is_not_asked(tmp_path: Path) -> None:
    """A zone with an unknown certificate raises NotAskedError and gets no request."""
    context = certify(tmp_path)
    async with (
        scripted(always(answer_of()), context) as server,
        open_children(Writer(), password_of=lambda _: "") as children,
    ):
        with pytest.raises(NotAskedError, match=r"(?i)certificate"):
            await ask(children, zone_at(server.port, scheme="https"))
        assert server.requests == []
