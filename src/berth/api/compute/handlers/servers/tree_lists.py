"""Lists of servers over the tree: this zone's own first, then those of each child that has some.

A page ends where the next one begins: at a server, of this zone or of a child, which says by itself
in which of the two the list goes on. So no zone has to know more than its own servers, and where
it has sent others.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast
from urllib.parse import urlencode

from berth.api.compute.handlers.servers.child_requests import (
    Json,
    ask_child,
    marks_of,
    odd,
    read_answer,
    server_path,
    time_left_s,
)
from berth.api.compute.handlers.servers.forwarding import add_reservation, is_theirs
from berth.api.compute.offers.orders import UUID
from berth.api.errors import Header
from berth.api.routing import Call
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.ports.ledger import InstanceQuery
from berth.ports.zones import ForwardedRequest, ForwardedResponse

MISSING: Final = b"x-berth-zones-missing"
"""Names the children whose servers are missing in a list, or some of whose are."""

_OWN_PARAMETERS: Final = frozenset(
    {"limit", "marker", "all_tenants", "project_id", "tenant_id", "host"}
)
"""Parameters that are not for children: what is asked of them is for one tenant, page by page."""
_OK: Final = 200
_READ_ON: Final = 1000
_PAGES_MAX: Final = 10
"""Most pages, of that many servers, that are read of a child for one that has any from here."""


@dataclass(frozen=True, slots=True)
class Below:
    """Where servers of a list are, beside this zone: by instance, and by child in their order.

    `marks` are of the zones that the list came through, and of this one.
    """

    errands: Mapping[str, RemoteInstance]
    project_id: str
    marks: tuple[bytes, ...]

    def zone_of(self, marker: str | None) -> int | None:
        """Return the child in which a list goes on after a marker; None for this zone itself."""
        errand = None if marker is None else self.errands.get(marker)
        return None if errand is None else errand.zone_id


@dataclass(slots=True)
class BelowPage:
    """Servers of children, as they show them; `has_more` says that the list goes on after them."""

    servers: list[Json] = field(default_factory=list["Json"])
    has_more: bool = False
    unanswered: list[str] = field(default_factory=list[str])

    @property
    def headers(self) -> tuple[Header, ...]:
        """What the answer says of children that are missing in it."""
        if not self.unanswered:
            return ()
        return ((MISSING, ", ".join(self.unanswered).encode()),)


async def below_of(call: Call, query: InstanceQuery) -> Below | None:
    """Return which servers of a list children may have; None when there are none.

    Children are asked for one project alone: an administrator who lists those of all projects
    sees this zone's own, but for a reservation, which is of one project. Hosts, and what was
    deleted, are told by each zone of its own alone.
    """
    is_own_alone = query.host is not None or query.deleted or _lists_deleted(call)
    if call.parts.zones is None or is_own_alone:
        return None
    if query.project_id is None and query.reservation_id is None:
        return None
    marks = marks_of(call)
    if call.parts.zones.loop_tokens.is_among(marks):
        return None  # whoever asks asks for this zone's own list, where they are already
    found = await call.parts.ledger.remote_instances(
        project_id=query.project_id, reservation_id=query.reservation_id
    )
    # What is being taken back is nobody's any more, whether the child has it still or not.
    found = [one for one in found if one.stage is not RemoteInstanceStage.WITHDRAWING]
    if not found:
        return None
    owner = found[0].project_id
    errands = {one.instance_uuid: one for one in found if one.project_id == owner}
    return Below(errands, owner, (*marks, call.parts.zones.loop_tokens.new()))


async def page_below(call: Call, below: Below, *, limit: int, marker: str | None) -> BelowPage:
    """Return up to so many servers of children, after the marker where that is one of theirs.

    Children that do not answer are named, and fail nothing.
    """
    first = below.zone_of(marker)
    zone_ids = sorted({one.zone_id for one in below.errands.values()})
    asked = [zone_id for zone_id in zone_ids if first is None or zone_id >= first]
    answers = await asyncio.gather(
        *(
            _ask(call, below, zone_id, limit, marker if zone_id == first else None)
            for zone_id in asked
        )
    )
    page = _joined([one for one in answers if one is not None], limit)
    parts = call.parts.zones
    if page.unanswered and parts is not None and call.identity.parent is not None:
        page.unanswered = [parts.name]  # parents do not learn which zones are below
    return page


@dataclass(slots=True)
class _Answer:
    """What one child answered; `servers` is None when it did not."""

    name: str
    servers: list[Json] | None = None
    has_more: bool = False
    is_whole: bool = True


async def _ask(
    call: Call, below: Below, zone_id: int, limit: int, marker: str | None
) -> _Answer | None:
    parts = call.parts.zones
    zone = None if parts is None else parts.watch.zone_of(zone_id)
    if parts is None or zone is None:
        return None  # it was removed: that its servers are missing is no news, and mends itself not
    state = parts.watch.states().get(zone_id)
    if state is not None and not state.is_up:  # one that is disabled has servers all the same
        return _Answer(zone.name)
    try:
        async with asyncio.timeout(time_left_s(call, parts.select_timeout_s)):
            return await _read_on(call, below, zone, _Asked(limit, marker))
    except (UnavailableError, TimeoutError) as error:
        call.parts.telemetry.failure("zone_list_failed", error, zone=zone.name)
        return _Answer(zone.name)


async def _read_on(call: Call, below: Below, zone: Zone, first: "_Asked") -> _Answer:
    """Read a child's list until a server comes that was sent from here, or it ends.

    The child may have others of the same project, which were made there without this zone.

    Raises:
        UnavailableError: the child does not answer, or answers nothing that could be believed.
    """
    asked = first
    for _ in range(_PAGES_MAX):
        page = await _ask_page(call, below, zone, asked)
        if page.answer.servers or not page.answer.has_more or page.last in {None, asked.marker}:
            return page.answer
        asked = _Asked(_READ_ON, page.last)
    raise UnavailableError(f"zone {zone.name} has a long list with nothing from here")


async def _ask_page(call: Call, below: Below, zone: Zone, asked: "_Asked") -> "_ChildPage":
    parts = call.parts.zones
    most_s = 0.0 if parts is None else parts.select_timeout_s
    answer = await ask_child(
        call,
        zone,
        ForwardedRequest("GET", _path(call, asked.limit, asked.marker)),
        tenant=(below.project_id, call.identity.user_id),
        within_s=time_left_s(call, most_s),
        marks=below.marks,
    )
    return _read(call, below, zone, answer, asked)


def _path(call: Call, limit: int, marker: str | None) -> str:
    items = [(name, text) for name, text in call.query_items() if name not in _OWN_PARAMETERS]
    items.append(("limit", str(limit)))
    if marker is not None:
        items.append(("marker", marker))
    path = f"{server_path()}/detail" if call.operation.path.endswith("/detail") else server_path()
    return f"{path}?{urlencode(items)}"


class _Asked(NamedTuple):
    """What page a child was asked for."""

    limit: int
    marker: str | None


class _ChildPage(NamedTuple):
    """A page of a child, and the id of the last server on it, whoever has made that."""

    answer: _Answer
    last: str | None


def _read(
    call: Call, below: Below, zone: Zone, answer: ForwardedResponse, asked: _Asked
) -> _ChildPage:
    """Believe of a child's answer what this zone has sent there, for that project, each once.

    The server that the page comes after is not on it, or the next page would be the same.
    """
    if answer.status != _OK:
        raise UnavailableError(f"zone {zone.name} answered a list with {answer.status}")
    body = read_answer(call, zone, answer)
    listed = body.get("servers")
    if not isinstance(listed, list):
        raise odd(call, zone)
    servers = cast("list[object]", listed)
    found: dict[str, Json] = {}
    for server in servers[: asked.limit]:
        uuid = _sent_there(server, below, zone)
        if uuid is not None and uuid != asked.marker:
            found[uuid] = cast("Json", server)
            if call.operation.path.endswith("/detail"):
                add_reservation(call, found[uuid], below.errands[uuid])
    read = _Answer(
        zone.name,
        list(found.values()),
        has_more="servers_links" in body or len(servers) > asked.limit,
        is_whole=MISSING.decode() not in answer.headers,
    )
    return _ChildPage(read, _id_of(servers[: asked.limit]))


def _id_of(servers: Sequence[object]) -> str | None:
    if not servers or not isinstance(servers[-1], dict):
        return None
    uuid = cast("Json", servers[-1]).get("id")
    return uuid if isinstance(uuid, str) and UUID.fullmatch(uuid) else None


def _sent_there(server: object, below: Below, zone: Zone) -> str | None:
    if not isinstance(server, dict):
        return None
    shown = cast("Json", server)
    uuid = shown.get("id")
    errand = below.errands.get(uuid) if isinstance(uuid, str) else None
    if errand is None or errand.zone_id != zone.zone_id:
        return None
    is_known = is_theirs(shown, errand.instance_uuid, below.project_id)
    return errand.instance_uuid if is_known else None


def _joined(answers: Sequence[_Answer], limit: int) -> BelowPage:
    page = BelowPage()
    for answer in answers:
        if answer.servers is None or not answer.is_whole:
            page.unanswered.append(answer.name)
        if answer.servers is None or page.has_more:
            continue
        left = limit - len(page.servers)
        page.servers += answer.servers[:left]
        # What comes after a page that was cut belongs behind the rest of it.
        page.has_more = len(answer.servers) > left or bool(answer.servers and answer.has_more)
    return page


def _lists_deleted(call: Call) -> bool:
    statuses: Iterable[str] = (text for name, text in call.query_items() if name == "status")
    return any(text.upper() == "DELETED" for text in statuses)
