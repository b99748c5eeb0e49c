"""Handlers for compute services: their state, and whether they accept new servers."""

from berth.api.codec import UNSET
from berth.api.compute.handlers.hypervisors import state_of
from berth.api.compute.schemas.services import (
    ServiceAnswer,
    ServiceChange,
    ServicesAnswer,
    ServicesQuery,
    ServiceStatus,
    ServiceView,
)
from berth.api.fleet import zone_of
from berth.api.routing import Answer, Call
from berth.api.values import flag, naive_time, number_of
from berth.domain.compute.host import Service
from berth.domain.errors import InvalidInputError, NotFoundError

# The name of Nova's compute service, by which clients select services.
BINARY = "nova-compute"

# Microversion 2.11 adds `forced_down`; 2.53 replaces integer ids with uuids, and names the service
# in the path instead of the action.
_FORCED_DOWN = (2, 11)
_UUIDS = (2, 53)


async def list_services(call: Call) -> Answer:
    """List the compute services."""
    query = call.query(ServicesQuery)
    found = [
        _view(call, service)
        for service in await call.parts.hosts.services()
        if query.host in {None, "", service.host} and query.binary in {None, "", BINARY}
    ]
    return Answer(ServicesAnswer(services=found))


async def update_service(call: Call) -> Answer:
    """Enable, disable or force down a service; before microversion 2.53 the path is the action.

    Raises:
        NotFoundError: there is no such service or, before 2.53, no such action.
        InvalidInputError: a field is missing or invalid, or the microversion does not have it.
    """
    change = call.body(ServiceChange)
    if call.version < _UUIDS:
        return await _act(call, call.key("service_id"), change)
    if change.host is not UNSET or change.binary is not UNSET:
        raise InvalidInputError(
            "host, binary", "exist only before microversion 2.53; leave them out"
        )
    if change.status is UNSET and change.forced_down is UNSET:
        raise InvalidInputError("body", "must contain status or forced_down")
    if change.disabled_reason is not UNSET and change.status is not ServiceStatus.DISABLED:
        raise InvalidInputError("disabled_reason", "is allowed only with status disabled")
    service = await _find(call)
    status, reason = change.status, change.disabled_reason
    changed = await call.parts.hosts.set_service(
        service.host,
        disabled=None if status is UNSET else status is ServiceStatus.DISABLED,
        disabled_reason=None if reason is UNSET else reason,
        forced_down=_forced_down(change),
    )
    return Answer(ServiceAnswer(service=_view(call, changed)))


async def delete_service(call: Call) -> Answer:
    """Delete a service and its host, with the host's keys and its memberships in aggregates.

    Raises:
        NotFoundError: there is no such service.
        ConflictError: the host has instances, another host's provider is under its own, or every
            attempt lost a race against another change.
    """
    service = await _find(call)
    await call.parts.hosts.remove(service.host)
    return Answer()


async def _act(call: Call, action: str, change: ServiceChange) -> Answer:
    host = change.host
    if host is UNSET or change.binary is UNSET:
        raise InvalidInputError("host, binary", "are required before microversion 2.53")
    if change.binary != BINARY:
        raise InvalidInputError("binary", f"must be {BINARY}, not {change.binary[:80]!r}")
    hosts = call.parts.hosts
    reason = None if change.disabled_reason is UNSET else change.disabled_reason
    match action:
        case "enable":
            await hosts.set_service(host, disabled=False)
        case "disable":
            await hosts.set_service(host, disabled=True)
        case "disable-log-reason":
            if reason is None:
                raise InvalidInputError("disabled_reason", "is required")
            await hosts.set_service(host, disabled=True, disabled_reason=reason)
        case "force-down" if call.version >= _FORCED_DOWN:
            forced_down = _forced_down(change)
            if forced_down is None:
                raise InvalidInputError("forced_down", "is required")
            await hosts.set_service(host, forced_down=forced_down)
            # Before 2.53, the response to an action has only some fields of the service.
            view = ServiceView(binary=BINARY, host=host, forced_down=forced_down)
            return Answer(ServiceAnswer(service=view))
        case _:
            raise NotFoundError("action on services", action)
    view = ServiceView(
        binary=BINARY,
        host=host,
        status="enabled" if action == "enable" else "disabled",
        disabled_reason=reason if action == "disable-log-reason" else UNSET,
    )
    return Answer(ServiceAnswer(service=view))


def _forced_down(change: ServiceChange) -> bool | None:
    return None if change.forced_down is UNSET else flag(change.forced_down, "forced_down")


async def _find(call: Call) -> Service:
    # An integer id is a hash of the uuid, so its service can only be found by a scan.
    key = call.key("service_id")
    for service in await call.parts.hosts.services():
        if key == _id(call, service):
            return service
    raise NotFoundError("compute service", key)


def _id(call: Call, service: Service) -> str:
    uuid = service.service_id
    return uuid if call.version >= _UUIDS else str(number_of(uuid))


def _view(call: Call, service: Service) -> ServiceView:
    uuid = service.service_id
    return ServiceView(
        binary=BINARY,
        host=service.host,
        id=uuid if call.version >= _UUIDS else number_of(uuid),
        zone=zone_of(call.parts, service.host),
        status="disabled" if service.disabled else "enabled",
        state=state_of(call.parts, service),
        updated_at=naive_time(service.last_seen_s) if service.last_seen_s else None,
        disabled_reason=service.disabled_reason,
        forced_down=service.forced_down if call.version >= _FORCED_DOWN else UNSET,
    )
