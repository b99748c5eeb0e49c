"""Forwarding of requests for servers in child zones to the child, on behalf of their tenants."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Final, cast
from urllib.parse import quote, urlencode

from berth.api.assertions import AssertedIdentity
from berth.api.codec import decode
from berth.api.compute.handlers.servers.child_requests import (
    Json,
    ask_child,
    odd,
    read_answer,
    server_path,
    time_left_s,
)
from berth.api.compute.handlers.servers.named_actions import action_asked, body_below, resized_to
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
# Methods on one server whose response is the server itself.
_SHOWING: Final = frozenset({"GET", "PUT"})
_SUCCESSES: Final = frozenset({200, 201, 202, 204})
_NO_CONTENT: Final = 204
_NOT_FOUND: Final = 404
# Statuses that are passed on, because the tenant's request caused them. Other failures are the
# child's or this zone's, and the tenant gets 503.
_REFUSALS: Final = frozenset({400, 403, 404, 405, 406, 409, 413, 415, 429, 501})
_MESSAGE_MAX: Final = 1000
_FORCE_DELETE: Final = "forceDelete"
_RESERVATION: Final = "OS-EXT-SRV-ATTR:reservation_id"
# Actions that end a resize, and whether they restore the previous size.
_ENDS: Final = {"confirmResize": False, "revertResize": True}


def over_tree(operations: Iterable[ApiOperation]) -> tuple[ApiOperation, ...]:
    """Return the operations with those on servers extended to the child zones."""
    return tuple(map(_over_tree, operations))


def _over_tree(operation: ApiOperation) -> ApiOperation:
    if operation.path != _SERVERS and not operation.path.startswith(f"{_SERVERS}/"):
        return operation
    handler = operation.handler
    if "{server_id}" in operation.path:
        handler = _or_below(handler)
    return replace(operation, handler=handler, stated=AssertedIdentity.MAY)


def _or_below(handler: _Handler) -> _Handler:
    """Return a handler that forwards a request to a child when this zone has no such server."""

    @wraps(handler)
    async def ask(call: Call) -> Answer:
        try:
            return await handler(call)
        except NotFoundError as error:
            # Only a missing server is forwarded. A missing tag or metadata item is this zone's own
            # answer about a server that it has.
            if (error.noun, error.key) != ("instance", call.key("server_id")):
                raise
            errand = await _errand_of(call)
            if errand is None:
                raise
            return await _forward_for(call, errand)

    return ask


async def _forward_for(call: Call, errand: RemoteInstance) -> Answer:
    try:
        return await _forward(call, errand)
    except UnavailableError as error:
        if call.identity.parent is None:
            raise
        # Parents must not learn which zones are below this one.
        raise UnavailableError("a zone further down failed; try again") from error


async def _errand_of(call: Call) -> RemoteInstance | None:
    """Return the record of a server in a child zone, or None when the caller may see none."""
    uuid = call.key("server_id")
    # The form is checked before the ledger is read, as most unknown ids are not even uuids.
    if call.parts.zones is None or UUID.fullmatch(uuid) is None:
        return None
    errand = await call.parts.ledger.get(RemoteInstance, uuid)
    if errand is None or call.project_id not in {None, errand.project_id}:
        return None
    stored = await call.parts.ledger.get(Instance, uuid)
    if stored is not None and stored.status is Status.DELETED and withdrawn_ms(stored) is None:
        return None  # deleted by its owner during the transfer, and being withdrawn from the child
    return errand


async def _forward(call: Call, errand: RemoteInstance) -> Answer:
    zone = await _zone_of(call, errand)
    body, flavor = await body_below(call), await resized_to(call)
    # Only a resize and its end change the size that the server counts with in this zone's quotas.
    if flavor is None and action_asked(call) not in _ENDS:
        answer = await _ask(call, zone, errand, body)
    else:
        answer = await _ask_counted(call, zone, errand, body, flavor)
    if answer.status in _SUCCESSES:
        # The response is validated first: a response that may not be about this server must not
        # change the quota usage.
        shown = _success(call, zone, errand, answer)
        await _count_anew(call, errand)
        return shown
    # On paths below a server, a 404 may mean a missing item of it, not a missing server.
    if answer.status == _NOT_FOUND and call.operation.path == _SERVER:
        await _forget(call, errand)
        raise NotFoundError("instance", errand.instance_uuid)
    if answer.status in _REFUSALS:
        raise HttpError(answer.status, _message(answer))
    raise UnavailableError(f"zone {zone.name} failed to serve the request; try again")


async def _ask_counted(
    call: Call, zone: Zone, errand: RemoteInstance, body: bytes, flavor: Flavor | None
) -> ForwardedResponse:
    """Send a resize, or the end of one, and keep the server's size in the quotas right.

    The server counts with the larger size from before the request is sent. When the outcome is
    unknown it keeps counting so until `UsageRecount` has asked the child.
    """
    counting, action = _parts(call).counting, action_asked(call)
    begun = await counting.begin(errand, flavor)
    if begun is None:
        return await _ask(call, zone, errand, body)
    try:
        answer = await _ask(call, zone, errand, body)
    except NotAskedError:
        # The child never received the request, so this is the one failure that is safe to undo.
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


async def _ask(call: Call, zone: Zone, errand: RemoteInstance, body: bytes) -> ForwardedResponse:
    # An administrator of another project acts in the name of the server's owner: the child knows
    # only the tenant's project, and this zone's administrators have no rights there.
    is_owner = call.identity.project_id == errand.project_id
    user_id = call.identity.user_id if is_owner else errand.user_id
    try:
        return await ask_child(
            call,
            zone,
            ForwardedRequest(_method(call), _path(call), body=body),
            tenant=(errand.project_id, user_id),
            within_s=time_left_s(call, _parts(call).build_timeout_s),
        )
    except UnavailableError as error:
        # The cause goes only to the log: it may contain the child's address, which tenants must
        # not see.
        call.parts.telemetry.failure("zone_request_failed", error, zone=zone.name)
        text = f"zone {zone.name} does not answer; try again"
        kind = NotAskedError if isinstance(error, NotAskedError) else UnavailableError
        raise kind(text) from error


async def _count_anew(call: Call, errand: RemoteInstance) -> None:
    """Stop counting a server that was just deleted.

    Its record stays until a later request finds that the child no longer has the server.
    """
    is_deletion = call.operation.path == _SERVER and _method(call) == "DELETE"
    if is_deletion or action_asked(call) == _FORCE_DELETE:
        await _parts(call).counting.count_no_more(errand)


def _success(call: Call, zone: Zone, errand: RemoteInstance, answer: ForwardedResponse) -> Answer:
    """Return a child's successful response after checking that it is about the named server."""
    uuid = errand.instance_uuid
    is_view = call.operation.path == _SERVER and _method(call) in _SHOWING
    if not is_view and (answer.status == _NO_CONTENT or not answer.body):
        return Answer(status=answer.status)
    body = read_answer(call, zone, answer)
    has_server = is_view or "server" in body
    if has_server and not is_theirs(body.get("server"), uuid, errand.project_id):
        raise odd(call, zone)
    if is_view:
        add_reservation(call, cast("Json", body["server"]), errand)
    headers: tuple[Header, ...] = ()
    if "location" in answer.headers:
        where = f"{root_url(call.scope)}{server_path(uuid)}"
        headers = ((b"location", where.encode()),)
    return Answer(body, headers, status=answer.status)


def is_theirs(server: object, uuid: str, project_id: str) -> bool:
    """Return whether a child's server has this id, and this project if it names any."""
    if not isinstance(server, dict):
        return False
    shown = cast("Json", server)
    return shown.get("id") == uuid and shown.get("tenant_id", project_id) == project_id


def add_reservation(call: Call, server: Json, errand: RemoteInstance) -> None:
    """Add the reservation id for administrators, which this zone knows and the child leaves out."""
    if call.identity.is_admin and call.version >= EXTENDED:
        server[_RESERVATION] = errand.reservation_id


def _parts(call: Call) -> ZoneParts:
    parts = call.parts.zones
    if parts is None:
        raise UnavailableError("the zone of the server is not reachable: zones.name is not set")
    return parts


async def _zone_of(call: Call, errand: RemoteInstance) -> Zone:
    parts = call.parts.zones
    zone = None if parts is None else parts.watch.zone_of(errand.zone_id)
    if zone is None:
        raise UnavailableError("the zone of the server was removed from this zone's children")
    return zone


async def _forget(call: Call, errand: RemoteInstance) -> None:
    """Remove the record of a server that its child no longer has."""
    # While the transfer is running, a 404 may only mean that the child has not built it yet.
    if errand.stage is not RemoteInstanceStage.THERE:
        return
    try:
        await save(call.parts.ledger, Remove(Kind.REMOTE_INSTANCE, errand.instance_uuid))
    except ConflictError:
        return  # another process has already removed or changed it


def _method(call: Call) -> str:
    method: str = call.scope["method"]
    return "GET" if method == "HEAD" else method


def _path(call: Call) -> str:
    """Return the path for a child, built from the parsed parameters."""
    # Not the path as received: the child could read other parameters out of the same bytes, for
    # example from encoded slashes, than those that were checked here.
    keys: dict[str, str] = {}
    for name, key in call.scope["path_params"].items():
        if key in {".", ".."}:
            raise InvalidInputError(name, "must not consist of dots only")
        keys[name] = quote(key, safe="")
    path = call.operation.path.format_map(keys)
    query = urlencode(call.query_items())
    return f"{path}?{query}" if query else path


def _message(answer: ForwardedResponse) -> str:
    """Return the message in a child's error response, cut to a length that fits a fault."""
    try:
        faults = decode(answer.body, dict[str, Json])
    except InvalidInputError:
        faults = {}
    for fault in faults.values():
        message = fault.get("message")
        if isinstance(message, str):
            return message[:_MESSAGE_MAX]
    return "The zone that has the server refuses this."
