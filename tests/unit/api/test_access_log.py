"""The access log: a line for each request, and one for each failed login."""

import base64
from dataclasses import replace

import bcrypt
import pytest

from berth.api.access_log import AccessLog
from berth.api.app import build_app
from berth.api.auth.authentication import Account, HttpBasic
from berth.api.observed import Observed
from berth.ports.telemetry import Telemetry
from tests.unit.api.cloud import Stack

Line = dict[str, object]
_HASH = bcrypt.hashpw(b"right horse", bcrypt.gensalt(4))


class Lines:
    """Telemetry that keeps all lines with their fields."""

    def __init__(self) -> None:
        self.found: list[Line] = []

    def event(self, name: str, **fields: object) -> None:
        """Keep an event."""
        self.found.append({"event": name, **fields})

    def warning(self, name: str, **fields: object) -> None:
        """Keep a warning."""
        self.found.append({"event": name, **fields})

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Keep a failure."""
        self.found.append({"event": name, "error": str(error), **fields})

    def of(self, event: str) -> list[Line]:
        """Return the lines of one event."""
        return [line for line in self.found if line["event"] == event]


class OneAccount:
    """The accounts of a cloud with one user."""

    generation = 0
    dummy_hash = _HASH
    accounts = {"ann": Account("ann", _HASH, "lab")}  # noqa: RUF012 - it never changes


def logged(stack: Stack, telemetry: Telemetry, *, sample_reads: float = 1.0) -> None:
    """Put the access log around the API of a stack."""
    log = AccessLog(telemetry, sample_reads=sample_reads)
    stack.app = Observed(build_app(stack.parts), stack.clock, [log])


def with_passwords(stack: Stack) -> None:
    """Let a stack check passwords."""
    auth = HttpBasic(OneAccount(), stack.clock, key=b"k")
    stack.parts = replace(stack.parts, auth=auth)


def basic(text: str) -> dict[str, str]:
    """Return the header of HTTP Basic for a user and password."""
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


async def test_a_request_is_one_line(stack: Stack) -> None:
    """The line has method, route, path, status, duration, caller, address and request id."""
    lines = Lines()
    logged(stack, lines)
    answer = await stack.ask("DELETE", "/v2.1/servers/none?token=hidden", token="ann:lab")
    assert lines.found == [
        {
            "event": "http_request",
            "method": "DELETE",
            "route": "/v2.1/servers/{server_id}",
            "path": "/v2.1/servers/none",
            "status": 404,
            "duration_ms": 0.0,
            "address": "127.0.0.1",
            "user_id": "ann",
            "project_id": "lab",
            "request_id": answer.headers["x-openstack-request-id"],
        }
    ]


async def test_the_id_of_a_calling_service_is_logged(stack: Stack) -> None:
    """The request id that a service sends is logged as its own field, if it is well-formed."""
    lines = Lines()
    logged(stack, lines)
    sent = "req-00000000-0000-4000-8000-000000000001"
    await stack.ask("GET", "/v2.1/flavors", headers={"X-OpenStack-Request-ID": sent})
    await stack.ask("GET", "/v2.1/flavors", headers={"X-OpenStack-Request-ID": "req-1 x"})
    assert [line.get("global_request_id") for line in lines.found] == [sent, None]


async def test_only_successful_reads_are_sampled(stack: Stack) -> None:
    """With a share of 0, successful reads are left out; failures and changes are not."""
    lines = Lines()
    logged(stack, lines, sample_reads=0.0)
    await stack.ask("GET", "/v2.1/flavors")
    await stack.ask("GET", "/v2.1/flavors/none")
    await stack.ask("DELETE", "/v2.1/flavors/none")
    found = [(line["method"], line["status"]) for line in lines.found]
    assert found == [("GET", 404), ("DELETE", 404)]


async def test_the_request_id_decides_what_is_sampled(stack: Stack) -> None:
    """About the given share of successful reads is logged."""
    lines = Lines()
    log = AccessLog(lines, sample_reads=0.25)
    for number in range(256):
        scope: dict[str, object] = {"method": "GET", "path": "/", "headers": [], "client": None}
        scope["berth.request_id"] = f"req-{number:02x}000000-0000-4000-8000-000000000000"
        log.ended(scope, 200, 1)
    assert len(lines.found) == 64


async def test_probes_are_not_logged(stack: Stack) -> None:
    """Probes would fill the log; only failed ones are logged."""
    lines = Lines()
    logged(stack, lines)
    await stack.ask("GET", "/healthz")
    await stack.ask("PUT", "/healthz")
    assert [(line["path"], line["status"]) for line in lines.found] == [("/healthz", 405)]


@pytest.mark.parametrize("user", ["ann", "nobody"])
async def test_a_wrong_password_is_a_failed_login(stack: Stack, user: str) -> None:
    """The line names user and address, but no part of the password."""
    lines = Lines()
    with_passwords(stack)
    logged(stack, lines)
    answer = await stack.ask("GET", "/v2.1/servers", headers=basic(f"{user}:wrong horse"))
    assert answer.status == 401
    assert lines.of("login_failed") == [
        {
            "event": "login_failed",
            "credential": "password",
            "user_id": user,
            "reason": "rejected",
            "address": "127.0.0.1",
            "request_id": answer.headers["x-openstack-request-id"],
        }
    ]
    assert "horse" not in str(lines.found)


async def test_no_credentials_are_no_failed_login(stack: Stack) -> None:
    """The first request of a client, which learns how to log in, is no failed login."""
    lines = Lines()
    with_passwords(stack)
    logged(stack, lines)
    assert (await stack.ask("GET", "/v2.1/servers")).status == 401
    assert (await stack.ask("GET", "/v2.1/servers", headers=basic("ann:right horse"))).status == 200
    assert lines.of("login_failed") == []


async def test_too_many_failures_have_a_reason_of_their_own(stack: Stack) -> None:
    """A login that is refused unchecked is logged with that reason."""
    lines = Lines()
    with_passwords(stack)
    logged(stack, lines)
    for number in range(11):
        await stack.ask("GET", "/v2.1/servers", headers=basic(f"ann:wrong {number}"))
    reasons = [line["reason"] for line in lines.of("login_failed")]
    assert reasons == ["rejected"] * 10 + ["too_many_failures"]


@pytest.mark.parametrize("header", ["Basic !!!", "Bearer abc", basic("secret")["Authorization"]])
async def test_a_malformed_header_names_no_user(stack: Stack, header: str) -> None:
    """A header without a user name is logged without one: the text may be a password."""
    lines = Lines()
    with_passwords(stack)
    logged(stack, lines)
    await stack.ask("GET", "/v2.1/servers", headers={"Authorization": header})
    assert [line["user_id"] for line in lines.of("login_failed")] == [""]
