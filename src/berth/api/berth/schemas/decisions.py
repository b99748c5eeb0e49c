"""Decisions and capacity, as Berth's own API writes them."""

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.values import Limit
from berth.domain.compute.decision import Decision, Verdict


class DecisionsQuery(Model):
    """Which decisions to list, newest first."""

    limit: Limit = 100
    verdict: Verdict | None = None


class DecisionsAnswer(View):
    """Decisions, newest first."""

    decisions: list[Decision]


class CapacityQuery(Model):
    """What to count: how many more servers of a flavor fit."""

    flavor: str
    availability_zone: str | None = None
    image: str | None = None
    limit: Limit | None = None


class HostCapacity(View):
    """How many more fit on one host."""

    host: str
    node: str
    count: int


class CapacityAnswer(View):
    """How many more fit in all and, for administrators, where; the roomiest hosts first."""

    total: int
    hosts_total: int
    hosts: list[HostCapacity] | UnsetType = UNSET
