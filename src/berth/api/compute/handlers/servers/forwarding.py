"""Forwarding: requests about servers that are in child zones go there, for their tenants."""

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
_SHOWING: Final = frozenset({"GET", "PUT"})
"""Methods on one server that are answered with it."""
_SUCCESSES: Final = frozenset({200, 201, 202, 204})
_NO_CONTENT: Final = 204
_NOT_FOUND: Final = 404
_REFUSALS: Final = frozenset({400, 403, 404, 405, 406, 409, 413, 415, 429, 501})
"""Answers that a tenant is told as they are; what else fails is the child's or this zone's."""
_MESSAGE_MAX: Final = 1000
_FORCE_DELETE: Final = "forceDelete"
_RESERVATION: Final = "OS-EXT-SRV-ATTR:reservation_id"
_ENDS: Final = {"confirmResize": False, "revertResize": True}
"""Actions that end a resize, and whether a server has its size of before then."""


def over_tree(operations: Iterable[ApiOperation]) -> tuple[ApiOperation, ...]:
    """Return operations of which those on servers are for the whole tree below this zone."""
    return tuple(map(_over_tree, operations))


def _over_tree(operation: ApiOperation) -> ApiOperation:
    if operation.path != _SERVERS and not operation.path.startswith(f"{_SERVERS}/"):
        return operation
    handler = operation.handler
    if "{server_id}" in operation.path:
        handler = _or_below(handler)
    return replace(operation, handler=handler, stated=AssertedIdentity.MAY)


def _or_below(handler: _Handler) -> _Handler:
    """Have a request that names no server of this zone go on to the child that has it."""

    @wraps(handler)
    async def ask(call: Call) -> Answer:
        try:
            return await handler(call)
        except NotFoundError as error:
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
        # Parents do not learn which zones are below.
        raise UnavailableError("a zone below did not do it; try again") from error


async def _errand_of(call: Call) -> RemoteInstance | None:
    """Return where a server has gone that the caller may see; None when it is nowhere."""
    uuid = call.key("server_id")
    if call.parts.zones is None or UUID.fullmatch(uuid) is None:
        return None
    errand = await call.parts.ledger.get(RemoteInstance, uuid)
    if errand is None or call.project_id not in {None, errand.project_id}:
        return None
    stored = await call.parts.ledger.get(Instance, uuid)
    if stored is not None and stored.status is Status.DELETED and withdrawn_ms(stored) is None:
        return None  # its owner has deleted it on its way, and it is being taken back
    return errand


async def _forward(call: Call, errand: RemoteInstance) -> Answer:
    zone = await _zone_of(call, errand)
    body, flavor = await body_below(call), await resized_to(call)
    if flavor is None and action_asked(call) not in _ENDS:
        answer = await _ask(call, zone, errand, body)
    else:
        answer = await _ask_counted(call, zone, errand, body, flavor)
    if answer.status in _SUCCESSES:
        shown = _success(call, zone, errand, answer)
        await _count_anew(call, errand)
        return shown
    if answer.status == _NOT_FOUND and call.operation.path == _SERVER:
        await _forget(call, errand)
        raise NotFoundError("instance", errand.instance_uuid)
    if answer.status in _REFUSALS:
        raise HttpError(answer.status, _message(answer))
    raise UnavailableError(f"zone {zone.name} could not do it; try again")


async def _ask_counted(
    call: Call, zone: Zone, errand: RemoteInstance, body: bytes, flavor: Flavor | None
) -> ForwardedResponse:
    """Have a server resized, or a resize ended, that counts for the larger size from before that.

    It does so still when the child's answer is lost, or when what it has begun fails there, until
    that is found out; see `Recounting`.
    """
    counting, action = _parts(call).counting, action_asked(call)
    begun = await counting.begin(errand, flavor)
    if begun is None:
        return await _ask(call, zone, errand, body)
    try:
        answer = await _ask(call, zone, errand, body)
    except NotAskedError:
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
        # Why is for operators: it may have the child's address, which tenants are not told.
        call.parts.telemetry.failure("zone_request_failed", error, zone=zone.name)
        text = f"zone {zone.name} does not answer; try again"
        kind = NotAskedError if isinstance(error, NotAskedError) else UnavailableError
        raise kind(text) from error


async def _count_anew(call: Call, errand: RemoteInstance) -> None:
    """Have a server count no more that was just deleted; who looks when it is gone forgets it."""
    is_deletion = call.operation.path == _SERVER and _method(call) == "DELETE"
    if is_deletion or action_asked(call) == _FORCE_DELETE:
        await _parts(call).counting.count_no_more(errand)


def _success(call: Call, zone: Zone, errand: RemoteInstance, answer: ForwardedResponse) -> Answer:
    """Return a child's answer when it is about the server that was asked for."""
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
    """Tell whether what a child shows is that server, and of that project if it names one."""
    if not isinstance(server, dict):
        return False
    shown = cast("Json", server)
    return shown.get("id") == uuid and shown.get("tenant_id", project_id) == project_id


def add_reservation(call: Call, server: Json, errand: RemoteInstance) -> None:
    """Add what a child shows administrators of its own alone: here it is known as well."""
    if call.identity.is_admin and call.version >= EXTENDED:
        server[_RESERVATION] = errand.reservation_id


def _parts(call: Call) -> ZoneParts:
    parts = call.parts.zones
    if parts is None:
        raise UnavailableError("the zone that has the server is not asked at present")
    return parts


async def _zone_of(call: Call, errand: RemoteInstance) -> Zone:
    parts = call.parts.zones
    zone = None if parts is None else parts.watch.zone_of(errand.zone_id)
    if zone is None:
        raise UnavailableError("the zone that has the server is not known here any more")
    return zone


async def _forget(call: Call, errand: RemoteInstance) -> None:
    """Forget where a server was that is gone; one that is on its way may yet come."""
    if errand.stage is not RemoteInstanceStage.THERE:
        return
    try:
        await save(call.parts.ledger, Remove(Kind.REMOTE_INSTANCE, errand.instance_uuid))
    except ConflictError:
        return  # somebody else was faster


def _method(call: Call) -> str:
    method: str = call.scope["method"]
    return "GET" if method == "HEAD" else method


def _path(call: Call) -> str:
    """Return the path for a child, made anew of what was understood here."""
    keys: dict[str, str] = {}
    for name, key in call.scope["path_params"].items():
        if key in {".", ".."}:
            raise InvalidInputError(name, "must be more than dots")
        keys[name] = quote(key, safe="")
    path = call.operation.path.format_map(keys)
    query = urlencode(call.query_items())
    return f"{path}?{query}" if query else path


def _message(answer: ForwardedResponse) -> str:
    """Return what a child says of a refusal."""
    try:
        faults = decode(answer.body, dict[str, Json])
    except InvalidInputError:
        faults = {}
    for fault in faults.values():
        message = fault.get("message")
        if isinstance(message, str):
            return message[:_MESSAGE_MAX]
    return "The zone that has the server refuses this."
