"""Lists the servers of child zones, which come after this zone's own servers.

The marker of a page is a server of this zone or of a child, so it determines where the list
continues. A zone therefore needs to know only its own servers and those that it has sent to its
children.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast
from urllib.parse import urlencode

from berth.api.compute.handlers.servers.child_requests import (
    Json,
    ask_child,
    invalid_response,
    marks_of,
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
"""The response header of a list without the servers of some children.

It names these children to administrators, and this zone to its parent. Tenants must not learn which
zones there are, so they get `SOME`.
"""
SOME: Final = "some"

# The parameters that are not passed on, because a child is asked for the servers of one tenant, and
# for a page of its own.
_OWN_PARAMETERS: Final = frozenset(
    {"limit", "marker", "all_tenants", "project_id", "tenant_id", "host"}
)
_OK: Final = 200
# A child may list servers of the same project that this zone did not send there. If the first page
# contains no server that this zone sent there, pages of `_READ_ON` servers are read until one
# contains such a server; after `_PAGES_MAX` pages in all, the child is treated as unavailable.
_READ_ON: Final = 1000
_PAGES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Below:
    """The servers of a list that are in child zones.

    `remotes` are the records of these servers by uuid. `project_id` is the project of all of them.
    `marks` are the loop tokens of the zones that the request has passed through, including this
    zone.
    """

    remotes: Mapping[str, RemoteInstance]
    project_id: str
    marks: tuple[bytes, ...]

    def zone_of(self, marker: str | None) -> int | None:
        """Return the id of the child in which the list continues after a marker.

        The result is None if there is no marker or the marker is not a server of a child.
        """
        remote = None if marker is None else self.remotes.get(marker)
        return None if remote is None else remote.zone_id


@dataclass(slots=True)
class BelowPage:
    """A page of the children's servers, as the children show them.

    `has_more` is true if the list continues after the page. `unanswered` has the names for the
    header `MISSING`.
    """

    servers: list[Json] = field(default_factory=list["Json"])
    has_more: bool = False
    unanswered: list[str] = field(default_factory=list[str])

    @property
    def headers(self) -> tuple[Header, ...]:
        """The header that names the zones in `unanswered`; an empty tuple if there are none."""
        if not self.unanswered:
            return ()
        return ((MISSING, ", ".join(self.unanswered).encode()),)


async def below_of(call: Call, query: InstanceQuery) -> Below | None:
    """Return the servers of a list that are in children, or None if the children are not asked.

    Children are asked on behalf of one project. A list of all projects therefore contains only this
    zone's servers, unless it is limited to a reservation, which belongs to one project. Lists by
    host and lists of deleted servers never include the servers of children.

    Raises:
        InvalidInputError: a loop token of the request is malformed, or there are too many.
    """
    is_own_alone = query.host is not None or query.deleted or _lists_deleted(call)
    if call.parts.zones is None or is_own_alone:
        return None
    if query.project_id is None and query.reservation_id is None:
        return None
    marks = marks_of(call)
    if call.parts.zones.loop_tokens.is_among(marks):
        # The request came from this zone through a loop of zones. The first request, which this
        # zone is still serving, lists the children.
        return None
    found = await call.parts.ledger.remote_instances(
        project_id=query.project_id, reservation_id=query.reservation_id
    )
    # The owner of a withdrawn instance must not see it, even if the child still has it.
    found = [one for one in found if one.stage is not RemoteInstanceStage.WITHDRAWING]
    if not found:
        return None
    owner = found[0].project_id
    remotes = {one.instance_uuid: one for one in found if one.project_id == owner}
    return Below(remotes, owner, (*marks, call.parts.zones.loop_tokens.new()))


async def page_below(call: Call, below: Below, *, limit: int, marker: str | None) -> BelowPage:
    """Return up to `limit` servers of the children, after the marker if it is in a child.

    The page names the children that do not answer; the list does not fail because of them.

    Args:
        call: the request for the list.
        below: the servers of the list that are in children.
        limit: the maximum number of servers on the page.
        marker: the last server of the previous page, which may be a server of this zone; None for
            the first page.
    """
    first = below.zone_of(marker)
    # The children have a fixed order, and so have the servers of each child, so pages are stable.
    zone_ids = sorted({one.zone_id for one in below.remotes.values()})
    asked = [zone_id for zone_id in zone_ids if first is None or zone_id >= first]
    answers = await asyncio.gather(
        *(
            _ask(call, below, zone_id, limit, marker if zone_id == first else None)
            for zone_id in asked
        )
    )
    page = _joined([one for one in answers if one is not None], limit)
    parts = call.parts.zones
    if page.unanswered and parts is not None and not call.identity.is_admin:
        # Parents must not learn which zones are under this one either.
        page.unanswered = [SOME if call.identity.parent is None else parts.name]
    return page


@dataclass(slots=True)
class _Answer:
    """The response of one child; `servers` is None if it did not answer.

    `is_whole` is false if servers of zones under the child are missing.
    """

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
        # A zone that an operator removed is left out. If it were reported as missing, every list
        # would report it forever.
        return None
    state = parts.watch.states().get(zone_id)
    # A zone that is known to be down is not asked, because the request would wait until the
    # timeout. A disabled zone is asked, because it still has servers.
    if state is not None and not state.is_up:
        return _Answer(zone.name)
    try:
        async with asyncio.timeout(time_left_s(call, parts.select_timeout_s)):
            return await _read_on(call, below, zone, _Asked(limit, marker))
    except (UnavailableError, TimeoutError) as error:
        call.parts.telemetry.failure("zone_list_failed", error, zone=zone.name)
        return _Answer(zone.name)


async def _read_on(call: Call, below: Below, zone: Zone, first: "_Asked") -> _Answer:
    """Return the first page of a child's list with a server that this zone has sent there.

    The child may have other servers of the same project, which were created without this zone. If
    the list ends before such a page, its last page is returned.

    Raises:
        UnavailableError: the child does not answer, its response fails validation, or ten pages
            contain no server that this zone has sent there.
    """
    asked = first
    for _ in range(_PAGES_MAX):
        page = await _ask_page(call, below, zone, asked)
        # If the last server of a page is the marker, the next page would be the same.
        if page.answer.servers or not page.answer.has_more or page.last in {None, asked.marker}:
            return page.answer
        asked = _Asked(_READ_ON, page.last)
    raise UnavailableError(
        f"cannot list the servers of zone {zone.name}: the first {_PAGES_MAX} pages of its list "
        "contain only servers that this zone did not send there; list them in that zone"
    )


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
    """The limit and the marker of the page that a child is asked for."""

    limit: int
    marker: str | None


class _ChildPage(NamedTuple):
    """A page of a child, and the uuid of its last server, which this zone need not know.

    `last` is None if the page is empty or its last server has no uuid.
    """

    answer: _Answer
    last: str | None


def _read(
    call: Call, below: Below, zone: Zone, answer: ForwardedResponse, asked: _Asked
) -> _ChildPage:
    """Return the servers in a child's response that this zone has sent there, each once.

    Servers of other projects and unknown servers are dropped. The marker is also dropped, because a
    page that ends with it would be followed by the same page.

    Raises:
        UnavailableError: the status is not 200, or the body fails validation.
    """
    if answer.status != _OK:
        raise UnavailableError(
            f"zone {zone.name} responded to a list request with status {answer.status}; see its log"
        )
    body = read_answer(call, zone, answer)
    listed = body.get("servers")
    if not isinstance(listed, list):
        raise invalid_response(call, zone)
    servers = cast("list[object]", listed)
    found: dict[str, Json] = {}
    for server in servers[: asked.limit]:
        uuid = _sent_there(server, below, zone)
        if uuid is not None and uuid != asked.marker:
            found[uuid] = cast("Json", server)
            if call.operation.path.endswith("/detail"):
                add_reservation(call, found[uuid], below.remotes[uuid])
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
    remote = below.remotes.get(uuid) if isinstance(uuid, str) else None
    if remote is None or remote.zone_id != zone.zone_id:
        return None
    is_known = is_theirs(shown, remote.instance_uuid, below.project_id)
    return remote.instance_uuid if is_known else None


def _joined(answers: Sequence[_Answer], limit: int) -> BelowPage:
    page = BelowPage()
    for answer in answers:
        if answer.servers is None or not answer.is_whole:
            page.unanswered.append(answer.name)
        if answer.servers is None or page.has_more:
            continue
        left = limit - len(page.servers)
        page.servers += answer.servers[:left]
        # If a child has more servers than fit, the servers of later children come on later pages,
        # after the rest of this child's servers.
        page.has_more = len(answer.servers) > left or bool(answer.servers and answer.has_more)
    return page


def _lists_deleted(call: Call) -> bool:
    statuses: Iterable[str] = (text for name, text in call.query_items() if name == "status")
    return any(text.upper() == "DELETED" for text in statuses)
