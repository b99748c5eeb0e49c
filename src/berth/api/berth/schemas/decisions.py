"""Queries and response bodies of decisions and capacity."""

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.values import Limit
from berth.domain.compute.decision import Decision, Verdict


class DecisionsQuery(Model):
    """Filter and length of a list of decisions."""

    limit: Limit = 100
    verdict: Verdict | None = None


class DecisionsAnswer(View):
    """Decisions, newest first."""

    decisions: list[Decision]


class CapacityQuery(Model):
    """The kind of server whose remaining number is counted; `limit` applies to the hosts."""

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

    For administrators `hosts` has the number per host, the largest first.
    """

    total: int
    hosts_total: int
    hosts: list[HostCapacity] | UnsetType = UNSET
