"""Routes as data (method, path, microversion range), and the calls and replies of handlers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.types import Scope

from berth.api.codec import encode
from berth.api.errors import Header
from berth.api.header_fields import root_url
from berth.api.placement.parts import PlacementParts
from berth.api.placement.policy import PlacementCaller
from berth.api.placement.shapes import Steps
from berth.api.placement.versions import MINOR_MAX
from berth.api.request_id import request_id_of

PUBLIC = ""
"""The rule of routes that need neither a token nor a permission."""


class PlacementReply(NamedTuple):
    """A handler's response.

    `body` is encoded JSON. `modified_s` is the Unix time of the last change for the header
    `last-modified`; None means the current time.
    """

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    modified_s: float | None = None


@dataclass(frozen=True, slots=True)
class PlacementRoute:
    """One method on one path, in a range of microversions.

    Attributes:
        method: HTTP method.
        path: path template with parameters in braces.
        handler: coroutine that serves the route.
        rule: name of the policy rule; `PUBLIC` skips the check.
        since: first minor version that has the route.
        until: last minor version that has it.
        missing: status of the response in any other version, 404 or 405.
        takes: body shapes, each with the minor version from which it applies; None if no body is
            read.
        asks: query shapes, each with its first minor version; None if the query is ignored.
        shows: whether the response has a body; the client must then accept JSON.
        is_timed: whether `last-modified` is sent from microversion 1.15 on even without a body.
        project_in: query parameter with the project that the rule is checked against.
        subject: looks up the object that the path names, and raises an error if there is none.
            It runs before an invalid body is reported, since Placement reports a missing object
            first.
    """

    method: str
    path: str
    handler: "Handler"
    rule: str
    since: int = 0
    until: int = MINOR_MAX
    missing: int = 404
    takes: Steps | None = None
    asks: Steps | None = None
    shows: bool = False
    is_timed: bool = False
    project_in: str = ""
    subject: "Callable[[PlacementCall], Awaitable[object]] | None" = None


class PlacementCall(NamedTuple):
    """One authorized request with its validated body and query.

    `minor` is the minor number of the microversion: 39 in 1.39. `data` is the body as plain JSON
    values that passed validation, or None if the route reads no body. Whole numbers in it are ints
    within 64 bits (`allocation_ratio` is always a float), and no string contains U+0000 or a lone
    surrogate. `query` holds every parameter, decoded, in the order of the request; it is empty if
    the route ignores the query.
    """

    parts: PlacementParts
    action: PlacementRoute
    scope: Scope
    caller: PlacementCaller
    minor: int
    data: Any = None
    query: list[tuple[str, str]] = []  # noqa: RUF012 - nothing changes this list

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return request_id_of(self.scope)

    def key(self, name: str) -> str:
        """Return the value of a path parameter."""
        value: str = self.scope["path_params"][name]
        return value

    def last(self, name: str) -> str | None:
        """Return the last value of a query parameter, or None if the query does not contain it."""
        return next((value for key, value in reversed(self.query) if key == name), None)

    def every(self, name: str) -> list[str]:
        """Return all values of a query parameter, in the order of the request."""
        return [value for key, value in self.query if key == name]

    def link(self, path: str) -> str:
        """Return a link to a path of this API for a response body, without scheme and host."""
        return f"{self.parts.prefix}{path}"

    def location(self, path: str) -> Header:
        """Return a `location` header with the full URL of a path of this API."""
        return (b"location", f"{root_url(self.scope)}{self.parts.prefix}{path}".encode())


Handler = Callable[[PlacementCall], Awaitable[PlacementReply]]


def json_reply(
    value: object,
    status: int = 200,
    headers: tuple[Header, ...] = (),
    modified_s: float | None = None,
) -> PlacementReply:
    """Return a reply whose body is a value encoded as JSON."""
    return PlacementReply(status, encode(value), headers, modified_s)
