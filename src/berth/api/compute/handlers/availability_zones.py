"""Handlers for availability zones, which are derived from the aggregates of the hosts."""

from berth.api.compute.handlers.hypervisors import state_of
from berth.api.compute.handlers.services import BINARY
from berth.api.compute.schemas.availability_zones import (
    ZonesAnswer,
    ZoneService,
    ZoneState,
    ZoneView,
)
from berth.api.fleet import zones_of
from berth.api.routing import Answer, Call
from berth.api.values import naive_time
from berth.domain.compute.host import Service


async def list_zones(call: Call) -> Answer:
    """List the availability zones."""
    zones = await _zones(call)
    return Answer(
        ZonesAnswer(
            zones=[
                ZoneView(name=name, state=ZoneState(available=bool(services)), hosts=None)
                for name, services in _available_first(zones)
            ]
        )
    )


async def list_zones_in_detail(call: Call) -> Answer:
    """List the availability zones with their hosts that have enabled services."""
    zones = await _zones(call)
    views = [
        ZoneView(
            name=name,
            state=ZoneState(available=bool(services)),
            hosts={s.host: {BINARY: _service(call, s)} for s in services} if services else None,
        )
        for name, services in _available_first(zones)
    ]
    return Answer(ZonesAnswer(zones=views))


# Nova lists the available zones before the unavailable ones, and clients show that order.
def _available_first(zones: dict[str, list[Service]]) -> list[tuple[str, list[Service]]]:
    return sorted(zones.items(), key=lambda item: (not item[1], item[0]))


async def _zones(call: Call) -> dict[str, list[Service]]:
    """Return the enabled services of each zone that has a service; the list may be empty."""
    # Availability zones come from the replica's aggregates. Without catching up, a change to an
    # aggregate that the same client has just made could be missing.
    await call.parts.follower.catch_up()
    zones: dict[str, list[Service]] = {}
    for service in await call.parts.hosts.services():
        for zone in zones_of(call.parts, service.host):
            # An availability zone whose services are all disabled is listed as unavailable.
            enabled = zones.setdefault(zone, [])
            if not service.disabled:
                enabled.append(service)
    return zones


def _service(call: Call, service: Service) -> ZoneService:
    return ZoneService(
        available=state_of(call.parts, service) == "up",
        active=True,
        updated_at=naive_time(service.last_seen_s) if service.last_seen_s else None,
    )
