"""Routes as data (method, path, microversion range), and the call objects handlers receive."""

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

    `body` is encoded JSON. `modified_s` is the Unix time of the last change, sent as
    `last-modified`; None stands for now.
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
        missing: status in any other version, 404 or 405.
        takes: body shapes, each with the minor version it applies from; None if no body is read.
        asks: query shapes, likewise; None if the query is ignored.
        shows: the response has a body, so the client must accept JSON.
        is_timed: `last-modified` is sent from 1.15 even without a body.
        project_in: query parameter with the project that the rule is checked against.
        subject: looks up the object that the path names, or raises. It runs before an invalid
            body is reported, since Placement reports a missing object first.
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

    `minor` is the microversion without its `1.`. `data` is the body as plain JSON values that
    passed validation: whole numbers are ints within 64 bits, and no string contains U+0000 or a
    lone surrogate. `query` holds every parameter, decoded, in the order of the request.
    """

    parts: PlacementParts
    action: PlacementRoute
    scope: Scope
    caller: PlacementCaller
    minor: int
    data: Any = None
    query: list[tuple[str, str]] = []  # noqa: RUF012 - a default of a tuple, and never changed

    @property
    def request_id(self) -> str:
        """The request id."""
        return request_id_of(self.scope)

    def key(self, name: str) -> str:
        """Return a path parameter."""
        value: str = self.scope["path_params"][name]
        return value

    def last(self, name: str) -> str | None:
        """Return the last value of a query parameter, or None."""
        return next((value for key, value in reversed(self.query) if key == name), None)

    def every(self, name: str) -> list[str]:
        """Return all values of a query parameter, in the order of the request."""
        return [value for key, value in self.query if key == name]

    def link(self, path: str) -> str:
        """Return a link to a path of this API as response bodies hold it: without the host."""
        return f"{self.parts.prefix}{path}"

    def location(self, path: str) -> Header:
        """Return the `location` header of a path, with the host that the client addressed."""
        return (b"location", f"{root_url(self.scope)}{self.parts.prefix}{path}".encode())


Handler = Callable[[PlacementCall], Awaitable[PlacementReply]]


def json_reply(
    value: object,
    status: int = 200,
    headers: tuple[Header, ...] = (),
    modified_s: float | None = None,
) -> PlacementReply:
    """Return a reply with a value encoded as JSON."""
    return PlacementReply(status, encode(value), headers, modified_s)
