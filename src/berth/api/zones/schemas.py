"""Request and response bodies for child zones and for servers in the tree."""

from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, UnsetType, View
from berth.api.compute.schemas.servers import (
    Hints,
    NewServer,
    ShortText,
)
from berth.api.values import Whole
from berth.domain.zones.zone import ZoneInfo

Weight = Annotated[float, Meta(ge=-1e9, le=1e9)]
Password = Annotated[str, Meta(max_length=1024)]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]


class NewZoneFields(Model):
    """The child zone to create, under the name that it has in its own settings."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    api_url: Url
    username: ShortText = ""
    password: Password = ""
    weight_offset: Weight = 0.0
    weight_scale: Weight = 1.0
    is_enabled: bool = True


class NewZoneBody(Model):
    """Body of POST /zones."""

    zone: NewZoneFields


class ZoneChangeFields(Model):
    """The fields of a child zone to update; missing fields stay unchanged."""

    api_url: Url | None = None
    username: ShortText | None = None
    password: Password | None = None
    weight_offset: Weight | None = None
    weight_scale: Weight | None = None
    is_enabled: bool | None = None


class ZoneChangeBody(Model):
    """Body of PUT /zones/{zone_id}."""

    zone: ZoneChangeFields


class ZoneLine(View):
    """A child zone in a list without details.

    `is_active` says that the zone is enabled and not known to be down.
    """

    id: int
    name: str
    api_url: str
    is_enabled: bool
    is_active: bool


class ChildZoneView(ZoneLine):
    """A child zone with all fields except its password.

    `failures` counts the latest polls that failed in a row, and `seen_at` is the time of the last
    successful poll, or null. `capabilities` and `ranges` are the information that the zone
    publishes about itself.
    """

    username: str
    has_password: bool
    weight_offset: float
    weight_scale: float
    failures: int
    seen_at: str | None
    capabilities: dict[str, list[str]]
    ranges: dict[str, tuple[float, float]]


class ZoneAnswer(View):
    """The response with one child zone."""

    zone: ChildZoneView


class ZoneLinesAnswer(View):
    """The response with all child zones, without details."""

    zones: list[ZoneLine]


class ZoneViewsAnswer(View):
    """The response with all child zones and all their fields."""

    zones: list[ChildZoneView]


class ZoneInfoAnswer(View):
    """The response with the information that a zone publishes about itself."""

    zone: ZoneInfo


class NewTreeServers(NewServer):
    """The servers to create together; `num_instances` sets both counts."""

    num_instances: Whole | UnsetType = UNSET


class NewTreeServersBody(
    Model, rename={"hints": "os:scheduler_hints", "other_hints": "OS-SCH-HNT:scheduler_hints"}
):
    """Body of POST /zones/servers and of its old path /zones/boot."""

    server: NewTreeServers
    hints: Hints | UnsetType = UNSET
    other_hints: Hints | UnsetType = UNSET


class ReservationAnswer(View):
    """The response with the reservation id that all servers of a request share."""

    reservation_id: str
