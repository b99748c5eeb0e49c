"""Tree placing: requests placed at the best hosts of this zone and of all zones below it.

A request whose best places are all here is placed as in a zone without children. Any other stands
in the ledger as pending until the last of its instances is somewhere, or all of them are nowhere.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.domain.compute.decision import Decision, NoValidHostError
from berth.domain.compute.request import Destination, Operation, Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import ConflictError
from berth.domain.ledger.record import PendingRequest
from berth.domain.zones.offer import ChildTerms, HostTerms, OfferKey, OfferRefusalReason
from berth.domain.zones.zone_orders import SelectOrder, UnusedOffers
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.zoning.delegation.completion import SagaCompletion
from berth.services.zoning.delegation.delegation import Delegation, Delegator
from berth.services.zoning.delegation.offer_building import OfferBuilder
from berth.services.zoning.delegation.release import InstanceDeleter
from berth.services.zoning.delegation.sagas import Saga, SagaStore
from berth.services.zoning.offers.group_homes import GroupHomes, home_at, home_of, is_together
from berth.services.zoning.offers.offer_seals import LAYER_BYTES, blob_bytes_of
from berth.services.zoning.offers.selection import (
    ActiveZones,
    OfferChoice,
    OfferSelector,
    Selection,
)

_SETTLE_PAUSE_S = 0.5
_SETTLE_PAUSE_MAX_S = 5.0
_NOWHERE = Destination("the child zone of its server group")


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """How requests are placed over a tree.

    `select_s` is how long a select may take, `attempts_max` how often one is made for a request,
    and `settle_s` how long a child that did not answer is asked what came of it. `levels_max`
    is how many levels of zones below this one are asked.
    """

    select_s: float = 2.0
    attempts_max: int = 3
    settle_s: float = 60.0
    levels_max: int = 4


class _Place(NamedTuple):
    """One entry of a plan: the key of this zone's offer, and where it leads."""

    key: OfferKey
    where: HostTerms | ChildTerms


class TreePlacement:
    """Places requests over a tree; see the protocol `Placer`.

    Args:
        ledger: keeps what is pending, and errands.
        replica: has the server groups.
        local: places what stays here.
        selecting: asks this zone's hosts, and its children.
        building: claims places here.
        sending: passes instances on, and takes them back.
        instances: deletes what was placed in vain.
        zones: tells which children are there.
        journeys: keeps other schedulers from what this one does.
        withdrawn: is told of instances that are to be taken back later; see `TakingBack`.
        clock: tells the time.
        zone: the name of this zone.
        settings: see `TreeSettings`.
    """

    def __init__(  # noqa: PLR0913 - one part each
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        local: Placer,
        selector: OfferSelector,
        builder: OfferBuilder,
        delegator: Delegator,
        instances: InstanceDeleter,
        zones: ActiveZones,
        sagas: SagaStore,
        clock: Clock,
        zone: str,
        settings: TreeSettings,
        on_withdrawing: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._sagas = sagas
        self._completion = SagaCompletion(
            ledger=ledger,
            delegator=delegator,
            instances=instances,
            clock=clock,
            on_withdrawing=on_withdrawing,
        )
        self._homes = GroupHomes(ledger, replica)
        self._at_work: dict[str, asyncio.Event] = {}
        """Requests that are being placed; the event is set when one is done."""
        self._replica = replica
        self._local = local
        self._selector = selector
        self._builder = builder
        self._delegator = delegator
        self._zones = zones
        self._clock = clock
        self._zone = zone
        self._settings = settings

    async def place(self, order: PlaceOrder) -> Decision:
        """Place all instances of an order somewhere in the tree, or none, and say why.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
            ConflictError: an instance of the order has changed, or another scheduler has taken it.
            UnavailableError: the ledger cannot be reached; place the same order again.
        """
        if not await self._may_leave(order):
            return await self._local.place(order)
        request_id = order.request.request_id
        while request_id in self._at_work:
            await self._at_work[request_id].wait()
        done = self._at_work[request_id] = asyncio.Event()
        try:
            return await self._place(order)
        finally:
            del self._at_work[request_id]
            done.set()

    async def _place(self, order: PlaceOrder) -> Decision:
        earlier = await self._ledger.get(Decision, order.request.request_id)
        if earlier is not None:
            return earlier
        if order.accepted:
            return await self._go_on(order)
        found = await self._here_or(order, order.request)
        return found if isinstance(found, Decision) else await self._execute(order, found)

    async def _here_or(self, order: PlaceOrder, wanted: Request) -> Decision | Selection:
        """Place a request here if all its best places are, or return where else they are.

        Others may take the room here just then: so the tree is asked again.
        """
        attempt = 1
        while True:
            selection = await self._select(wanted, await self._group_of(order.request))
            if not self._is_local(selection, order):
                return selection
            is_short = len(selection.choices) < len(wanted.instance_uuids)
            may_leave = not is_short and attempt < self._settings.attempts_max
            try:
                return await self._place_here(replace(order, may_leave=may_leave), selection)
            except NoValidHostError:
                attempt += 1

    async def _place_here(self, order: PlaceOrder, selection: Selection) -> Decision:
        await self._release(selection)
        group = await self._group_of(order.request)
        if len(selection.choices) == len(order.request.instance_uuids):
            group = await self._homes.bind(group, selection.choices[0].where)
        told = replace(order, told=_told(selection), told_operators=_told_operators(selection))
        if home_of(group):
            # It is in a child that has too little room, so this zone's own hosts have to refuse.
            told = replace(told, request=replace(order.request, destination=_NOWHERE))
        return await self._local.place(told)

    async def _may_leave(self, order: PlaceOrder) -> bool:
        """Tell whether a request may go to another zone: only new instances, for no named host.

        One that a scheduler has begun may be in other zones already, whether they are up or not.
        """
        request = order.request
        is_bound = request.destination or request.force_hosts or request.force_nodes
        is_new = request.operation in {Operation.CREATE, Operation.RETRY} and not order.offer
        if not is_new or is_bound:
            return False
        if self._zones.active() or not order.accepted:
            return bool(self._zones.active())
        pending = await self._ledger.get(PendingRequest, request.request_id)
        return pending is not None and bool(pending.taken_by)

    def _is_local(self, selection: Selection, order: PlaceOrder) -> bool:
        """Tell whether all places are here, or there are too few in the whole tree."""
        is_short = len(selection.choices) < len(order.request.instance_uuids)
        return is_short or all(isinstance(one.where, HostTerms) for one in selection.choices)

    # ---- taking up ------------------------------------------------------------------------

    async def _go_on(self, order: PlaceOrder) -> Decision:
        """Go on with a request in the ledger, which a scheduler that died may have begun."""
        request_id = order.request.request_id
        pending = await self._ledger.get(PendingRequest, request_id)
        if pending is None:
            raise ConflictError(f"request {request_id} is not pending any more")
        taken = await self._sagas.take(pending)
        group = await self._group_of(taken.request)
        saga = await self._sagas.resume(taken.request, group, order.instances)
        if taken.is_given_up:
            return await self._completion.give_up(saga)
        if not saga.placed and not saga.unsettled:
            wanted = replace(saga.request, instance_uuids=tuple(saga.unplaced))
            found = await self._here_or(order, wanted)
            return found if isinstance(found, Decision) else await self._travel(saga, found)
        return await self._travel(saga, None)

    async def _execute(self, order: PlaceOrder, selection: Selection) -> Decision:
        """Write a request down as pending and taken, and do it."""
        group = await self._group_of(order.request)
        try:
            saga = await self._sagas.begin(order, group)
        except ConflictError:
            await self._release(selection)
            raise
        return await self._travel(saga, selection)

    # ---- on the way -----------------------------------------------------------------------

    async def _travel(self, saga: Saga, selection: Selection | None) -> Decision:
        """Find a place for each waiting instance; all or none."""
        lease = asyncio.create_task(self._sagas.keep_lease(saga.request.request_id))
        try:
            await self._settle(saga)
            await self._find_places(saga, selection)
            if saga.unplaced or saga.unsettled:
                await self._sagas.give_up(saga.request.request_id)
                return await self._completion.give_up(saga)
            return await self._completion.finish(saga)
        finally:
            lease.cancel()

    async def _find_places(self, saga: Saga, selection: Selection | None) -> None:
        without: set[int] = set()
        for attempt in range(self._settings.attempts_max):
            if not saga.unplaced or saga.unsettled:
                return
            if selection is None or attempt:
                selection = await self._select(
                    saga.request, saga.group, saga.unplaced, without=without
                )
            chosen = selection
            saga.zones_late = chosen.late
            if len(chosen.choices) < len(saga.unplaced):
                await self._release(chosen)
                return
            saga.group = await self._homes.bind(saga.group, chosen.choices[0].where)
            if not _suits(saga.group, chosen):
                await self._release(chosen)
                continue
            # Others may have the spares meanwhile; what is held of them is not needed to use them.
            await self._release(chosen, keep=len(chosen.choices))
            await self._use(saga, chosen)
            if saga.unplaced:
                # What is selected next is not to find its own earlier room taken.
                await self._release(chosen)
                without |= await self._left(saga)

    async def _left(self, saga: Saga) -> set[int]:
        """Return the zone that took no member of a group, which goes to another one now."""
        home = home_of(saga.group)
        if saga.group is None or home is None or saga.unsettled:
            return set()
        free = await self._homes.leave(saga.group, but=saga.unplaced)
        if free is None:
            return set()
        saga.group = free
        return {home}

    async def _use(self, saga: Saga, selection: Selection) -> None:
        """Build by the entries of a plan, and by its spares where one fails."""
        entries, now_s = selection.choices, self._clock.now_s
        if not is_together(saga.group):
            entries += selection.spares
        places = deque(_places(selection, entries))
        here: dict[str, _Place] = {}
        while saga.unplaced and not saga.unsettled:
            below: dict[int, list[Delegation]] = {}
            for uuid in [uuid for uuid in saga.unplaced if uuid not in here]:
                if not places:
                    return
                place = places.popleft()
                if isinstance(place.where, ChildTerms):
                    sent_ms = saga.next_ms(now_s())
                    delegation = Delegation(saga.unplaced[uuid], place.where.blob, sent_ms)
                    below.setdefault(place.where.zone_id, []).append(delegation)
                else:
                    here[uuid] = place
            if below:
                await _all(self._send(saga, zone_id, some) for zone_id, some in below.items())
                await self._settle(saga)
            elif here:
                # Last, since what is claimed here and not wanted would have to be deleted.
                mine, here = here, {}
                await _all(self._build_here(saga, uuid, one) for uuid, one in mine.items())

    async def _build_here(self, saga: Saga, uuid: str, place: _Place) -> None:
        instance, where = saga.unplaced[uuid], place.where
        assert isinstance(where, HostTerms)  # noqa: S101 - as `_build` told them apart
        sent_ms = saga.next_ms(self._clock.now_s())
        flaw = await self._builder.build_here(
            saga.request, instance, place.key, where, sent_ms=sent_ms
        )
        if flaw is None:
            saga.placed[uuid] = 0
        if flaw in {None, OfferRefusalReason.WITHDRAWN}:
            del saga.unplaced[uuid]

    async def _send(self, saga: Saga, zone_id: int, delegations: list[Delegation]) -> None:
        flaws = await self._delegator.send(saga.request, saga.group, zone_id, delegations)
        for uuid, flaw in flaws.items():
            if flaw is None:
                saga.placed[uuid] = zone_id
                del saga.unplaced[uuid]
            elif flaw is OfferRefusalReason.UNSETTLED:
                saga.unsettled.add(uuid)

    async def _settle(self, saga: Saga) -> None:
        """Ask children what came of what they did not answer for, as long as the settings say."""
        until_s = self._clock.now_s() + self._settings.settle_s
        pause_s = _SETTLE_PAUSE_S
        while saga.unsettled:
            await self._completion.settle(saga, saga.unsettled, keeps_built=True)
            if not saga.unsettled or self._clock.now_s() + pause_s > until_s:
                return
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _SETTLE_PAUSE_MAX_S)

    # ---- parts ----------------------------------------------------------------------------

    async def _select(
        self,
        request: Request,
        group: ServerGroup | None,
        waiting: Iterable[str] | None = None,
        *,
        without: Collection[int] = (),
    ) -> Selection:
        wanted = request
        if waiting is not None:
            wanted = replace(request, instance_uuids=tuple(waiting))
        deadline_s = self._clock.now_s() + self._settings.select_s
        # This zone's own layer is never sealed, as nobody is above it.
        blob_bytes = blob_bytes_of(self._settings.levels_max) + LAYER_BYTES
        order = SelectOrder(wanted, self._zone, deadline_s, blob_bytes, group)
        return await self._selector.select(order, without=without)

    async def _release(self, selection: Selection, *, keep: int = 0) -> None:
        await self._selector.release(UnusedOffers(selection.select_id, keep), self._zone)

    async def _group_of(self, request: Request) -> ServerGroup | None:
        uuid = request.group_uuid
        if uuid is None:
            return None
        known = self._replica.hosts.server_groups.get(uuid)
        # It may be newer than the replica: children have to be told of it all the same.
        return known or await self._ledger.get(ServerGroup, uuid)


def _suits(group: ServerGroup | None, selection: Selection) -> bool:
    """Tell whether a plan goes where a group is that was bound since it was made."""
    return home_of(group) in {None, home_at(selection.choices[0].where)}


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all calls, and then raise what the first one raised that failed."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if result is not None:
            raise result


def _places(selection: Selection, entries: Iterable[OfferChoice]) -> Iterable[_Place]:
    for place, choice in enumerate(entries):
        yield _Place(OfferKey(selection.select_id, place), choice.where)


def _told(selection: Selection) -> str:
    """Return what is said of the zones below when there was no room."""
    if not selection.late:
        return "The zones below have too little room, too."
    # Nothing is known of the room of these, and there may be no others.
    late = f"{selection.late} of the zones below gave no answer that helps."
    return f"{late} What others have is too little."


def _told_operators(selection: Selection) -> str:
    """Return how much room there was below, which is no tenant's business."""
    below = sum(isinstance(one.where, ChildTerms) for one in selection.choices)
    return f"The zones below have room for {below}."
