"""The operations between zones, and on the records of child zones."""

from berth.api.assertions import AssertedIdentity
from berth.api.compute.offers import handlers as offers
from berth.api.routing import ApiOperation, Role
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
    CapacityMessage,
    KeptMessage,
    OffersMessage,
    ReleaseMessage,
    SelectMessage,
)

PREFIX = "/zones"

_ZONE = "/zones/{zone_id}"
_ADMIN, _KNOWN = Role.ADMIN, Role.KNOWN

# A parent that sends no assertion uses an account without a project, hence `_KNOWN`. The operations
# with `MUST` act for a tenant, whom only a signed assertion can name.
OPERATIONS = (
    ApiOperation(
        "POST",
        "/zones/select",
        offers.select_offers,
        role=_KNOWN,
        is_audited=False,
        body=SelectMessage,
        answers=OffersMessage,
        stated=AssertedIdentity.MUST,
    ),
    ApiOperation(
        "POST",
        "/zones/capacity",
        offers.count_capacity,
        role=_KNOWN,
        is_audited=False,
        body=SelectMessage,
        answers=CapacityMessage,
        stated=AssertedIdentity.MUST,
    ),
    ApiOperation(
        "POST",
        "/zones/release",
        offers.release_offers,
        role=_KNOWN,
        body=ReleaseMessage,
        answers=KeptMessage,
        stated=AssertedIdentity.MUST,
    ),
    ApiOperation(
        "GET",
        "/zones/info",
        handlers.show_info,
        role=_KNOWN,
        answers=ZoneInfoAnswer,
        stated=AssertedIdentity.MAY,
    ),
    *(
        ApiOperation(
            "POST",
            path,
            handlers.create_all_at_once,
            202,
            body=NewTreeServersBody,
            answers=ReservationAnswer,
        )
        # `/zones/boot` is the operation's original path, in the API of 2011.
        for path in ("/zones/servers", "/zones/boot")
    ),
    ApiOperation("GET", "/zones", handlers.list_zones, role=_ADMIN, answers=ZoneLinesAnswer),
    ApiOperation(
        "POST",
        "/zones",
        handlers.create_zone,
        201,
        role=_ADMIN,
        body=NewZoneBody,
        answers=ZoneAnswer,
    ),
    ApiOperation(
        "GET",
        "/zones/detail",
        handlers.list_zones_in_detail,
        role=_ADMIN,
        answers=ZoneViewsAnswer,
    ),
    ApiOperation("GET", _ZONE, handlers.show_zone, role=_ADMIN, answers=ZoneAnswer),
    ApiOperation(
        "PUT", _ZONE, handlers.update_zone, role=_ADMIN, body=ZoneChangeBody, answers=ZoneAnswer
    ),
    ApiOperation("DELETE", _ZONE, handlers.delete_zone, 204, role=_ADMIN),
)
