"""The client of Keystone, against a small HTTP server that answers as tests tell it to."""

import asyncio
import gzip
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from berth.adapters.keystone import KeystoneAccess, KeystoneTokens
from berth.domain.errors import InvalidInputError
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
    ValidToken,
)

SECRET = "berth-secret"
ADMIN_TOKEN = "token-of-berth"
NEW = "t1"
EXPIRES_S = 1_800_000_000.0
TOKEN: dict[str, Any] = {
    "methods": ["password"],
    "user": {"id": "u1", "name": "alice", "domain": {"id": "d1", "name": "Web"}},
    "expires_at": "2027-01-15T08:00:00.000000Z",
    "issued_at": "2027-01-15T07:00:00.000000Z",
    "roles": [{"id": "r1", "name": "Member"}, {"id": "r2", "name": "reader"}],
    "project": {"id": "p1", "name": "web", "domain": {"id": "d1", "name": "Web"}},
}

Respond = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    server: "FakeKeystone"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Log Berth in."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.logins.append(body["auth"])
        if SECRET not in json.dumps(body):
            self.send(401, {"error": {"message": "no", "code": 401}})
            return
        self.send(201, {"token": TOKEN}, ("X-Subject-Token", ADMIN_TOKEN))

    def do_GET(self) -> None:
        """Validate a token."""
        self.server.asked.append(self.headers["X-Subject-Token"])
        self.server.paths.append(self.path)
        assert self.headers["X-Auth-Token"] == ADMIN_TOKEN
        self.server.respond(self)

    def send(self, status: int, body: object, *headers: tuple[str, str]) -> None:
        """Send a response: bytes, or anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", f"{len(content)}")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class FakeKeystone(ThreadingHTTPServer):
    """Logs Berth in, and answers validations with `respond`.

    Attributes:
        logins: the bodies of logins.
        asked: the validated tokens.
        paths: the paths and queries of the validations.
        respond: answers a validation.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.logins: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.paths: list[str] = []
        self.respond: Respond = lambda handler: handler.send(200, {"token": TOKEN})

    @property
    def access(self) -> KeystoneAccess:
        """The access of an account with a password."""
        url = f"http://127.0.0.1:{self.server_port}"
        return KeystoneAccess(url, lambda: SECRET, username="berth", timeout_s=5.0)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect."""


@pytest.fixture
def keystone() -> Iterator[FakeKeystone]:
    """Yield a running server."""
    with FakeKeystone() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def _ask(access: KeystoneAccess, token: str = NEW) -> ValidToken | None:
    tokens = KeystoneTokens(access)
    try:
        return await tokens.validate(token)
    finally:
        tokens.close()


def _with(**changes: object) -> Respond:
    return lambda handler: handler.send(200, {"token": {**TOKEN, **changes}})


def _without(key: str) -> Respond:
    token = {name: value for name, value in TOKEN.items() if name != key}
    return lambda handler: handler.send(200, {"token": token})


async def test_a_valid_token_is_described(keystone: FakeKeystone) -> None:
    """User, project, domain, roles in lower case and expiry are those of the response."""
    found = await _ask(keystone.access)
    domain = frozenset({"d1", "Web"})
    assert found == ValidToken("u1", EXPIRES_S, frozenset({"member", "reader"}), "p1", domain)
    assert keystone.asked == ["t1"]
    scope = keystone.logins[0]["scope"]
    assert scope == {"project": {"name": "service", "domain": {"name": "Default"}}}


async def test_scopes_other_than_a_project(keystone: FakeKeystone) -> None:
    """A token without a project has none; one with system scope says so."""
    keystone.respond = _without("project")
    found = await _ask(keystone.access)
    assert found is not None
    assert (found.project_id, found.is_system) == ("", False)
    keystone.respond = _with(project=None, system={"all": True})
    found = await _ask(keystone.access)
    assert found is not None
    assert found.is_system


async def test_an_application_credential_can_log_in(keystone: FakeKeystone) -> None:
    """Its id and secret take the place of user, password and project."""
    access = replace(keystone.access, application_credential_id="c1")
    assert await _ask(access) is not None
    assert keystone.logins == [
        {
            "identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": "c1", "secret": SECRET},
            }
        }
    ]


async def test_an_unknown_token_is_refused(keystone: FakeKeystone) -> None:
    """The status 404 means that the token is invalid, expired or revoked."""
    keystone.respond = lambda handler: handler.send(404, {"error": {"code": 404}})
    assert await _ask(keystone.access) is None


@pytest.mark.parametrize("status", [400, 413, 414, 431])
async def test_a_token_that_a_web_server_rejects_is_refused(
    keystone: FakeKeystone, status: int
) -> None:
    """A status that blames the request, such as that of a long header, says nothing of Keystone."""
    keystone.respond = lambda handler: handler.send(status, b"<html>")
    assert await _ask(keystone.access) is None


@pytest.mark.parametrize(
    "respond",
    [
        lambda handler: handler.send(200, b"<html>"),
        lambda handler: handler.send(200, []),
        lambda handler: handler.send(200, {"token": {}}),
        lambda handler: handler.send(200, b"\xff" * 100),
        lambda handler: handler.send(200, b" " * 2**20 + b"{}"),
        lambda handler: handler.send(500, {"error": {}}),
        lambda handler: handler.send(302, b"", ("Location", "http://127.0.0.1:1/")),
        _without("user"),
        _without("expires_at"),
        _with(expires_at="soon"),
        _with(expires_at="2027-01-15T08:00:00"),
        _with(user={"id": "x" * 256}),
        _with(user={"id": ""}),
        _with(roles=[{"name": "r"}] * 1001),
        _with(roles="admin"),
        _with(project={"id": "p1"}),
    ],
)
async def test_an_unusable_answer_is_no_outage(keystone: FakeKeystone, respond: Respond) -> None:
    """A malformed or huge answer, or a redirect, is an error that concerns its token only."""
    keystone.respond = respond
    with pytest.raises(TokenServiceError) as caught:
        await _ask(keystone.access)
    assert not isinstance(caught.value, TokenServiceDownError)
    assert len(keystone.asked) == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "check that the account is enabled"),
        (403, "give the account the role service"),
        (429, "status 429"),
        (503, "status 503"),
    ],
)
async def test_answers_that_mean_an_outage(
    keystone: FakeKeystone, status: int, reason: str
) -> None:
    """Without the right to validate, and while Keystone is overloaded, no token can be checked."""
    keystone.respond = lambda handler: handler.send(status, {"error": {}})
    with pytest.raises(TokenServiceDownError, match=reason):
        await _ask(keystone.access)


async def test_nothing_listens() -> None:
    """A refused connection is an outage, whose text names the setting."""
    access = KeystoneAccess("http://127.0.0.1:1/v3", lambda: SECRET, username="berth")
    with pytest.raises(TokenServiceDownError, match=r"keystone\.auth_url"):
        await _ask(access)


async def test_a_slow_keystone_does_not_block(keystone: FakeKeystone) -> None:
    """After the timeout all calls end, and the loop stays free.

    Only the call that had a thread reports an outage; the others were waiting behind it.
    """
    done = threading.Event()

    def wait(handler: _Handler) -> None:
        done.wait(10)
        handler.send(200, {"token": TOKEN})

    keystone.respond = wait
    tokens = KeystoneTokens(replace(keystone.access, timeout_s=0.3, connections_max=1))
    began_s = time.monotonic()
    asked = [asyncio.create_task(tokens.validate(f"t{index}")) for index in range(5)]
    ticks = 0
    while not all(task.done() for task in asked):
        await asyncio.sleep(0.01)
        ticks += 1
    done.set()
    kinds = [type(task.exception()) for task in asked]
    assert kinds == [TokenServiceDownError] + [TokenServiceBusyError] * 4
    assert time.monotonic() - began_s < 5
    assert ticks > 5
    tokens.close()


async def test_a_dripping_response_ends_at_the_timeout(keystone: FakeKeystone) -> None:
    """A body that arrives byte by byte does not keep a thread longer than the timeout."""

    def drip(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b" ")
            time.sleep(0.02)

    keystone.respond = drip
    tokens = KeystoneTokens(replace(keystone.access, timeout_s=0.3))
    with pytest.raises(TokenServiceDownError):
        await tokens.validate("t1")
    began_s = time.monotonic()
    await asyncio.to_thread(tokens._threads.shutdown, wait=True)
    assert time.monotonic() - began_s < 2


async def test_a_compressed_response_is_not_expanded(keystone: FakeKeystone) -> None:
    """Berth asks for plain responses, and does not decompress others."""
    bomb = gzip.compress(b" " * 10_000_000)
    keystone.respond = lambda handler: handler.send(200, bomb, ("Content-Encoding", "gzip"))
    with pytest.raises(TokenServiceError, match="invalid description"):
        await _ask(keystone.access)


async def test_a_changed_secret_is_read_again(keystone: FakeKeystone) -> None:
    """After Keystone has refused the credentials, the next validation uses the current secret."""
    secrets = ["old", SECRET]
    tokens = KeystoneTokens(replace(keystone.access, read_secret=lambda: secrets.pop(0)))
    with pytest.raises(TokenServiceDownError, match="refuses the credentials") as caught:
        await tokens.validate("t1")
    assert caught.value.pause_s == 30
    assert await tokens.validate("t1") is not None
    assert await tokens.validate("t2") is not None
    assert len(keystone.logins) == 2
    tokens.close()


async def test_a_missing_secret_is_an_outage(keystone: FakeKeystone) -> None:
    """A file that has disappeared is not the fault of the caller."""

    def read() -> str:
        raise InvalidInputError("keystone.password_file", "cannot be read")

    with pytest.raises(TokenServiceDownError, match=r"keystone\.password_file"):
        await _ask(replace(keystone.access, read_secret=read))


async def test_secrets_and_tokens_are_in_no_log_and_no_error(
    keystone: FakeKeystone, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with all libraries at the level debug, neither the password nor a token is logged."""
    caplog.set_level(logging.DEBUG)
    await _ask(keystone.access, "token-of-alice")
    keystone.respond = lambda handler: handler.send(500, b"")
    with pytest.raises(TokenServiceError) as caught:
        await _ask(keystone.access, "token-of-alice")
    for secret in (SECRET, ADMIN_TOKEN, "token-of-alice"):
        assert secret not in caplog.text
        assert secret not in str(caught.value)


async def test_certificates_are_read_at_the_start(tmp_path: Path) -> None:
    """A missing file of certificates is an error in the settings."""
    access = KeystoneAccess("https://127.0.0.1:1", lambda: SECRET, ca_file=tmp_path / "none.pem")
    with pytest.raises(InvalidInputError, match=r"keystone\.ca_file"):
        KeystoneTokens(access)


async def test_keystone_accepts_expired_tokens_on_request(keystone: FakeKeystone) -> None:
    """Only the validation that asks for it has the parameter."""
    tokens = KeystoneTokens(keystone.access)
    await tokens.validate(NEW)
    found = await tokens.validate(NEW, allow_expired=True)
    assert found is not None
    assert keystone.paths == [
        "/v3/auth/tokens?nocatalog",
        "/v3/auth/tokens?nocatalog&allow_expired=1",
    ]
    tokens.close()
