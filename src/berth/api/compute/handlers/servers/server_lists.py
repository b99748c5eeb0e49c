"""Handlers for server lists, with filters, sorting and paging over this zone and its children."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.server_filters import Accepts, accepts, check_parameters
from berth.api.compute.handlers.servers.server_sorting import (
    SORTED_MAX,
    Sorting,
    marker_of,
    sorting_of,
)
from berth.api.compute.handlers.servers.tree_lists import BelowPage, below_of, page_below
from berth.api.compute.schemas.server_views import ServerLinesAnswer, ServersAnswer
from berth.api.compute.schemas.servers import ServersQuery
from berth.api.compute.views.servers import ServerWriter
from berth.api.errors import HttpError
from berth.api.links import Link, limit_of, next_page
from berth.api.routing import Answer, Call
from berth.api.values import flag, moment
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import status_shown
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.ports.ledger import InstanceQuery

Links = tuple[Link, ...] | UnsetType

# The limits on the number of instances that one query of the ledger reads. The lower one applies if
# a filter may reject most instances; the upper one bounds the memory and the time of the query.
_FETCHED_AT_LEAST = 100
_FETCHED_AT_MOST = 5_000
# Microversion 2.38 refuses statuses that do not exist.
_STATUS_CHECKED = (2, 38)
# All statuses that Berth or Nova may show.
_SHOWN = frozenset(
    {"PASSWORD"}
    | {status.value for status in Status}
    | {status_shown(status, task) for status in Status for task in Task}
)


async def list_servers(call: Call) -> Answer:
    """List servers with id, name and links, sorted as requested; those of child zones are last.

    Raises:
        HttpError: 403 when the caller asks for all projects or for deleted servers and is not an
            administrator.
        InvalidInputError: a parameter is invalid; the error names it.
    """
    page = await _page(call)
    writer = ServerWriter(call)
    lines = [writer.line(instance) for instance in page.own]
    answer = ServerLinesAnswer(servers=lines, servers_links=page.links)
    return _with_those_below(answer, page)


async def list_servers_in_detail(call: Call) -> Answer:
    """List servers with all fields, sorted as requested; those of child zones are last.

    Raises:
        HttpError: 403 when the caller asks for all projects or for deleted servers and is not an
            administrator.
        InvalidInputError: a parameter is invalid; the error names it.
    """
    page = await _page(call)
    writer = ServerWriter(call)
    views = [writer.view(instance) for instance in page.own]
    answer = ServersAnswer(servers=views, servers_links=page.links)
    return _with_those_below(answer, page)


class _Page(NamedTuple):
    """One page of a list.

    `own` are the instances of this zone. `links` leads to the next page; it is UNSET on the last
    page. `below` contains the servers of the children, or is None if the children were not asked.
    """

    own: Sequence[Instance] = ()
    links: Links = UNSET
    below: BelowPage | None = None


def _with_those_below(answer: ServerLinesAnswer | ServersAnswer, page: _Page) -> Answer:
    below = page.below
    if below is None:
        return Answer(answer)
    # An instance in transfer is in both lists until its whole request has arrived in the child, so
    # the child's entry is dropped.
    own = {instance.uuid for instance in page.own}
    others = [server for server in below.servers if server["id"] not in own]
    body: dict[str, object] = {"servers": [*answer.servers, *others]}
    if page.links is not UNSET:
        body["servers_links"] = page.links
    return Answer(body, below.headers)


async def _page(call: Call) -> _Page:
    asked = call.query(ServersQuery)
    sorting = sorting_of(call)
    check_parameters(call)
    limit = limit_of(call, asked.limit)
    words = _status_words(call)
    statuses = _statuses(words)
    if words is not None and not words & _SHOWN and call.version >= _STATUS_CHECKED:
        raise InvalidInputError(
            "status",
            f"{', '.join(sorted(words))[:80]!r} is not the status of a server; correct it, or "
            "leave it out",
        )
    # As in Nova, the response to a limit of 0 or to statuses that no server has is an empty list.
    if limit == 0 or statuses == set():
        return _Page()
    query = _query(call, asked, statuses)
    below = await below_of(call, query)
    found: list[Instance] = []
    # If the marker is in a child, earlier pages have listed all of this zone's own servers.
    # Otherwise one more instance than the limit is read, to find out whether there is a next page.
    if below is None or below.zone_of(asked.marker) is None:
        test = accepts(call, asked, words)
        if sorting is None:
            found = await _find(call, query, test, limit + 1)
        else:
            found = (await _find_sorted(call, query, test, sorting))[: limit + 1]
    if len(found) > limit or (below is not None and len(found) == limit):
        # If this zone's own servers fill the page, its children are not asked. If they fill it
        # exactly, the page links to the next one, which begins with the children's servers.
        return _Page(found[:limit], next_page(call, found[limit - 1].uuid, limit))
    if below is None:
        return _Page(found)
    rest = await page_below(call, below, limit=limit - len(found), marker=asked.marker)
    if not rest.has_more:
        return _Page(found, UNSET, rest)
    last = str(rest.servers[-1]["id"])
    return _Page(found, next_page(call, last, limit), rest)


async def _find_sorted(
    call: Call, query: InstanceQuery, accepts: Accepts | None, sorting: Sorting
) -> list[Instance]:
    """Return all accepted instances after the marker, sorted.

    Raises:
        InvalidInputError: there are more than `SORTED_MAX`, or the marker is unknown.
    """
    # The ledger supports only one order. For another order, each page needs all instances in
    # memory, and the marker is applied after sorting and not in the query.
    uuid = query.marker
    marker = None if uuid is None else await marker_of(call, uuid, query.project_id)
    found = await _find(call, replace(query, marker=None), accepts, SORTED_MAX + 1)
    if len(found) > SORTED_MAX:
        raise InvalidInputError(
            "sort_key", f"cannot sort more than {SORTED_MAX} servers; filter the list"
        )
    return sorting.sort(found) if marker is None else sorting.after(found, marker)


async def _find(
    call: Call, query: InstanceQuery, accepts: Accepts | None, wanted: int
) -> list[Instance]:
    """Return up to `wanted` accepted instances in the ledger's order, read in batches.

    Raises:
        InvalidInputError: the marker is unknown.
    """
    found: list[Instance] = []
    marker = query.marker
    fetched = wanted if accepts is None else max(wanted, _FETCHED_AT_LEAST)
    fetched = min(fetched, _FETCHED_AT_MOST)
    while True:
        query = replace(query, marker=marker, limit=fetched)
        try:
            batch = await call.parts.ledger.instances(query)
        except NotFoundError as error:
            raise InvalidInputError("marker", f"[{marker}] could not be found") from error
        found += batch if accepts is None else filter(accepts, batch)
        if len(batch) < fetched or len(found) >= wanted:
            return found[:wanted]
        marker = batch[-1].uuid


def _query(call: Call, asked: ServersQuery, statuses: set[Status] | None) -> InstanceQuery:
    is_admin = call.identity.is_admin
    since_s = None if asked.changes_since is None else moment(asked.changes_since, "changes-since")
    return InstanceQuery(
        project_id=_project(call, asked),
        # As in Nova, `host` is ignored unless the caller is an administrator, because the filter
        # would reveal where servers run.
        host=(asked.host or None) if is_admin else None,
        status=next(iter(statuses)) if statuses and len(statuses) == 1 else None,
        reservation_id=asked.reservation_id or None,
        deleted=_deleted(call, asked, statuses, since_s),
        # Soft-deleted servers count as deleted unless the query asks for their status, so that
        # other lists omit them.
        soft_too=statuses is None or Status.SOFT_DELETED not in statuses,
        changed_since_s=since_s,
        marker=asked.marker,
    )


def _project(call: Call, asked: ServersQuery) -> str | None:
    """Return the project whose servers are listed, or None for all projects.

    Raises:
        HttpError: 403 when `all_tenants` is true and the caller is not an administrator.
    """
    # As in Nova, `all_tenants` without a value means true.
    everywhere = asked.all_tenants is not None and (
        asked.all_tenants == "" or flag(asked.all_tenants, "all_tenants")
    )
    if not everywhere:
        return call.identity.project_id
    if not call.identity.is_admin:
        raise HttpError(403, "Only administrators may list the servers of all projects.")
    return asked.project_id or asked.tenant_id or None


def _deleted(
    call: Call, asked: ServersQuery, statuses: set[Status] | None, since_s: float | None
) -> bool | None:
    """Return whether to list deleted servers (True), existing ones (False) or both (None).

    Raises:
        HttpError: 403 when the caller asks for deleted servers and is not an administrator.
    """
    wanted = asked.deleted is not None and flag(asked.deleted, "deleted")
    if (wanted or statuses == {Status.DELETED}) and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may list deleted servers.")
    if wanted:
        return True
    if statuses and Status.DELETED in statuses:
        return None
    # A client that follows changes has to learn of deletions, so a list with `changes-since` or
    # `changes-before` includes deleted servers unless `deleted` is given.
    is_of_period = since_s is not None or asked.changes_before is not None
    return None if is_of_period and asked.deleted is None else False


def _status_words(call: Call) -> set[str] | None:
    """Return the requested statuses in upper case, as clients see them, or None for any."""
    asked = {value.upper() for name, value in call.query_items() if name == "status"}
    return asked or None


def _statuses(asked: set[str] | None) -> set[Status] | None:
    """Return the stored statuses that can be shown as the requested ones, or None for any.

    Statuses that Berth does not have are left out.
    """
    if asked is None:
        return None
    shown = {status for status in Status if status.value in asked}
    for status in Status:
        shown |= {status for task in Task if status_shown(status, task) in asked}
    return shown
