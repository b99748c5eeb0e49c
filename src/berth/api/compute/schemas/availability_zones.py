"""Response bodies about availability zones."""

from berth.api.codec import View


class ZoneState(View):
    """Whether a zone has an enabled host."""

    available: bool


class ZoneService(View):
    """A compute service in a zone."""

    available: bool
    active: bool
    updated_at: str | None


class ZoneView(View, rename={"name": "zoneName", "state": "zoneState"}):
    """An availability zone, with its hosts and their services for administrators."""

    name: str
    state: ZoneState
    hosts: dict[str, dict[str, ZoneService]] | None


class ZonesAnswer(View, rename={"zones": "availabilityZoneInfo"}):
    """All availability zones."""

    zones: list[ZoneView]
