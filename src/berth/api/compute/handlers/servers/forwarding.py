"""Forwards requests for servers in child zones to the children, on behalf of the tenants."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Final, cast
from urllib.parse import quote, urlencode

from berth.api.assertions import AssertedIdentity
from berth.api.codec import decode
from berth.api.compute.handlers.servers.child_requests import (
    REQUEST_ID_HEADER,
    Json,
    ask_child,
    invalid_response,
    read_answer,
    server_path,
    time_left_s,
)
from berth.api.compute.handlers.servers.named_actions import action_asked, body_below, resized_to
from berth.api.compute.handlers.servers.remote_consoles import NO_CONSOLE
from berth.api.compute.offers.orders import UUID
from berth.api.compute.views.servers import EXTENDED
from berth.api.errors import Header, HttpError
from berth.api.header_fields import root_url
from berth.api.parts import ZoneParts
from berth.api.routing import Answer, ApiOperation, Call
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Remove
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.ports.zones import ForwardedRequest, ForwardedResponse, NotAskedError
from berth.services.providers.guarded_saves import save
from berth.services.zoning.delegation.release import withdrawn_ms

_Handler = Callable[[Call], Awaitable[Answer]]

_SERVERS: Final = server_path()
_SERVER: Final = f"{_SERVERS}/{{server_id}}"
# The methods whose response, on the path of a server, shows that server.
_SHOWING: Final = frozenset({"GET", "PUT"})
_SUCCESSES: Final = frozenset({200, 201, 202, 204})
_NO_CONTENT: Final = 204
_NOT_FOUND: Final = 404
# The statuses that are passed on, because the tenant's request caused them. Other failures are the
# child's or this zone's, and the tenant gets a 503.
_REFUSALS: Final = frozenset({400, 403, 404, 405, 406, 409, 413, 415, 429, 501})
UNREACHABLE: Final = "the server cannot be reached at present; try again"
"""The message for tenants when the child zone with a server does not answer."""
_MESSAGE_MAX: Final = 1000
_REQUEST_ID: Final = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VNC_CONSOLE: Final = "os-getVNCConsole"
_CONSOLES: Final = f"{_SERVER}/remote-consoles"
_FORCE_DELETE: Final = "forceDelete"
_RESERVATION: Final = "OS-EXT-SRV-ATTR:reservation_id"
# The actions that end a resize, and whether they restore the previous size.
_ENDS: Final = {"confirmResize": False, "revertResize": True}


def over_tree(operations: Iterable[ApiOperation]) -> tuple[ApiOperation, ...]:
    """Return the operations, with those on servers extended to servers in child zones."""
    return tuple(map(_over_tree, operations))


def _over_tree(operation: ApiOperation) -> ApiOperation:
    if operation.path != _SERVERS and not operation.path.startswith(f"{_SERVERS}/"):
        return operation
    handler = operation.handler
    if "{server_id}" in operation.path:
        handler = _or_below(handler)
    return replace(operation, handler=handler, stated=AssertedIdentity.MAY)


def _or_below(handler: _Handler) -> _Handler:
    """Return a handler that forwards a request to a child if only the child has the server."""

    @wraps(handler)
    async def ask(call: Call) -> Answer:
        _adopt_parent_id(call)
        try:
            return await handler(call)
        except NotFoundError as error:
            # A request is forwarded only if this zone lacks the server. If a tag or metadata item
            # is missing, this zone has the server.
            if (error.noun, error.key) != ("instance", call.key("server_id")):
                raise
            remote = await visible_remote(call, call.key("server_id"))
            if remote is None:
                raise
            return await _forward_for(call, remote)

    return ask


async def _forward_for(call: Call, remote: RemoteInstance) -> Answer:
    try:
        return await _forward(call, remote)
    except UnavailableError as error:
        if call.identity.is_admin:
            raise
        # The message must not name the zone or mention zones, because neither tenants nor parents
        # may learn which zones there are and where a server is.
        raise UnavailableError(UNREACHABLE) from error


def _adopt_parent_id(call: Call) -> None:
    """Give a parent's request the id that the parent gave it, so that one id finds it everywhere.

    This is done only for requests about one server, because a create derives uuids from its id.
    """
    text = call.header(REQUEST_ID_HEADER) if call.identity.parent is not None else None
    if text is not None and _REQUEST_ID.fullmatch(text):
        call.repeat(text)


async def visible_remote(call: Call, uuid: str) -> RemoteInstance | None:
    """Return the record of a server in a child zone.

    The result is None if there is no such record, the caller may not see it, this deployment is not
    a zone, or the server was deleted during its transfer to the child.
    """
    # Ids that are not uuids are refused before the ledger is read.
    if call.parts.zones is None or UUID.fullmatch(uuid) is None:
        return None
    remote = await call.parts.ledger.get(RemoteInstance, uuid)
    if remote is None or call.project_id not in {None, remote.project_id}:
        return None
    # An instance that its owner deletes during the transfer is withdrawn from the child.
    stored = await call.parts.ledger.get(Instance, uuid)
    if stored is not None and stored.status is Status.DELETED and withdrawn_ms(stored) is None:
        return None
    return remote


async def _forward(call: Call, remote: RemoteInstance) -> Answer:
    if action_asked(call) == _VNC_CONSOLE or call.operation.path == _CONSOLES:
        # The URL would contain the address of the child.
        raise HttpError(501, NO_CONSOLE)
    zone = zone_with(call, remote)
    body, flavor = await body_below(call), await resized_to(call)
    # Only a resize and its end change the size that this zone's quotas charge for the server.
    if flavor is None and action_asked(call) not in _ENDS:
        answer = await _ask(call, zone, remote, body)
    else:
        answer = await _ask_counted(call, zone, remote, body, flavor)
    if answer.status in _SUCCESSES:
        # The response is validated before the usage changes, because a response about another
        # server must not change it.
        shown = _success(call, zone, remote, answer)
        await _count_anew(call, remote)
        return shown
    # On a path under that of a server, a 404 may mean that an item of the server is missing.
    if answer.status == _NOT_FOUND and call.operation.path == _SERVER:
        await _forget(call, remote)
        raise NotFoundError("instance", remote.instance_uuid)
    if answer.status in _REFUSALS:
        raise HttpError(answer.status, _message(answer))
    raise UnavailableError(f"zone {zone.name} failed to serve the request; try again")


async def _ask_counted(
    call: Call, zone: Zone, remote: RemoteInstance, body: bytes, flavor: Flavor | None
) -> ForwardedResponse:
    """Send a resize, or the end of one, and update the size that the quotas charge for the server.

    Before the request is sent, the charge rises to the larger of the two sizes. If the outcome is
    unknown, the charge stays there until `UsageRecount` has asked the child.
    """
    counting, action = _parts(call).counting, action_asked(call)
    begun = await counting.begin(remote, flavor)
    if begun is None:
        return await _ask(call, zone, remote, body)
    try:
        answer = await _ask(call, zone, remote, body)
    except NotAskedError:
        # The child never received the request, so the charge can be undone. After other failures,
        # the outcome is unknown.
        await counting.undo(begun)
        raise
    except UnavailableError:
        await counting.leave_open(begun)
        raise
    if answer.status in _REFUSALS:
        await counting.undo(begun)
    elif answer.status not in _SUCCESSES:
        await counting.leave_open(begun)
    elif action in _ENDS:
        await counting.end(begun, is_reverted=_ENDS[action])
    else:
        await counting.take(begun)
    return answer


async def _ask(call: Call, zone: Zone, remote: RemoteInstance, body: bytes) -> ForwardedResponse:
    # An administrator of another project acts in the name of the server's owner, because this
    # zone's administrators have no rights in the child.
    is_owner = call.identity.project_id == remote.project_id
    user_id = call.identity.user_id if is_owner else remote.user_id
    try:
        return await ask_child(
            call,
            zone,
            ForwardedRequest(_method(call), _path(call), body=body),
            tenant=(remote.project_id, user_id),
            within_s=time_left_s(call, _parts(call).build_timeout_s),
        )
    except UnavailableError as error:
        # The cause goes only to the log: it may contain the child's address, which tenants must
        # not see.
        call.parts.telemetry.failure("zone_request_failed", error, zone=zone.name)
        text = f"zone {zone.name} is unavailable; try again"
        kind = NotAskedError if isinstance(error, NotAskedError) else UnavailableError
        raise kind(text) from error


async def _count_anew(call: Call, remote: RemoteInstance) -> None:
    """Stop charging the quotas for a server if the request has deleted it.

    The record of the server stays until a later request finds that the child no longer has it.
    """
    is_deletion = call.operation.path == _SERVER and _method(call) == "DELETE"
    if is_deletion or action_asked(call) == _FORCE_DELETE:
        await _parts(call).counting.count_no_more(remote)


def _success(call: Call, zone: Zone, remote: RemoteInstance, answer: ForwardedResponse) -> Answer:
    """Return the response for the client, after checking that the child's is about the server.

    Raises:
        UnavailableError: the response fails validation.
    """
    uuid = remote.instance_uuid
    is_view = call.operation.path == _SERVER and _method(call) in _SHOWING
    if not is_view and (answer.status == _NO_CONTENT or not answer.body):
        return Answer(status=answer.status)
    body = read_answer(call, zone, answer)
    has_server = is_view or "server" in body
    if has_server and not is_theirs(body.get("server"), uuid, remote.project_id):
        raise invalid_response(call, zone)
    if is_view:
        add_reservation(call, cast("Json", body["server"]), remote)
    headers: tuple[Header, ...] = ()
    if "location" in answer.headers:
        where = f"{root_url(call.scope)}{server_path(uuid)}"
        headers = ((b"location", where.encode()),)
    return Answer(body, headers, status=answer.status)


def is_theirs(server: object, uuid: str, project_id: str) -> bool:
    """Return whether a child's server has this id and, if it names a project, this project."""
    if not isinstance(server, dict):
        return False
    shown = cast("Json", server)
    return shown.get("id") == uuid and shown.get("tenant_id", project_id) == project_id


def add_reservation(call: Call, server: Json, remote: RemoteInstance) -> None:
    """Add the reservation id, which children leave out, to a server shown to an administrator."""
    if call.identity.is_admin and call.version >= EXTENDED:
        server[_RESERVATION] = remote.reservation_id


def _parts(call: Call) -> ZoneParts:
    parts = call.parts.zones
    if parts is None:
        raise UnavailableError(
            "cannot forward to the server's zone: this deployment has no zone name; set zones.name"
        )
    return parts


def zone_with(call: Call, remote: RemoteInstance) -> Zone:
    """Return the child zone that has a server.

    Raises:
        UnavailableError: the zone is no longer a child of this zone.
    """
    parts = call.parts.zones
    zone = None if parts is None else parts.watch.zone_of(remote.zone_id)
    if zone is None:
        raise UnavailableError(
            f"cannot reach server {remote.instance_uuid}: its zone is no longer a child of this "
            "zone; an operator must add the zone again"
        )
    return zone


async def _forget(call: Call, remote: RemoteInstance) -> None:
    """Remove the record of a server that its child no longer has, unless it is in transfer."""
    # During the transfer, a 404 may mean that the child has not built the server yet.
    if remote.stage is not RemoteInstanceStage.THERE:
        return
    try:
        await save(call.parts.ledger, Remove(Kind.REMOTE_INSTANCE, remote.instance_uuid))
    except ConflictError:
        return  # another process has already removed or changed the record


def _method(call: Call) -> str:
    method: str = call.scope["method"]
    return "GET" if method == "HEAD" else method


def _path(call: Call) -> str:
    """Return the path and the query for a child, built from the parsed parameters.

    Raises:
        InvalidInputError: a path parameter is `.` or `..`.
    """
    # The path is not forwarded as received, because the child could parse the same bytes, such as
    # encoded slashes, into other parameters than those that were checked here.
    keys: dict[str, str] = {}
    for name, key in call.scope["path_params"].items():
        if key in {".", ".."}:
            raise InvalidInputError(name, "must not be . or ..")
        keys[name] = quote(key, safe="")
    path = call.operation.path.format_map(keys)
    query = urlencode(call.query_items())
    return f"{path}?{query}" if query else path


def _message(answer: ForwardedResponse) -> str:
    """Return the first 1,000 characters of the message in a child's error response.

    If the response contains no message, a general one is returned.
    """
    try:
        faults = decode(answer.body, dict[str, Json])
    except InvalidInputError:
        faults = {}
    for fault in faults.values():
        message = fault.get("message")
        if isinstance(message, str):
            return message[:_MESSAGE_MAX]
    return "The request was refused without a reason."
