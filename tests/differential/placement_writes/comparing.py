"""The differences between two answers to one request."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from tests.differential.placement.comparing import Difference
from tests.differential.placement.real import Said
from tests.differential.placement_writes.steps import Sent
from tests.differential.placement_writes.universe import UUIDS

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNORDERED: Final = frozenset({"resource_providers", "resource_classes", "traits", "aggregates"})
"""The keys of lists whose order has no meaning."""
_FAILS_SINCE: Final = 400


class Exchange(NamedTuple):
    """A request and the answers of both sides.

    Attributes:
        sent: the request.
        berth: Berth's answer.
        real: Placement's answer.
    """

    sent: Sent
    berth: Said
    real: Said

    @property
    def diverges(self) -> bool:
        """Whether a write succeeded on only one side, so that their states may differ."""
        fails = [said.status >= _FAILS_SINCE for said in (self.berth, self.real)]
        return self.sent.method != "GET" and fails[0] != fails[1]


@dataclass(frozen=True, slots=True)
class Told:
    """The comparable part of an answer, without times, request ids and uuids created by a side.

    Attributes:
        status: the HTTP status.
        code: the code of an error.
        text: the message of an error, without the schema.
        body: the JSON of a success, or the other fields of an error.
        headers: the headers that clients read.
    """

    status: int
    code: str
    text: str
    body: object
    headers: Mapping[str, str]


def told(said: Said) -> Told:
    """Return the comparable part of an answer."""
    body, code, text = said.json, "", ""
    if said.status >= _FAILS_SINCE and isinstance(body, dict) and "errors" in body:
        (error,) = cast("dict[str, list[dict[str, Any]]]", body)["errors"]
        code, text = error.get("code", ""), error["detail"]
        body = {**error, "code": "", "detail": "", "request_id": "request_id" in error}
    elif said.status >= _FAILS_SINCE:
        text, body = str(body), None
    headers = {
        name: read(said.headers[name]) for name, read in _HEADERS.items() if name in said.headers
    }
    return Told(said.status, code, _masked(_plain(text)), _bare(body), headers)


def differences(exchange: Exchange) -> Iterator[Difference]:
    """Yield every difference between the two sides."""
    berth, real = told(exchange.berth), told(exchange.real)
    if berth.status != real.status:
        yield Difference("status", (berth.status, berth.text), (real.status, real.text))
        return
    for what in ("code", "text", "body", "headers"):
        mine, theirs = getattr(berth, what), getattr(real, what)
        if mine != theirs:
            yield Difference(what, mine, theirs)


def _masked(text: str) -> str:
    """Return the text with placeholders for uuids that a side has created."""
    return _UUID.sub(lambda found: found[0] if found[0] in UUIDS else "made here", text)


def _plain(text: str) -> str:
    return text.partition("Failed validating")[0].strip()


def _bare(value: object) -> object:
    """Return JSON without parts that must differ, with unordered lists sorted."""
    if isinstance(value, str):
        return _masked(value)
    if isinstance(value, list):
        return [_bare(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    bare = {_masked(key): _bare(item) for key, item in cast("dict[str, object]", value).items()}
    for key in _UNORDERED & bare.keys():
        bare[key] = sorted(cast("list[object]", bare[key]), key=_sorting)
    return bare


def _sorting(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _without_host(location: str) -> str:
    return _masked(urlsplit(location)._replace(scheme="", netloc="").geturl())


def _there(_: str) -> str:
    return "there"


def _same(text: str) -> str:
    return text


def _sorted(text: str) -> str:
    return ", ".join(sorted(text.split(", ")))


_HEADERS: Final[Mapping[str, Callable[[str], str]]] = {
    "location": _without_host,
    "openstack-api-version": _same,
    "vary": _same,
    "cache-control": _same,
    "content-type": _same,
    "allow": _sorted,
    "last-modified": _there,
    "x-openstack-request-id": _there,
}
"""The headers that clients read, each with a function that returns its comparable part."""
