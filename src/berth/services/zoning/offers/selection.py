"""Selects the best offers of a zone and of all zones under it, merged into one list."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.domain.compute.decision import Decision
from berth.domain.errors import BerthError
from berth.domain.zones.offer import SELECT_ID_BYTES, ChildTerms, HostTerms, OfferKey, OfferTerms
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import Offers, SelectOrder, UnusedOffers
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones
from berth.scheduling.plan.offer_merge import (
    MergedOffer,
    adjusted_weight,
    merge_from_one_source,
    merge_offers,
)
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.offers.answered_inquiries import AnsweredInquiries
from berth.services.zoning.offers.child_orders import OWN_S, ActiveZones, ChildOrders
from berth.services.zoning.offers.child_releases import ChildReleases
from berth.services.zoning.offers.group_homes import GroupHomes, home_of, is_together
from berth.services.zoning.offers.host_offers import HostOfferMaker, HostOffers
from berth.services.zoning.offers.offer_seals import OfferSeals, request_digest
from berth.services.zoning.offers.select_records import SelectRecord, SelectRecords

_ALL = 10**9
# The id of a select without offers, for which nothing ever has to be released.
_NOTHING = bytes(SELECT_ID_BYTES)


class OfferChoice(NamedTuple):
    """One entry of a merged list: its weight, and the host or child that it leads to."""

    weight: float
    where: HostTerms | ChildTerms


@dataclass(frozen=True, slots=True)
class Selection:
    """The offers of a zone and of all zones under it for one request.

    Attributes:
        select_id: the id of the select.
        choices: the best offers, best first, at most as many as the request has instances.
        spares: the next offers, which replace choices that fail.
        ends_at_s: the expiry time of the offers, in Unix seconds.
        decision: the decision behind this zone's own offers.
        late: the number of children that gave no usable answer in time.
        partial: the names of the children whose offers are incomplete or missing, including those
            that are known to be down.
    """

    select_id: bytes
    choices: tuple[OfferChoice, ...]
    spares: tuple[OfferChoice, ...]
    ends_at_s: float
    decision: Decision
    late: int = 0
    partial: tuple[str, ...] = ()


class _Source(NamedTuple):
    """The offers of one child, with weights on this zone's scale."""

    zone: Zone
    offers: Offers
    weights: Sequence[float]


class OfferSelector:
    """Merges the offers of this zone's hosts and of its children.

    Args:
        zone: the name of this zone.
        local: makes offers of this zone's own hosts.
        zones: the children that are up and enabled.
        children: the client of the child zones.
        homes: the home zones of server groups.
        seals: seals offers for parents.
        loop_tokens: recognises orders that came back through a child.
        clock: provides the time of day.
        telemetry: receives failures of children.
        scheduler: this process's id in offers, eight bytes.
        child_releases: releases the unused offers of children; by default without a pause.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        zone: str,
        local: HostOfferMaker,
        zones: ActiveZones,
        children: ChildZones,
        homes: GroupHomes,
        seals: OfferSeals,
        loop_tokens: LoopTokens,
        clock: Clock,
        telemetry: Telemetry,
        scheduler: bytes,
        child_releases: ChildReleases | None = None,
    ) -> None:
        self._zone = zone
        self._local = local
        self._children = children
        self._homes = homes
        self._seals = seals
        self._loop_tokens = loop_tokens
        self._clock = clock
        self._telemetry = telemetry
        self._scheduler = scheduler
        self._below = child_releases or ChildReleases(
            zone=zone, children=children, clock=clock, telemetry=telemetry
        )
        self._given = SelectRecords(clock)
        self._answered = AnsweredInquiries(clock)
        self._releases: set[asyncio.Task[bool]] = set()
        self._orders = ChildOrders(
            zone=zone, zones=zones, loop_tokens=loop_tokens, clock=clock, telemetry=telemetry
        )

    async def offers(self, order: SelectOrder) -> Offers:
        """Return offers for a parent, sealed for it.

        A select that this zone itself sent gets no offers if it returns through a loop of zones.
        Neither does a dry run that reaches this zone through a second parent. A create gets offers
        through each parent, because their holds keep them from using the same room.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached.
        """
        # A zone in a loop would otherwise offer its own hosts to itself, through zones that hold
        # and seal them again, although its hosts are already in the plan.
        if self._loop_tokens.is_among(order.marks):
            self._orders.tell("zone_in_a_ring", order.audience)
            return Offers(_NOTHING)
        if not order.hold and self._answered.is_answered(order):
            return Offers(_NOTHING)
        selection = await self.select(order)
        if selection.spares and order.hold:
            surplus = UnusedOffers(selection.select_id, len(selection.choices))
            # The parent does not wait for this. The set keeps a reference, because the event loop
            # alone would let the task be collected.
            task = asyncio.create_task(self.release(surplus, order.audience))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)
        digest = request_digest(order.request)
        blobs: list[bytes] = []
        for place, choice in enumerate(selection.choices):
            terms = OfferTerms(
                key=OfferKey(selection.select_id, place),
                zone=self._zone,
                audience=order.audience,
                request_digest=digest,
                ends_at_s=selection.ends_at_s,
                where=choice.where,
            )
            blobs.append(self._seals.seal(terms, blob_bytes=order.blob_bytes))
        weights = tuple(choice.weight for choice in selection.choices)
        return Offers(
            selection.select_id,
            weights,
            tuple(blobs),
            selection.late,
            is_partial=bool(selection.partial),
        )

    async def select(self, order: SelectOrder, *, without: Collection[int] = ()) -> Selection:
        """Return the best offers of this zone and of the zones under it.

        Children that do not answer in time are left out. When a group has no members yet and its
        home zone has too little room, the group may go to another zone.

        Args:
            order: the request and its deadline.
            without: ids of zones to leave out, 0 for this one.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached.
        """
        if order.group is not None and order.audience != self._zone:
            order = replace(order, group=self._homes.known(order.group))
        selection = await self._select(order, without)
        group, uuids = order.group, order.request.instance_uuids
        if group is None or home_of(group) is None or len(selection.choices) == len(uuids):
            return selection
        if order.hold:
            free = await self._homes.leave(group, but=uuids)
        else:
            # A dry run must not change the record of the group.
            free = await self._homes.seen_by_all(group)
        if free is None or home_of(free) is not None:
            return selection
        await self.release(UnusedOffers(selection.select_id), order.audience)
        return await self._select(replace(order, group=free), without)

    async def _select(self, order: SelectOrder, without: Collection[int]) -> Selection:
        zones = [one for one in self._orders.zones_for(order) if one.zone_id not in without]
        below = self._orders.below_of(order) if zones else None
        asked = [asyncio.create_task(self._ask(zone, below)) for zone in zones if below is not None]
        try:
            if asked:
                # One turn of the event loop sends the orders, so the children plan at the same
                # time as this zone, whose own decision does not yield.
                await asyncio.sleep(0)
            local = await self._local.offer(order)
            if home_of(order.group) or 0 in without:
                self._local.held.release(local.select_id, order.audience)
                local = replace(local, offers=())
            late = len(zones) - len(asked) + await self._wait(asked, order)
        finally:
            for task in asked:
                task.cancel()
        sources = [one for task in asked if (one := _result_of(task)) is not None]
        complete = {one.zone.zone_id for one in sources if not one.offers.is_partial}
        partial = [one.name for one in zones if one.zone_id not in complete]
        partial += [one.name for one in self._orders.offline_for(order)]
        return replace(self._merged(order, local, sources, late), partial=tuple(sorted(partial)))

    async def _ask(self, zone: Zone, below: SelectOrder) -> _Source | None:
        count = len(below.request.instance_uuids)
        timeout_s = below.deadline_s - self._clock.now_s()
        # Releases of earlier selects travel with this one, and come back to the queue on failure.
        unused = self._below.take(zone)
        order = replace(below, surplus=unused) if unused else below
        try:
            offers = await self._children.select(zone, order, timeout_s=timeout_s)
        except (BerthError, asyncio.CancelledError) as error:
            self._below.give_back(zone, unused)
            if isinstance(error, asyncio.CancelledError):
                raise
            self._telemetry.failure("zone_select_failed", error, zone=zone.name)
            return None
        weights = [
            adjusted_weight(one, zone.weight_offset, zone.weight_scale) for one in offers.weights
        ]
        # A blob of another length would be sealed into an offer of another length, which would
        # disclose to this zone's parent that it comes from a child.
        if len(offers.blobs) != len(weights) or any(
            len(blob) != below.blob_bytes for blob in offers.blobs
        ):
            self._telemetry.event("zone_response_invalid", zone=zone.name)
            return None
        return _Source(zone, offers, weights[:count])

    async def _wait(
        self, asked: Sequence["asyncio.Task[_Source | None]"], order: SelectOrder
    ) -> int:
        """Wait for the children until the deadline; return the number without a usable answer."""
        if not asked:
            return 0
        timeout_s = max(0.0, order.deadline_s - OWN_S - self._clock.now_s())
        await asyncio.wait(asked, timeout=timeout_s)
        return sum(_result_of(task) is None for task in asked)

    def _merged(
        self, order: SelectOrder, local: HostOffers, sources: Sequence[_Source], late: int
    ) -> Selection:
        if not sources:
            return self._of_own(local, late)
        count = len(order.request.instance_uuids)
        weights = [[one.weight for one in local.offers], *(list(one.weights) for one in sources)]
        taken = (merge_from_one_source if is_together(order.group) else merge_offers)(
            weights, count
        )
        rest = _rest(weights, taken)

        if order.hold:
            given = SelectRecord(
                order.audience,
                local.ends_at_s,
                [one.source for one in (*taken, *rest)],
                [one.zone for one in sources],
                [one.offers.select_id for one in sources],
            )
            self._given.note(local.select_id, given)

        def choice(one: MergedOffer) -> OfferChoice:
            if one.source == 0:
                return self._of_host(local, one.place)
            source = sources[one.source - 1]
            blob = source.offers.blobs[one.place]
            return OfferChoice(one.weight, ChildTerms(source.zone.zone_id, blob))

        return Selection(
            select_id=local.select_id,
            choices=tuple(map(choice, taken)),
            spares=tuple(map(choice, rest)),
            ends_at_s=local.ends_at_s,
            decision=local.decision,
            late=late,
        )

    def _of_own(self, local: HostOffers, late: int) -> Selection:
        """Return this zone's own offers as a selection without offers of children."""
        own = tuple(self._of_host(local, place) for place in range(len(local.offers)))
        return Selection(local.select_id, own, (), local.ends_at_s, local.decision, late)

    def _of_host(self, local: HostOffers, place: int) -> OfferChoice:
        host = local.offers[place]
        return OfferChoice(host.weight, HostTerms(host.provider_uuid, self._scheduler, place))

    async def release(self, surplus: UnusedOffers, audience: str) -> bool:
        """Release the unused offers of a select, in this zone and in the zones under it.

        A zone that cannot be reached keeps its holds until they expire.

        Returns:
            Whether this process has a record or holds of the select; if not, another scheduler may
            have made it.
        """
        select_id = surplus.select_id
        known = self._given.audience_of(select_id)
        if known is None:
            return bool(self._local.held.release(select_id, audience, keep=surplus.keep))
        # A parent may release its own selects only.
        if known == audience:
            keep, below = self._given.let_go(surplus)
            self._local.held.release(select_id, audience, keep=keep)
            await self._below.add(below)
        return True


def _result_of(task: "asyncio.Task[_Source | None]") -> _Source | None:
    return task.result() if task.done() and not task.cancelled() else None


def _rest(weights: Sequence[Sequence[float]], taken: Sequence[MergedOffer]) -> list[MergedOffer]:
    """Return the offers beyond those taken, merged best first and in the order of each source."""
    used = [0] * len(weights)
    for one in taken:
        used[one.source] += 1
    left = merge_offers([offers[used[source] :] for source, offers in enumerate(weights)], _ALL)
    return [MergedOffer(one.source, one.place + used[one.source], one.weight) for one in left]
