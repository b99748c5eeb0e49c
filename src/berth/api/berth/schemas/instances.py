"""The request body and the response for the availability zone that a server is bound to."""

from berth.api.codec import Model, View
from berth.api.compute.schemas.aggregates import ZoneName


class BoundZoneBody(Model):
    """The availability zone to which a server is bound; null binds it to none."""

    availability_zone: ZoneName | None


class BoundZoneAnswer(View):
    """The availability zone that a server is bound to, and the zone of its host.

    `availability_zone` is null for a server that may move to any zone. `host` and
    `host_availability_zone` are null for a server without a host.
    """

    instance_uuid: str
    availability_zone: str | None
    host: str | None
    host_availability_zone: str | None
