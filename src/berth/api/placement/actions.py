"""Actions: one method on one path in a range of microversions, as data, and what handlers get."""

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
"""The rule of what everybody may, without a token."""


class PlacementReply(NamedTuple):
    """What a handler answers. `body` is JSON already written.

    `modified_s` is the Unix time of the last change; None stands for now.
    """

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    modified_s: float | None = None


@dataclass(frozen=True, slots=True)
class PlacementRoute:
    """One method on one path.

    Attributes:
        method: of HTTP.
        path: with parameters in braces.
        handler: does it.
        rule: of the policy; `PUBLIC` asks nobody.
        since: first minor version in which it is there.
        until: last one.
        missing: status outside of these, 404 or 405.
        takes: shapes of the body by the minor version from which they count; None: none is read.
        asks: likewise of the query; None: any query is ignored.
        shows: the answer has a body, so the client must accept JSON.
        is_timed: the time of the last change is told, from 1.15, even without a body.
        project_in: parameter of the query that says which project the rule is asked about.
        subject: finds what the path names, or raises; asked before a bad body is told, as what
            is not there is told first.
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
    """One request for one action, allowed and read.

    `minor` is the microversion without its `1.`. `data` is the body as plain JSON values, which its
    shape has passed: whole numbers are ints within 64 bits, and no text holds U+0000 or half a
    surrogate pair. `query` has every parameter in the order given, decoded.
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
        """The id of the request."""
        return request_id_of(self.scope)

    def key(self, name: str) -> str:
        """Return a parameter of the path."""
        value: str = self.scope["path_params"][name]
        return value

    def last(self, name: str) -> str | None:
        """Return a parameter of the query; of several with one name the last."""
        return next((value for key, value in reversed(self.query) if key == name), None)

    def every(self, name: str) -> list[str]:
        """Return all parameters of the query with one name."""
        return [value for key, value in self.query if key == name]

    def link(self, path: str) -> str:
        """Return a link to a path of this API, as bodies have them: without the host."""
        return f"{self.parts.prefix}{path}"

    def location(self, path: str) -> Header:
        """Return the header that tells where something is now, with the host that was asked."""
        return (b"location", f"{root_url(self.scope)}{self.parts.prefix}{path}".encode())


Handler = Callable[[PlacementCall], Awaitable[PlacementReply]]


def json_reply(
    value: object,
    status: int = 200,
    headers: tuple[Header, ...] = (),
    modified_s: float | None = None,
) -> PlacementReply:
    """Make an answer of a value that is written as JSON."""
    return PlacementReply(status, encode(value), headers, modified_s)
