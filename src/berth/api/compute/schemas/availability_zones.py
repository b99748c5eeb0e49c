"""Response bodies for availability zones."""

from berth.api.codec import View


class ZoneState(View):
    """The state of an availability zone; one with an enabled compute service is available."""

    available: bool


class ZoneService(View):
    """A compute service in an availability zone."""

    available: bool
    active: bool
    updated_at: str | None


class ZoneView(View, rename={"name": "zoneName", "state": "zoneState"}):
    """An availability zone; the detailed list adds its hosts and their enabled services."""

    name: str
    state: ZoneState
    hosts: dict[str, dict[str, ZoneService]] | None


class ZonesAnswer(View, rename={"zones": "availabilityZoneInfo"}):
    """The response with all availability zones."""

    zones: list[ZoneView]
