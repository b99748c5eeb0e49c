"""Counts the capacity of this zone and of all zones under it."""

import asyncio
from dataclasses import dataclass, replace

import numpy as np

from berth.domain.compute.request import Request
from berth.domain.errors import BerthError
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import SelectOrder, ZoneCapacity
from berth.ports.clock import Clock
from berth.ports.zones import ChildZones
from berth.scheduling.plan.capacity import Capacity
from berth.services.decisions.decisions import DecisionService
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.offers.answered_inquiries import AnsweredInquiries
from berth.services.zoning.offers.child_orders import OWN_S, ChildOrders
from berth.services.zoning.offers.dry_runs import inquiry
from berth.services.zoning.offers.group_homes import GroupHomes, home_of, is_together
from berth.services.zoning.offers.host_offers import known_group
from berth.services.zoning.offers.inquiry_limit import InquiryTurns


@dataclass(frozen=True, slots=True)
class ChildCapacity:
    """The capacity of a child and the zones under it; None if it gave no answer."""

    zone: str
    capacity: ZoneCapacity | None


@dataclass(frozen=True, slots=True)
class TreeCount:
    """The number of further instances that fit in a tree of zones.

    Attributes:
        here: the capacity of this zone's own hosts.
        children: the capacity of each child that would be asked for offers.
        is_on_one_host: whether all instances must share a host, so that numbers do not add up.
    """

    here: Capacity
    children: tuple[ChildCapacity, ...] = ()
    is_on_one_host: bool = False

    @property
    def total(self) -> int:
        """The number of further instances that fit in the tree; see `is_partial`."""
        counts = [self.here.total]
        counts += [one.capacity.count for one in self.children if one.capacity is not None]
        return max(counts) if self.is_on_one_host else sum(counts)

    @property
    def is_partial(self) -> bool:
        """Whether `total` is a lower bound, because some hosts were not counted."""
        children = (one.capacity is None or one.capacity.is_partial for one in self.children)
        return self.here.is_partial or any(children)


class TreeCapacity:
    """Counts the instances that fit on this zone's hosts and in its children.

    Args:
        zone: the name of this zone.
        decision_service: counts on this zone's hosts.
        orders: derives the orders for children.
        children: the client of the child zones.
        homes: the home zones of server groups.
        loop_tokens: recognises orders that came back through a child.
        clock: provides the time of day.
        select_s: the seconds within which children must answer.
        levels_max: the number of levels of zones under this one that are asked.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        zone: str,
        decision_service: DecisionService,
        orders: ChildOrders,
        children: ChildZones,
        homes: GroupHomes,
        loop_tokens: LoopTokens,
        clock: Clock,
        select_s: float = 2.0,
        levels_max: int = 4,
    ) -> None:
        self._zone = zone
        self._decision_service = decision_service
        self._orders = orders
        self._children = children
        self._homes = homes
        self._loop_tokens = loop_tokens
        self._clock = clock
        self._select_s = select_s
        self._levels_max = levels_max
        self._answered = AnsweredInquiries(clock)
        self._turns = InquiryTurns(zone, clock)

    async def count(self, request: Request) -> TreeCount:
        """Return the capacity for instances like those of a client's request.

        Children that do not answer in time are not counted.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached, or earlier counts of this process took
                until the deadline.
        """
        until_s = self._clock.now_s() + self._select_s
        group = await self._homes.group_of(request)
        return await self._count(inquiry(request, group, self._zone, until_s, self._levels_max))

    async def count_for_parent(self, order: SelectOrder) -> ZoneCapacity:
        """Return the capacity of this zone and of those under it, for a parent's order.

        The number of instances in the order is ignored. The result is 0 for an order that this zone
        itself sent and that returns through a loop of zones, and for an inquiry that reaches this
        zone through a second parent, because this zone's hosts are already counted.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached, or the deadline has passed.
        """
        self._turns.check_deadline(order)
        if self._loop_tokens.is_among(order.marks):
            self._orders.tell("zone_in_a_ring", order.audience)
            return ZoneCapacity(0)
        if self._answered.is_answered(order):
            return ZoneCapacity(0)
        found = await self._count(replace(order, group=self._homes.known(order.group)))
        return ZoneCapacity(found.total, found.is_partial)

    async def _count(self, order: SelectOrder) -> TreeCount:
        order = replace(order, group=await self._homes.seen_by_all(order.group))
        zones = self._orders.zones_for(order)
        below = self._orders.below_of(order) if zones else None
        asked = [asyncio.create_task(self._ask(zone, below)) for zone in zones if below is not None]
        try:
            if asked:
                # One turn of the event loop sends the orders, so the children count at the same
                # time as this zone.
                await asyncio.sleep(0)
                here = await self._here(order)
                timeout_s = max(0.0, order.deadline_s - OWN_S - self._clock.now_s())
                await asyncio.wait(asked, timeout=timeout_s)
            else:
                here = await self._here(order)
        finally:
            for task in asked:
                task.cancel()
        answers = [_result_of(task) for task in asked] or [None] * len(zones)
        known = [*zip(zones, answers, strict=True)]
        known += [(zone, None) for zone in self._orders.offline_for(order)]
        children = tuple(ChildCapacity(zone.name, answer) for zone, answer in known)
        return TreeCount(here, children, is_together(order.group))

    async def _here(self, order: SelectOrder) -> Capacity:
        async with self._turns.turn(order):
            return await self._count_here(order)

    async def _count_here(self, order: SelectOrder) -> Capacity:
        group = order.group
        if home_of(group):
            nothing = np.zeros(0, dtype=np.int64)
            return Capacity(nothing.astype(np.intp), nothing)
        if group is None:
            return await self._decision_service.capacity(order.request)
        # Only this count may see the parent's group.
        return await self._decision_service.capacity(
            order.request, lambda hosts: known_group(hosts, group)
        )

    async def _ask(self, zone: Zone, below: SelectOrder) -> ZoneCapacity | None:
        timeout_s = below.deadline_s - self._clock.now_s()
        try:
            return await self._children.capacity(zone, below, timeout_s=timeout_s)
        except BerthError as error:
            self._orders.tell_failure("zone_capacity_failed", error, zone.name)
            return None


def _result_of(task: "asyncio.Task[ZoneCapacity | None]") -> ZoneCapacity | None:
    return task.result() if task.done() and not task.cancelled() else None
