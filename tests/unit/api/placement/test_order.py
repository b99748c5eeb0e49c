"""The order of the checks: of two faults in a request, the one checked first is reported."""

from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import pytest

from berth.api.placement.actions import PlacementCall, PlacementReply, PlacementRoute
from berth.api.placement.errors import Code, PlacementError
from berth.api.placement.routes import ACTIONS
from berth.api.placement.shapes import Shape
from tests.unit.api.placement.service import Service, service_of

ORDER = [
    "no token",
    "version out of range",
    "malformed version",
    "no content type",
    "no such path",
    "no such method",
    "not in this version",
    "wrong content type",
    "wrong accept",
    "not allowed",
    "wrong body",
    "wrong query",
    "refused by the handler",
]
TOLD = {
    "no token": (401, "could not verify"),
    "version out of range": (406, "Unacceptable version header"),
    "malformed version": (400, "invalid version string"),
    "no content type": (400, "content-type header required when content-length > 0"),
    "no such path": (404, "could not be found"),
    "no such method": (405, "PATCH is not allowed"),
    "not in this version": (404, "could not be found"),
    "wrong content type": (415, "text/plain is not supported"),
    "wrong accept": (406, "Only application/json is provided"),
    "not allowed": (403, "Policy does not allow placement:traits:update"),
    "wrong body": (400, "Malformed JSON"),
    "wrong query": (400, "Invalid query string parameters"),
    "refused by the handler": (409, "in use"),
}
CLASHES = [
    {"version out of range", "malformed version", "not in this version"},
    {"no content type", "wrong content type"},
]
"""Faults that one request cannot have together."""


async def refuse(ask: PlacementCall) -> PlacementReply:
    """Raise the error of a handler that is reached."""
    raise PlacementError(409, "It is in use.", Code.PROVIDER_IN_USE)


ACTION = PlacementRoute(
    "PUT",
    "/traits/{name}",
    refuse,
    "placement:traits:update",
    since=6,
    takes=((6, Shape({"type": "object"})),),
    asks=((6, Shape({"additionalProperties": False}, is_query=True)),),
    shows=True,
)


class Sent(NamedTuple):
    """The parts of a request."""

    method: str
    path: str
    version: str
    headers: dict[str, str | None]
    content: str


def request_with(*wrong: str) -> Sent:
    """Return a request with these faults."""
    headers: dict[str, str | None] = {"content-type": "application/json"}
    version = "1.39"
    for one in wrong:
        match one:
            case "no token":
                headers["x-auth-token"] = None
            case "version out of range":
                version = "1.99"
            case "malformed version":
                version = "pony"
            case "not in this version":
                version = "1.5"
            case "no content type":
                headers["content-type"] = None
            case "wrong content type":
                headers["content-type"] = "text/plain"
            case "wrong accept":
                headers["accept"] = "image/png"
            case "not allowed" if "no token" not in wrong:
                headers["x-auth-token"] = "user"
            case _:
                pass
    path = "/nowhere" if "no such path" in wrong else "/traits/CUSTOM_A"
    return Sent(
        "PATCH" if "no such method" in wrong else "PUT",
        f"{path}?x=y" if "wrong query" in wrong else path,
        version,
        headers,
        "{bad" if "wrong body" in wrong else "{}",
    )


def pairs() -> list[tuple[str, str]]:
    """Return all possible pairs of faults, and each fault by itself."""
    both = [
        pair for pair in combinations(ORDER, 2) if not any(set(pair) <= clash for clash in CLASHES)
    ]
    return [*both, *((one, one) for one in ORDER)]


@pytest.mark.parametrize(("first", "second"), pairs())
async def test_the_first_of_two_is_told(first: str, second: str) -> None:
    """The earlier of two faults determines the response."""
    service: Service = service_of([ACTION])
    sent = request_with(first, second)
    answer = await service.ask(
        sent.method, sent.path, version=sent.version, headers=sent.headers, content=sent.content
    )
    status, text = TOLD[first]
    assert (answer.status_code, text in answer.text) == (status, True), answer.text


async def test_a_query_that_names_a_project_is_read_before_the_rule() -> None:
    """The first project_id is read before the rule is checked; the rest of the query is not."""
    (usages,) = (action for action in ACTIONS if action.path == "/usages")
    service = service_of([replace(usages, handler=refuse)])

    async def status(query: str, roles: str, project: str = "p") -> int:
        headers = {"x-auth-token": f"u:{project}", "x-roles": roles}
        answer = await service.ask("GET", f"/usages{query}", headers=headers)
        return answer.status_code

    assert await status("?project_id=p", "reader") == 409
    assert await status("?project_id=p", "reader", "q") == 403
    assert await status("?project_id=p&project_id=q", "reader", "q") == 409
    assert await status("", "reader") == 403
    assert await status("", "service") == 400


async def test_other_queries_are_read_after_the_rule() -> None:
    """A caller without permission gets 403 before the query is validated."""
    service = service_of()
    for token, status in (("user", 403), ("admin", 400)):
        headers = {"x-auth-token": token}
        answer = await service.ask("GET", "/resource_providers?name=%ff", headers=headers)
        assert answer.status_code == status
