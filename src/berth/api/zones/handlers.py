"""Handlers for this zone's information, its child zones, and servers anywhere in the tree."""

from datetime import UTC, datetime

from berth.api.assertions import zone_parts
from berth.api.codec import UNSET
from berth.api.compute.handlers.servers.server_orders import Asked, read_order
from berth.api.compute.schemas.servers import NewServerBody
from berth.api.routing import Answer, Call
from berth.api.values import whole
from berth.api.zones.schemas import (
    ChildZoneView,
    NewTreeServers,
    NewTreeServersBody,
    NewZoneBody,
    ReservationAnswer,
    ZoneAnswer,
    ZoneChangeBody,
    ZoneInfoAnswer,
    ZoneLine,
    ZoneLinesAnswer,
    ZoneViewsAnswer,
)
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.zones.zone import Zone
from berth.services.zoning.children.zone_watch import ChildZoneState
from berth.services.zoning.children.zones import NewZone, ZoneChange

# The fields that `num_instances` sets.
_COUNTS = frozenset({"server.min_count", "server.max_count"})
# Numbers of up to 18 digits fit into a 64-bit integer.
_ID_DIGITS_MAX = 18

# ---- requests of parents ----------------------------------------------------------------------


async def show_info(call: Call) -> Answer:
    """Show the information that this zone publishes about itself, as its settings allow.

    Raises:
        HttpError: 501 when this deployment is not a zone.
    """
    return Answer(ZoneInfoAnswer(zone=zone_parts(call.parts).info.info()))


# ---- records of child zones -------------------------------------------------------------------


async def list_zones(call: Call) -> Answer:
    """List the child zones with name, URL and state.

    Raises:
        HttpError: 501 when this deployment is not a zone.
    """
    states = zone_parts(call.parts).watch.states()
    zones = await zone_parts(call.parts).zones.all()
    return Answer(ZoneLinesAnswer(zones=[_line(one, states.get(one.zone_id)) for one in zones]))


async def list_zones_in_detail(call: Call) -> Answer:
    """List the child zones with all fields and the information that they publish.

    Raises:
        HttpError: 501 when this deployment is not a zone.
    """
    states = zone_parts(call.parts).watch.states()
    zones = await zone_parts(call.parts).zones.all()
    return Answer(ZoneViewsAnswer(zones=[_view(one, states.get(one.zone_id)) for one in zones]))


async def show_zone(call: Call) -> Answer:
    """Show a child zone.

    Raises:
        HttpError: 501 when this deployment is not a zone.
        NotFoundError: no child has this id.
    """
    return _shown(call, await zone_parts(call.parts).zones.get(_zone_id(call)))


async def create_zone(call: Call) -> Answer:
    """Create the record of a child zone.

    Raises:
        HttpError: 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid, or the name is that of this zone.
        ConflictError: the name is taken, the zone has `ZONES_MAX` children, or every attempt lost a
            race against another change of the zones.
    """
    zones = zone_parts(call.parts).zones
    fields = call.body(NewZoneBody).zone
    new = NewZone(
        name=fields.name,
        api_url=fields.api_url,
        username=fields.username,
        password=fields.password,
        weight_offset=fields.weight_offset,
        weight_scale=fields.weight_scale,
        is_enabled=fields.is_enabled,
    )
    return _shown(call, await zones.create(new))


async def update_zone(call: Call) -> Answer:
    """Update the record of a child zone; missing fields stay unchanged.

    Raises:
        HttpError: 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid.
        NotFoundError: no child has this id.
        ConflictError: every attempt lost a race against another change of the zones.
    """
    zones = zone_parts(call.parts).zones
    fields = call.body(ZoneChangeBody).zone
    change = ZoneChange(
        api_url=fields.api_url,
        username=fields.username,
        password=fields.password,
        weight_offset=fields.weight_offset,
        weight_scale=fields.weight_scale,
        is_enabled=fields.is_enabled,
    )
    return _shown(call, await zones.change(_zone_id(call), change))


async def delete_zone(call: Call) -> Answer:
    """Delete the record of a child zone; its servers keep running.

    Raises:
        HttpError: 501 when this deployment is not a zone.
        NotFoundError: no child has this id.
        ConflictError: every attempt lost a race against another change of the zones.
    """
    zones = zone_parts(call.parts).zones
    await zones.delete(_zone_id(call))
    return Answer()


def _zone_id(call: Call) -> int:
    text = call.key("zone_id")
    if not (text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS_MAX):
        raise NotFoundError("zone", text)
    return int(text)


def _shown(call: Call, zone: Zone) -> Answer:
    state = zone_parts(call.parts).watch.states().get(zone.zone_id)
    return Answer(ZoneAnswer(zone=_view(zone, state)))


def _line(zone: Zone, state: ChildZoneState | None) -> ZoneLine:
    return ZoneLine(
        id=zone.zone_id,
        name=zone.name,
        api_url=zone.api_url,
        is_enabled=zone.is_enabled,
        is_active=_is_active(zone, state),
    )


def _view(zone: Zone, state: ChildZoneState | None) -> ChildZoneView:
    # Just after a record was created, the watch may not have read it yet, so it has no state.
    info = None if state is None else state.info
    seen_s = None if state is None else state.seen_s
    reported = () if info is None else info.capabilities.items()
    return ChildZoneView(
        id=zone.zone_id,
        name=zone.name,
        api_url=zone.api_url,
        is_enabled=zone.is_enabled,
        is_active=_is_active(zone, state),
        username=zone.username,
        # No response contains the password, not even sealed.
        has_password=bool(zone.sealed_password),
        weight_offset=zone.weight_offset,
        weight_scale=zone.weight_scale,
        failures=0 if state is None else state.failures,
        seen_at=None if seen_s is None else datetime.fromtimestamp(seen_s, UTC).isoformat(),
        capabilities={name: list(values) for name, values in reported},
        ranges={} if info is None else dict(info.ranges),
    )


def _is_active(zone: Zone, state: ChildZoneState | None) -> bool:
    """Return whether a child is enabled and not known to be down."""
    # The watch follows the ledger, so its copy may be older than the record just changed.
    if state is None or state.zone.is_enabled != zone.is_enabled:
        return zone.is_enabled
    return state.is_active


# ---- the tree ---------------------------------------------------------------------------------


async def create_all_at_once(call: Call) -> Answer:
    """Create servers anywhere in the tree, all or none, with one reservation id.

    Raises:
        HttpError: 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid, or `num_instances` is combined with one of the two
            counts.
        QuotaExceededError: the project would exceed its quota.
        ConflictError: the Idempotency-Key was used for a different request.
    """
    # This call only checks that the deployment is a zone, before the body is decoded.
    zone_parts(call.parts)
    body = call.body(NewTreeServersBody)
    server = body.server
    if server.num_instances is not UNSET:
        if server.min_count is not UNSET or server.max_count is not UNSET:
            reason = "sets min_count and max_count; omit these two, or omit num_instances"
            raise InvalidInputError("server.num_instances", reason)
        server.min_count = whole(server.num_instances, "server.num_instances", low=1)
    # From here on the request is processed like POST /servers, with fields of all microversions.
    plain = NewServerBody(server=server, hints=body.hints, other_hints=body.other_hints)
    asked = await _asked(call, plain, server)
    try:
        accepted = await call.parts.instances.create(asked.order)
    except InvalidInputError as error:
        raise _as_sent(asked.named_as_sent(error), server) from error
    return Answer(ReservationAnswer(reservation_id=accepted.reservation_id))


async def _asked(call: Call, body: NewServerBody, server: NewTreeServers) -> Asked:
    try:
        return await read_order(call, None, body)
    except InvalidInputError as error:
        raise _as_sent(error, server) from error


def _as_sent(error: InvalidInputError, server: NewTreeServers) -> InvalidInputError:
    """Return an error about the counts with the name of the field that set them."""
    if server.num_instances is UNSET or error.field not in _COUNTS:
        return error
    return InvalidInputError("server.num_instances", error.reason)
