"""Routing of requests to handlers, and the form of responses."""

from dataclasses import replace
from types import ModuleType

import pytest
from starlette.routing import Match
from starlette.types import Message

from berth.api.app import build_app
from berth.api.berth import routes as berth_room
from berth.api.compute import routes as compute_room
from berth.api.routing import ends_of, routes_of
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import LedgerError, UnavailableError
from berth.services.servers.flavors import Flavors
from tests.unit.api.cloud import Stack


class Broken(Flavors):
    """Flavors that raise a given error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def all(self) -> list[Flavor]:
        """Raise the given error."""
        raise self._error

    async def usable_by(self, project_id: str) -> frozenset[str]:
        """Raise the given error."""
        raise self._error


def break_flavors(stack: Stack, error: Exception) -> None:
    """Make every list of flavors raise an error."""
    stack.app = build_app(replace(stack.parts, flavors=Broken(error)))


@pytest.mark.parametrize("room", [compute_room, berth_room])
async def test_shortcuts_lead_where_routes_lead(stack: Stack, room: ModuleType) -> None:
    """The shortcut of a path without parameters is the first route that matches it."""
    routes = routes_of(stack.parts, room.OPERATIONS, room.PREFIX)
    ends = ends_of(routes, room.PREFIX)
    assert ends
    for path, end in ends.items():
        scope = {"type": "http", "path": path.removeprefix(room.PREFIX), "method": "GET"}
        first = next(route for route in routes if route.matches(scope)[0] is not Match.NONE)
        assert first.app is end


async def test_every_answer_has_a_request_id(stack: Stack) -> None:
    """Every response, including errors, has its own request id."""
    seen: set[str] = set()
    for path in ("/", "/nowhere", "/v2.1/flavors", "/v2.1/flavors/none", "/?" + "x" * 9000):
        headers = (await stack.ask("GET", path)).headers
        assert headers["x-openstack-request-id"] == headers["x-compute-request-id"]
        seen.add(headers["x-openstack-request-id"])
    assert len(seen) == 5
    assert all(request_id.startswith("req-") for request_id in seen)


@pytest.mark.parametrize("error", [LedgerError("/secret is damaged"), ValueError("/secret bug")])
async def test_an_unexpected_failure_tells_nothing_outside(stack: Stack, error: Exception) -> None:
    """The client gets 500 without details, and the failure is reported with the request id."""
    break_flavors(stack, error)
    answer = await stack.ask("GET", "/v2.1/flavors")
    assert answer.status == 500
    assert answer.body["computeFault"]["code"] == 500
    assert "secret" not in answer.body["computeFault"]["message"]
    ((name, told, fields),) = stack.told.failures
    assert name == "http_request_failed"
    assert told is error
    assert fields["request_id"] == answer.headers["x-openstack-request-id"]


async def test_what_is_away_is_503(stack: Stack) -> None:
    """An unavailable ledger gets 503 with Retry-After and is not reported as a failure."""
    break_flavors(stack, UnavailableError("the ledger cannot be reached"))
    answer = await stack.ask("GET", "/v2.1/flavors")
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "the ledger cannot be reached" in answer.body["serviceUnavailable"]["message"]
    assert stack.told.failures == []


async def test_a_method_that_is_not_there_says_which_are(stack: Stack) -> None:
    """An unsupported method gets 405 with the allowed ones."""
    answer = await stack.ask("PATCH", "/v2.1/flavors")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, POST"


async def test_the_document_is_only_read(stack: Stack) -> None:
    """A POST to the OpenAPI document gets 405 in the form of all errors."""
    answer = await stack.ask("POST", "/openapi.json")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.body["badMethod"]["code"] == 405
    assert "x-openstack-request-id" in answer.headers


async def test_what_fails_halfway_is_cut(stack: Stack) -> None:
    """After a failed send, nothing more is sent, and the failure is reported."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            raise ValueError(message["type"])

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/healthz",
        "query_string": b"",
        "headers": [],
        "scheme": "http",
    }
    with pytest.raises(ValueError, match="body"):
        await stack.app(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert [name for name, _, _ in stack.told.failures] == ["http_request_failed"]


async def test_head_is_get(stack: Stack) -> None:
    """HEAD has the status of GET."""
    assert (await stack.ask("HEAD", "/healthz")).status == 200


async def test_a_body_must_be_json(stack: Stack) -> None:
    """A form gets 415, and a body without a content type is read as JSON."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = await stack.ask("POST", "/v2.1/flavors", b"{}", headers=form)
    assert answer.status == 415
    assert (await stack.ask("POST", "/v2.1/flavors", b"{}")).status == 400
    json = {"content-type": "application/json; charset=utf-8"}
    assert (await stack.ask("POST", "/v2.1/flavors", b"{}", headers=json)).status == 400


@pytest.mark.parametrize("key", ["x" * 256, "a%09b", "a%00b"])
async def test_keys_in_paths_are_bounded(stack: Stack, key: str) -> None:
    """A key that is too long or has control characters gets 400."""
    answer = await stack.ask("GET", f"/v2.1/flavors/{key}")
    assert answer.status == 400
    assert "flavor_id" in answer.body["badRequest"]["message"]


@pytest.mark.parametrize("path", ["/v2.1/flavors/", "/v2.2/flavors", "/berth/v2/hosts"])
async def test_there_is_one_path_for_everything(stack: Stack, path: str) -> None:
    """A trailing slash or another version gets 404 and no redirection."""
    assert (await stack.ask("GET", path)).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2.1/os-hypervisors"),
        ("GET", "/v2.1/os-services"),
        ("DELETE", "/v2.1/os-services/1"),
        ("GET", "/v2.1/os-aggregates"),
        ("GET", "/v2.1/os-availability-zone/detail"),
        ("POST", "/v2.1/flavors"),
        ("DELETE", "/v2.1/flavors/small"),
        ("GET", "/berth/v1/hosts"),
        ("GET", "/berth/v1/state"),
        ("GET", "/berth/v1/policy"),
        ("POST", "/berth/v1/policy/reload"),
        ("GET", "/berth/v1/status"),
    ],
)
async def test_some_things_are_for_administrators(stack: Stack, method: str, path: str) -> None:
    """Other users can neither see hosts nor change what all share."""
    answer = await stack.ask(method, path, token="bob")
    assert answer.status == 403
    assert answer.body["forbidden"]["code"] == 403
