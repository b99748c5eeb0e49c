"""Queries and response bodies for decisions and capacity."""

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.values import Limit
from berth.domain.compute.decision import Decision, Verdict


class DecisionsQuery(Model):
    """The verdict of the decisions to list, by default any, and their maximum number.

    With `server`, the uuid of a server, only decisions about this server are listed.
    """

    limit: Limit = 100
    verdict: Verdict | None = None
    server: str | None = None


class DecisionQuery(Model):
    """The uuid of the server that a decision is about, which leads to the zone of the decision."""

    server: str | None = None


class DecisionsAnswer(View):
    """The response with decisions, newest first."""

    decisions: list[Decision]


class CapacityQuery(Model):
    """Flavor, availability zone and image of the servers, and the maximum number of hosts."""

    flavor: str
    availability_zone: str | None = None
    image: str | None = None
    limit: Limit | None = None


class HostCapacity(View):
    """The number of servers that still fit on one host."""

    host: str
    node: str
    count: int


class ZoneCapacityView(View):
    """The number of servers that fit in a child zone; null if the child did not answer.

    With `is_partial`, the number is a lower bound.
    """

    zone: str
    count: int | None
    is_partial: bool


class CapacityAnswer(View):
    """The number of servers that still fit; a lower bound if `is_partial`.

    The other fields are for administrators. `hosts_total` is the number of this zone's hosts on
    which servers fit, `hosts` lists these hosts with the number of servers that fit on each, in
    descending order, and `zones` lists the child zones.
    """

    total: int
    is_partial: bool
    hosts_total: int | UnsetType = UNSET
    hosts: list[HostCapacity] | UnsetType = UNSET
    zones: list[ZoneCapacityView] | UnsetType = UNSET
