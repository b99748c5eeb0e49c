"""Selecting: the best offers of a zone and of all zones below it, merged into one list."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from berth.domain.compute.decision import Decision
from berth.domain.compute.request import Request
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
from berth.services.zoning.children.host_names_in_requests import host_naming_field
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.offers.child_releases import ChildReleases
from berth.services.zoning.offers.group_homes import GroupHomes, home_of, is_together
from berth.services.zoning.offers.host_offers import HostOffers
from berth.services.zoning.offers.offer_seals import OfferSeals, child_blob_bytes, request_digest
from berth.services.zoning.offers.select_records import SelectRecord, SelectRecords

_OWN_S = 0.005
"""What a zone keeps for itself of the time that it has: to merge, to seal and to answer."""
_OWN_EACH_S = 0.00005
_OWN_SHARE = 0.1
"""The least that it keeps, as a part of that time: a child that is late must not make it late."""
_ALL = 10**9
_NOTHING = bytes(SELECT_ID_BYTES)
"""The select of no offers: nobody has anything of it to release."""
_TELL_AGAIN_S = 60.0


class LocalOffers(Protocol):
    """Whoever makes offers of this zone's own hosts."""

    async def offer(self, order: SelectOrder) -> HostOffers:
        """See `Offering.offer`."""
        ...

    def release(self, select_id: bytes, audience: str, *, keep: int = 0) -> int:
        """See `Offering.release`."""
        ...


class ActiveZones(Protocol):
    """Tells the children that may be asked now."""

    def active(self) -> Sequence[Zone]:
        """Return the children that are enabled and known to be up, in order of their numbers."""
        ...


class OfferChoice(NamedTuple):
    """One entry of a merged list: how good it is, and where it leads."""

    weight: float
    where: HostTerms | ChildTerms


@dataclass(frozen=True, slots=True)
class Selection:
    """What the tree below a zone offers to a request.

    `choices` are as many as were asked for, or as there are, best first; `spares` are those that
    came after them, to be used when one of them fails. `late` counts the children that did not
    answer.
    """

    select_id: bytes
    choices: tuple[OfferChoice, ...]
    spares: tuple[OfferChoice, ...]
    ends_at_s: float
    decision: Decision
    late: int = 0


class _Source(NamedTuple):
    """Offers of one child, on this zone's scale."""

    zone: Zone
    offers: Offers
    weights: Sequence[float]


class OfferSelector:
    """Merges what this zone's hosts and its children offer.

    Args:
        zone: the name of this zone.
        local: makes offers of its own hosts.
        zones: tells which children are asked.
        children: asks them.
        homes: knows where groups are.
        seals: seals what is offered to a parent.
        marks: knows orders that come back here.
        clock: tells the time.
        telemetry: is told of children that did not answer.
        scheduler: names this process, in eight bytes.
        releases: tells children what to let go; by itself it tells them at once.
    """

    def __init__(  # noqa: PLR0913 - one part each
        self,
        *,
        zone: str,
        local: LocalOffers,
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
        self._zones = zones
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
        self._releases: set[asyncio.Task[bool]] = set()
        self._told_s: dict[tuple[str, str], float] = {}
        """When operators were told what, of which parent."""

    async def offers(self, order: SelectOrder) -> Offers:
        """Return what is offered to a parent, sealed for it.

        Nothing is, where the parent asks for what this zone has begun to ask for: all of it is
        in the plan already.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
            UnavailableError: the ledger cannot be reached.
        """
        if self._loop_tokens.is_among(order.marks):
            self._tell("zone_in_a_ring", order.audience)
            return Offers(_NOTHING)
        selection = await self.select(order)
        if selection.spares and order.hold:
            surplus = UnusedOffers(selection.select_id, len(selection.choices))
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
        return Offers(selection.select_id, weights, tuple(blobs), selection.late)

    async def select(self, order: SelectOrder, *, without: Collection[int] = ()) -> Selection:
        """Return the best of this zone and of those below it.

        Children that do not answer in time are left out. A group that has no members where it is
        may go elsewhere when there is too little room.

        Args:
            order: what is asked.
            without: numbers of zones that are left out, 0 for this one.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
            UnavailableError: the ledger cannot be reached.
        """
        if order.group is not None and order.audience != self._zone:
            order = replace(order, group=self._homes.known(order.group))
        selection = await self._select(order, without)
        group, uuids = order.group, order.request.instance_uuids
        if group is None or home_of(group) is None or len(selection.choices) == len(uuids):
            return selection
        free = await self._homes.leave(group, but=uuids)
        if free is None:
            return selection
        await self.release(UnusedOffers(selection.select_id), order.audience)
        return await self._select(replace(order, group=free), without)

    async def _select(self, order: SelectOrder, without: Collection[int]) -> Selection:
        zones = [one for one in self._zones_for(order) if one.zone_id not in without]
        below = self._below_of(order) if zones else None
        asked = [asyncio.create_task(self._ask(zone, below)) for zone in zones if below is not None]
        try:
            if asked:
                await asyncio.sleep(0)  # the children work while this zone does
            mine = await self._local.offer(order)
            if home_of(order.group) or 0 in without:
                self._local.release(mine.select_id, order.audience)
                mine = replace(mine, offers=())
            late = len(zones) - len(asked) + await self._wait(asked, order)
        finally:
            for task in asked:
                task.cancel()
        sources = [one for task in asked if (one := _result_of(task)) is not None]
        return self._merged(order, mine, sources, late)

    def _zones_for(self, order: SelectOrder) -> Sequence[Zone]:
        """Return the children to ask: none when a host is named, or no further layer fits."""
        request = order.request
        if request.destination or request.force_hosts or request.force_nodes:
            return ()
        home = home_of(order.group)
        zones = [one for one in self._zones.active() if home is None or one.zone_id == home]
        if not zones or host_naming_field(request) is not None:
            return ()
        if child_blob_bytes(order.blob_bytes) is None:
            self._tell("zone_too_deep", order.audience)
            return ()
        return zones

    def _tell(self, name: str, parent: str) -> None:
        """Tell operators what each select of a parent meets, now and then."""
        now_s = self._clock.now_s()
        if now_s >= self._told_s.get((name, parent), 0.0) + _TELL_AGAIN_S:
            self._told_s[name, parent] = now_s
            self._telemetry.event(name, parent=parent)

    def _below_of(self, order: SelectOrder) -> SelectOrder | None:
        """Return what children are asked for an order; None when no time or layer is left."""
        blob_bytes = child_blob_bytes(order.blob_bytes)
        count = len(order.request.instance_uuids)
        now_s = self._clock.now_s()
        left_s = order.deadline_s - now_s
        timeout_s = left_s - max(_OWN_S + _OWN_EACH_S * count, _OWN_SHARE * left_s)
        if blob_bytes is None or timeout_s <= 0:
            return None
        return SelectOrder(
            request=portable_request(order.request),
            audience=self._zone,
            deadline_s=now_s + timeout_s,
            blob_bytes=blob_bytes,
            group=None if order.group is None else replace(order.group, zone_id=None),
            hold=order.hold,
            marks=(*order.marks, self._loop_tokens.new()),
        )

    async def _ask(self, zone: Zone, below: SelectOrder) -> _Source | None:
        count = len(below.request.instance_uuids)
        timeout_s = below.deadline_s - self._clock.now_s()
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
        if len(offers.blobs) != len(weights) or any(
            len(blob) != below.blob_bytes for blob in offers.blobs
        ):
            self._telemetry.event("zone_answered_oddly", zone=zone.name)
            return None
        return _Source(zone, offers, weights[:count])

    async def _wait(
        self, asked: Sequence["asyncio.Task[_Source | None]"], order: SelectOrder
    ) -> int:
        """Wait for the children until the deadline; return how many did not answer."""
        if not asked:
            return 0
        timeout_s = max(0.0, order.deadline_s - _OWN_S - self._clock.now_s())
        await asyncio.wait(asked, timeout=timeout_s)
        return sum(_result_of(task) is None for task in asked)

    def _merged(
        self, order: SelectOrder, mine: HostOffers, sources: Sequence[_Source], late: int
    ) -> Selection:
        if not sources:
            return self._of_own(mine, late)
        count = len(order.request.instance_uuids)
        weights = [[one.weight for one in mine.offers], *(list(one.weights) for one in sources)]
        taken = (merge_from_one_source if is_together(order.group) else merge_offers)(
            weights, count
        )
        rest = _rest(weights, taken)

        if order.hold:
            given = SelectRecord(
                order.audience,
                mine.ends_at_s,
                [one.source for one in (*taken, *rest)],
                [one.zone for one in sources],
                [one.offers.select_id for one in sources],
            )
            self._given.note(mine.select_id, given)

        def choice(one: MergedOffer) -> OfferChoice:
            if one.source == 0:
                return self._of_host(mine, one.place)
            source = sources[one.source - 1]
            blob = source.offers.blobs[one.place]
            return OfferChoice(one.weight, ChildTerms(source.zone.zone_id, blob))

        return Selection(
            select_id=mine.select_id,
            choices=tuple(map(choice, taken)),
            spares=tuple(map(choice, rest)),
            ends_at_s=mine.ends_at_s,
            decision=mine.decision,
            late=late,
        )

    def _of_own(self, mine: HostOffers, late: int) -> Selection:
        """Return what this zone's own hosts offer, where no other zone offers anything."""
        own = tuple(self._of_host(mine, place) for place in range(len(mine.offers)))
        return Selection(mine.select_id, own, (), mine.ends_at_s, mine.decision, late)

    def _of_host(self, mine: HostOffers, place: int) -> OfferChoice:
        host = mine.offers[place]
        return OfferChoice(host.weight, HostTerms(host.provider_uuid, self._scheduler, place))

    async def release(self, surplus: UnusedOffers, audience: str) -> bool:
        """Let go what is held for offers that are not used, here and below.

        A zone that cannot be told keeps its part until the holds end.

        Returns:
            Whether anything of the select is known here; another scheduler may have made it.
        """
        select_id = surplus.select_id
        known = self._given.audience_of(select_id)
        if known is None:
            return bool(self._local.release(select_id, audience, keep=surplus.keep))
        if known == audience:
            keep, below = self._given.let_go(surplus)
            self._local.release(select_id, audience, keep=keep)
            await self._below.add(below)
        return True


def portable_request(request: Request) -> Request:
    """Return a request as children get it: without names that mean something here alone."""
    if not (request.ignore_hosts or request.retried or request.alternates or request.source_cell):
        return request
    return replace(request, ignore_hosts=(), retried=(), alternates=(), source_cell="")


def _result_of(task: "asyncio.Task[_Source | None]") -> _Source | None:
    return task.result() if task.done() and not task.cancelled() else None


def _rest(weights: Sequence[Sequence[float]], taken: Sequence[MergedOffer]) -> list[MergedOffer]:
    """Return what the sources offer beyond what was taken, in the order in which it holds."""
    used = [0] * len(weights)
    for one in taken:
        used[one.source] += 1
    left = merge_offers([offers[used[source] :] for source, offers in enumerate(weights)], _ALL)
    return [MergedOffer(one.source, one.place + used[one.source], one.weight) for one in left]
