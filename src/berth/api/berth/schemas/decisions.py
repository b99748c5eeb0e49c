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


class CapacityAnswer(View):
    """The number of servers that still fit.

    For administrators, `hosts_total` is the number of hosts on which they fit, and `hosts` lists
    these hosts with the number of servers on each, the largest number first.
    """

    total: int
    hosts_total: int | UnsetType = UNSET
    hosts: list[HostCapacity] | UnsetType = UNSET
