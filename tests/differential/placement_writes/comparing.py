"""What two answers to one request say differently."""

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
"""Lists that have no order."""
_FAILS_SINCE: Final = 400


class Exchange(NamedTuple):
    """One request, and what both sides answer.

    Attributes:
        sent: the request.
        berth: what Berth answers.
        real: what Placement answers.
    """

    sent: Sent
    berth: Said
    real: Said

    @property
    def diverges(self) -> bool:
        """Only one of the sides may have changed something."""
        fails = [said.status >= _FAILS_SINCE for said in (self.berth, self.real)]
        return self.sent.method != "GET" and fails[0] != fails[1]


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says, but for what must differ: times, ids of requests, uuids made there.

    Attributes:
        status: of HTTP.
        code: of an error.
        text: what is wrong, without the schema.
        body: JSON of a success, and what else is told of an error.
        headers: what clients look at.
    """

    status: int
    code: str
    text: str
    body: object
    headers: Mapping[str, str]


def told(said: Said) -> Told:
    """Read an answer."""
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
    """Yield everything that the two sides say differently."""
    berth, real = told(exchange.berth), told(exchange.real)
    if berth.status != real.status:
        yield Difference("status", (berth.status, berth.text), (real.status, real.text))
        return
    for what in ("code", "text", "body", "headers"):
        mine, theirs = getattr(berth, what), getattr(real, what)
        if mine != theirs:
            yield Difference(what, mine, theirs)


def _masked(text: str) -> str:
    """Leave out uuids that a side has made."""
    return _UUID.sub(lambda found: found[0] if found[0] in UUIDS else "made here", text)


def _plain(text: str) -> str:
    return text.partition("Failed validating")[0].strip()


def _bare(value: object) -> object:
    """Return JSON without what must differ, lists that have no order in one."""
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
"""Headers that clients look at, and what must be the same of each."""
