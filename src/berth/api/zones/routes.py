"""The operations between zones, and on the records of child zones."""

from berth.api.assertions import Stated
from berth.api.compute.offers import handlers as offers
from berth.api.routing import Operation, Role
from berth.api.zones import handlers
from berth.api.zones.schemas import (
    NewTreeServersBody,
    NewZoneBody,
    ReservationAnswer,
    ZoneAnswer,
    ZoneChangeBody,
    ZoneInfoAnswer,
    ZoneLinesAnswer,
    ZoneViewsAnswer,
)
from berth.services.zoning.messages.zone_messages import (
    KeptMessage,
    OffersMessage,
    ReleaseMessage,
    SelectMessage,
)

PREFIX = "/zones"

_ZONE = "/zones/{zone_id}"
_ADMIN, _KNOWN = Role.ADMIN, Role.KNOWN

OPERATIONS = (
    Operation(
        "POST",
        "/zones/select",
        offers.select_offers,
        role=_KNOWN,
        body=SelectMessage,
        answers=OffersMessage,
        stated=Stated.MUST,
    ),
    Operation(
        "POST",
        "/zones/release",
        offers.release_offers,
        role=_KNOWN,
        body=ReleaseMessage,
        answers=KeptMessage,
        stated=Stated.MUST,
    ),
    Operation(
        "GET",
        "/zones/info",
        handlers.show_info,
        role=_KNOWN,
        answers=ZoneInfoAnswer,
        stated=Stated.MAY,
    ),
    *(
        Operation(
            "POST",
            path,
            handlers.create_all_at_once,
            202,
            body=NewTreeServersBody,
            answers=ReservationAnswer,
        )
        for path in ("/zones/servers", "/zones/boot")
    ),
    Operation("GET", "/zones", handlers.list_zones, role=_ADMIN, answers=ZoneLinesAnswer),
    Operation(
        "POST",
        "/zones",
        handlers.create_zone,
        201,
        role=_ADMIN,
        body=NewZoneBody,
        answers=ZoneAnswer,
    ),
    Operation(
        "GET",
        "/zones/detail",
        handlers.list_zones_in_detail,
        role=_ADMIN,
        answers=ZoneViewsAnswer,
    ),
    Operation("GET", _ZONE, handlers.show_zone, role=_ADMIN, answers=ZoneAnswer),
    Operation(
        "PUT", _ZONE, handlers.update_zone, role=_ADMIN, body=ZoneChangeBody, answers=ZoneAnswer
    ),
    Operation("DELETE", _ZONE, handlers.delete_zone, 204, role=_ADMIN),
)
