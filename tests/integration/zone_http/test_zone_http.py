"""Requests to child zones over HTTP: what is sent and how answers are read."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.zones.zone import Zone
from berth.lab.loopback import free_port
from berth.ports.zones import ForwardedRequest, ForwardedResponse
from tests.integration.zone_http.scripted_http import (
    Answering,
    Received,
    always,
    answer_of,
    cut,
    hang_up,
)
from tests.integration.zone_http.zone_asking import POST, ask, both, refused, zone_at

# ---- requests ---------------------------------------------------------------------------------


async def test_a_request_leaves_as_it_is_with_account_and_statement() -> None:
    """A request is sent unchanged, with the parent's account and statement added."""
    async with both(always(answer_of())) as (children, server, _):
        zone = zone_at(server.port, prefix="/berth/", username="parent")
        asked = ForwardedRequest("PUT", "/v2.1/x%20y?a=1&b=", {"X-Thing": "yes"}, b"body")
        await ask(children, zone, asked)
    (request,) = server.requests
    assert request.line == "PUT /berth/v2.1/x%20y?a=1&b= HTTP/1.1"
    assert request.body == b"body"
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "user-agent": "berth",
        "accept-encoding": "identity",
        "x-thing": "yes",
        "content-length": "4",
        "authorization": "Basic " + b64encode(b"parent:s3cret").decode(),
        "x-berth-zone-statement": "west|PUT|/v2.1/x%20y?a=1&b=|p-1|u-1|0",
    }


async def test_what_a_client_says_of_itself_stays_here() -> None:
    """Credentials, statements and connection headers of a client are not forwarded."""
    said = (
        "Authorization",
        "X-Auth-Token",
        "Cookie",
        "X-Berth-Zone-Statement",
        "Host",
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "Accept-Encoding",
        "Expect",
    )
    async with both(always(answer_of())) as (children, server, zone):
        asked = ForwardedRequest("GET", "/", dict.fromkeys(said, "mine"))
        await ask(children, zone, asked)
    (request,) = server.requests
    assert "mine" not in request.headers.values()
    own = {"host", "user-agent", "accept-encoding", "x-berth-zone-statement"}
    assert request.headers.keys() == own


@pytest.mark.parametrize(
    "path", ["/", "//a", "/a/../b", "/%2e%2F?b=%2f&c=+&c", "/a?b?", "/?a=;@:[]"]
)
async def test_a_path_leaves_exactly_as_it_is_signed(path: str) -> None:
    """A path is sent exactly as it is stated, with any prefix of the zone's URL before it."""
    async with both(always(answer_of())) as (children, server, _):
        await ask(children, zone_at(server.port, prefix="/x"), ForwardedRequest("GET", path))
    (request,) = server.requests
    assert request.line == f"GET /x{path} HTTP/1.1"
    assert f"|{path}|" in request.headers["x-berth-zone-statement"]


async def test_a_long_body_leaves_whole() -> None:
    """A body of 4 MiB arrives whole, with its length and without other content headers."""
    body = bytes(range(256)) * 16_384
    async with both(always(answer_of())) as (children, server, zone):
        await ask(children, zone, ForwardedRequest("POST", "/", {}, body))
    (request,) = server.requests
    assert request.body == body
    assert request.headers["content-length"] == str(len(body))
    assert "content-disposition" not in request.headers
    assert "content-type" not in request.headers


async def test_who_sends_no_body_says_so() -> None:
    """A request without a body has content-length 0, so no server waits for one."""
    async with both(always(answer_of())) as (children, server, zone):
        await ask(children, zone, ForwardedRequest("POST", "/"))
    assert server.requests[0].headers["content-length"] == "0"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/a b", {}),
        ("GET", "/a\r\nX: y", {}),
        ("GET", "a", {}),
        ("GET", "/a#b", {}),
        ("GET", "/ä", {}),
        ("GET", "/a?", {}),
        ("get", "/", {}),
        ("G T", "/", {}),
        ("CONNECT", "/", {}),
        ("GET", "/", {"X-A": "b\r\nX-B: c"}),
        ("GET", "/", {"X-A: b\r\nX-B": "c"}),
        ("GET", "/", {"X-A": "\u2028"}),
        ("GET", "/", {"X-A": "\xe4"}),
        ("GET", "/", {"": "a"}),
    ],
)
async def test_what_would_be_read_as_something_else_never_leaves(
    method: str, path: str, headers: Mapping[str, str]
) -> None:
    """Invalid methods, paths and headers are refused before any connection is made."""
    async with both(always(answer_of())) as (children, server, zone):
        with pytest.raises(InvalidInputError):
            await ask(children, zone, ForwardedRequest(method, path, headers))
        assert server.connections == 0


async def test_nothing_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Proxies and accounts from the environment are ignored."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with both(always(answer_of(b"direct"))) as (children, server, zone):
        assert (await ask(children, zone)).body == b"direct"
    assert "authorization" not in server.requests[0].headers


async def test_cookies_are_not_kept() -> None:
    """A cookie from an answer is not sent with the next request."""
    raw = answer_of(more="Set-Cookie: a=b\r\n")
    async with both(always(raw)) as (children, server, _):
        zone = Zone(1, "west", f"http://localhost:{server.port}")
        for _ in range(2):
            assert (await ask(children, zone)).headers["set-cookie"] == "a=b"
    assert all("cookie" not in request.headers for request in server.requests)


# ---- answers ----------------------------------------------------------------------------------


async def test_an_answer_comes_back_as_it_is_without_what_is_of_the_connection() -> None:
    """Any status is returned, with lower-case header names and without connection headers."""
    more = "X-Thing: a\r\nx-thing: b\r\nKeep-Alive: timeout=5\r\nContent-Type: text/plain\r\n"
    raw = answer_of(b"gone", status="404 Not Found", more=more)
    async with both(always(raw)) as (children, _, zone):
        answer = await ask(children, zone)
    headers = {"x-thing": "a, b", "content-type": "text/plain"}
    assert answer == ForwardedResponse(404, headers, b"gone")


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    """A redirect is returned and not followed, so the account goes nowhere else."""
    raw = answer_of(b"", status="307 Temporary Redirect", more="Location: /elsewhere\r\n")
    async with both(always(raw)) as (children, server, zone):
        answer = await ask(children, zone)
        assert (answer.status, answer.headers["location"]) == (307, "/elsewhere")
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("asked", "raw", "body"),
    [
        (
            POST,
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            b"abc",
        ),
        (POST, b"HTTP/1.1 100 Continue\r\n\r\n" + answer_of(b"after"), b"after"),
        (POST, b"HTTP/1.1 103 Early Hints\r\nx-a: b\r\n\r\n" + answer_of(b"after"), b"after"),
        (POST, b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (POST, b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", b"a"),
        (ForwardedRequest("HEAD", "/"), b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b""),
        (POST, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked \r\n\r\n0\r\n\r\n", b""),
    ],
)
async def test_all_forms_of_answers_are_read(
    asked: ForwardedRequest, raw: bytes, body: bytes
) -> None:
    """Chunked, interim, bodiless, HTTP/1.0 and HEAD answers are read."""
    async with both(always(raw)) as (children, _, zone):
        answer = await ask(children, zone, asked)
    assert answer.body == body
    assert "x-a" not in answer.headers


async def test_trailers_are_no_headers() -> None:
    """Trailers of an answer are not added to its headers."""
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-late: 1\r\n\r\n"
    async with both(always(raw)) as (children, _, zone):
        assert (await ask(children, zone)).headers == {}


@pytest.mark.parametrize(
    ("answering", "reason"),
    [
        (always(b"this is not HTTP\r\n\r\n"), "valid HTTP"),
        (always(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"), "valid HTTP"),
        (always(b"HTTP/1.1 099 H\r\ncontent-length: 4\r\n\r\nHINT" + answer_of()), "valid HTTP"),
        (
            always(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na"),
            "valid HTTP",
        ),
        (
            always(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            "protocol",
        ),
        (always(answer_of(more="content-encoding: gzip\r\n")), "compressed"),
        (cut(b"HTTP/1.1 200 OK\r\n\r\nno length"), "declare its length"),
        (cut(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nno end"), "declare its length"),
        (cut(b""), "closed before a response arrived"),
        (hang_up, "closed before a response arrived"),
        (cut(b"HTTP/1.1 2"), "closed before a response arrived"),
        (cut(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n"), "closed before a response arrived"),
        (cut(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"), "response was complete"),
        (
            cut(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal"),
            "response was complete",
        ),
        (always(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000), "more than 65536 bytes in its head"),
        (always(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1_000), "more than 128 headers"),
        (always(answer_of() + b"rest"), "valid HTTP"),
    ],
)
async def test_what_is_no_answer_is_refused(answering: Answering, reason: str) -> None:
    """A malformed answer raises UnavailableError, not NotAskedError, with the reason."""
    assert reason in await refused(answering)


@pytest.mark.parametrize(
    "raw",
    [
        answer_of(b"x" * 101),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n65\r\n"
        + b"x" * 101
        + b"\r\n0\r\n\r\n",
    ],
)
async def test_a_body_above_its_limit_is_refused(raw: bytes) -> None:
    """A body above its limit is refused, with or without a length; one at the limit is not."""
    asked = ForwardedRequest("POST", "/", answer_bytes_max=100)
    assert "more than 100 bytes" in await refused(always(raw), asked)
    async with both(always(answer_of(b"x" * 100))) as (children, _, zone):
        assert len((await ask(children, zone, asked)).body) == 100


async def test_an_endless_body_is_refused_before_it_ends() -> None:
    """An endless body is refused at its limit, and the connection is closed."""

    async def pour(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    asked = ForwardedRequest("GET", "/", answer_bytes_max=1_000_000)
    async with both(pour) as (children, server, zone):
        with pytest.raises(UnavailableError, match="more than 1000000 bytes"):
            await ask(children, zone, asked)
        await asyncio.wait_for(server.is_left.wait(), 5.0)


async def test_hints_without_an_answer_end_with_the_time() -> None:
    """Interim responses without an answer end at the timeout, and the connection is closed."""

    async def pour(_: Received, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    async with both(pour) as (children, server, zone):
        with pytest.raises(UnavailableError, match=r"no response within 0\.2 s"):
            await ask(children, zone, timeout_s=0.2)
        await asyncio.wait_for(server.is_left.wait(), 5.0)


async def test_what_is_around_an_endless_body_is_bounded_too() -> None:
    """Chunk extensions count towards the limit of a body."""

    async def pour(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1;" + b"n" * 1000 + b"\r\nx\r\n")
            await writer.drain()

    asked = ForwardedRequest("GET", "/", answer_bytes_max=1_000)
    async with both(pour) as (children, _, zone):
        with pytest.raises(UnavailableError, match="more than 1000 bytes"):
            await ask(children, zone, asked)
