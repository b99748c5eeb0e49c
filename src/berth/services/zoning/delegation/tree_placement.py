"""Places requests on the best hosts of this zone and of all zones under it.

A request whose best hosts are all in this zone is placed as in a zone without children. Any other
request becomes a saga: it is pending in the ledger until all of its instances are placed or all of
them are withdrawn.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.domain.compute.decision import Decision, NoValidHostError
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import ConflictError
from berth.domain.ledger.record import PendingRequest
from berth.domain.zones.offer import ChildTerms, HostTerms, OfferKey, OfferRefusalReason
from berth.domain.zones.zone_orders import SelectOrder, UnusedOffers
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.servers.instances import Instances
from berth.services.zoning.delegation.completion import SagaCompletion
from berth.services.zoning.delegation.delegation import Delegation, Delegator
from berth.services.zoning.delegation.offer_building import OfferBuilder
from berth.services.zoning.delegation.sagas import Saga, SagaStore
from berth.services.zoning.offers.child_orders import ActiveZones
from berth.services.zoning.offers.dry_runs import NOWHERE, PART_IS_SILENT
from berth.services.zoning.offers.group_homes import GroupHomes, home_at, home_of, is_together
from berth.services.zoning.offers.offer_seals import LAYER_BYTES, blob_bytes_of
from berth.services.zoning.offers.selection import (
    OfferChoice,
    OfferSelector,
    Selection,
)

# The pause between two settlements of a child that did not answer. The request waits meanwhile, so
# the first pause is short: a child that restarts is back within seconds. Longer pauses follow, to
# spare an overloaded child.
_SETTLE_PAUSE_S = 0.5
_SETTLE_PAUSE_MAX_S = 5.0


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """The limits for placing a request over a tree.

    Attributes:
        select_s: seconds that a select may take.
        attempts_max: the maximum number of selects for one request.
        settle_s: seconds for which a child that did not answer is asked again before the
            request fails.
        levels_max: the number of levels of zones under this one for which offers have room.
    """

    select_s: float = 2.0
    attempts_max: int = 3
    settle_s: float = 60.0
    levels_max: int = 4


class _Place(NamedTuple):
    """One entry of a plan: the key of this zone's offer, and the host or child that it names."""

    key: OfferKey
    where: HostTerms | ChildTerms


class TreePlacement:
    """Places requests over a tree; implements the protocol `Placer`.

    Args:
        ledger: stores pending requests and remote instances.
        replica: provides the server groups.
        local: places requests that stay in this zone.
        selector: collects offers of this zone's hosts and of its children.
        builder: claims room on this zone's hosts.
        delegator: delegates instances to children, and withdraws them.
        instances: deletes instances of a failed request.
        zones: the children that are up and enabled.
        sagas: the store of sagas and their leases.
        on_withdrawing: receives the uuids of instances to withdraw later; see
            `WithdrawalWorker.note`.
        clock: provides the time of day.
        zone: the name of this zone.
        settings: see `TreeSettings`.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        local: Placer,
        selector: OfferSelector,
        builder: OfferBuilder,
        delegator: Delegator,
        instances: Instances,
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
        # The requests that are being placed, by id, each with an event that is set at its end.
        self._at_work: dict[str, asyncio.Event] = {}
        self._local = local
        self._selector = selector
        self._builder = builder
        self._delegator = delegator
        self._zones = zones
        self._clock = clock
        self._zone = zone
        self._settings = settings

    async def place(self, order: PlaceOrder) -> Decision:
        """Place all instances of an order in the tree, or none; see `Placer.place`.

        An order that another scheduler has leased raises ConflictError.
        """
        if not await self._may_leave(order):
            return await self._local.place(order)
        # The lease keeps other processes out. Within this process a repeated order has to wait, or
        # both orders would delegate the same instances.
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
        """Place a request on this zone's hosts, or return a selection that includes children.

        If another request takes the room here first, the whole tree is asked again.
        """
        attempt = 1
        while True:
            selection = await self._select(wanted, await self._homes.group_of(order.request))
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
        group = await self._homes.group_of(order.request)
        if len(selection.choices) == len(order.request.instance_uuids):
            group = await self._homes.bind(group, selection.choices[0].where)
        with_notes = replace(
            order, told=_told(selection), told_operators=_told_operators(selection)
        )
        if home_of(group):
            # The group's home is a child that has too little room, so this zone must refuse.
            with_notes = replace(with_notes, request=replace(order.request, destination=NOWHERE))
        return await self._local.place(with_notes)

    async def _may_leave(self, order: PlaceOrder) -> bool:
        """Return whether a request may go to other zones.

        Only a request for new instances that names no host may leave, and only while a child is
        active. A saga that a scheduler has started may leave even without an active child, because
        it may already have instances in other zones.
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
        """Return whether all places are in this zone, or the whole tree has too few."""
        is_short = len(selection.choices) < len(order.request.instance_uuids)
        return is_short or all(isinstance(one.where, HostTerms) for one in selection.choices)

    # ---- start and resumption -------------------------------------------------------------

    async def _go_on(self, order: PlaceOrder) -> Decision:
        """Resume a pending request, which a scheduler that has died may have started."""
        request_id = order.request.request_id
        pending = await self._ledger.get(PendingRequest, request_id)
        if pending is None:
            raise ConflictError(f"request {request_id} is no longer pending")
        taken = await self._sagas.take(pending)
        group = await self._homes.group_of(taken.request)
        saga = await self._sagas.resume(taken.request, group, order.instances)
        if taken.is_given_up:
            return await self._completion.give_up(saga)
        # While no instance has left this zone, the request may still be placed here without a saga.
        if not saga.placed and not saga.unsettled:
            wanted = replace(saga.request, instance_uuids=tuple(saga.unplaced))
            found = await self._here_or(order, wanted)
            return found if isinstance(found, Decision) else await self._travel(saga, found)
        return await self._travel(saga, None)

    async def _execute(self, order: PlaceOrder, selection: Selection) -> Decision:
        """Record a request as pending and leased, and run its saga."""
        group = await self._homes.group_of(order.request)
        try:
            saga = await self._sagas.begin(order, group)
        except ConflictError:
            await self._release(selection)
            raise
        return await self._travel(saga, selection)

    # ---- the saga -------------------------------------------------------------------------

    async def _travel(self, saga: Saga, selection: Selection | None) -> Decision:
        """Place all unplaced instances of a saga, or withdraw all, and return the decision."""
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
            # The holds of the spares are released immediately. A spare can be used without a hold,
            # and other requests should not be refused because of room that is rarely needed.
            await self._release(chosen, keep=len(chosen.choices))
            await self._use(saga, chosen)
            if saga.unplaced:
                # Without this release, the next select would find its room taken by the holds of
                # this one.
                await self._release(chosen)
                without |= await self._left(saga)

    async def _left(self, saga: Saga) -> set[int]:
        """Free a group from a home zone that took none of its members.

        Returns:
            The id of that zone, which the next select leaves out; empty if the group stays.
        """
        home = home_of(saga.group)
        if saga.group is None or home is None or saga.unsettled:
            return set()
        free = await self._homes.leave(saga.group, but=saga.unplaced)
        if free is None:
            return set()
        saga.group = free
        return {home}

    async def _use(self, saga: Saga, selection: Selection) -> None:
        """Build instances from the entries of a plan, and from its spares if an entry fails."""
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
                # This zone's own claims come last, because a child can still refuse. Claims made
                # before that would have to be deleted.
                claims, here = here, {}
                await _all(self._build_here(saga, uuid, one) for uuid, one in claims.items())

    async def _build_here(self, saga: Saga, uuid: str, place: _Place) -> None:
        instance, where = saga.unplaced[uuid], place.where
        assert isinstance(where, HostTerms)  # noqa: S101 - `_use` separates the kinds
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
        """Ask children about unsettled instances for at most `settle_s` seconds."""
        until_s = self._clock.now_s() + self._settings.settle_s
        pause_s = _SETTLE_PAUSE_S
        while saga.unsettled:
            await self._completion.settle(saga, saga.unsettled, keeps_built=True)
            if not saga.unsettled or self._clock.now_s() + pause_s > until_s:
                return
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _SETTLE_PAUSE_MAX_S)

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
        # The zone that received the request seals no layer, so its children may use those bytes.
        blob_bytes = blob_bytes_of(self._settings.levels_max) + LAYER_BYTES
        order = SelectOrder(wanted, self._zone, deadline_s, blob_bytes, group)
        return await self._selector.select(order, without=without)

    async def _release(self, selection: Selection, *, keep: int = 0) -> None:
        await self._selector.release(UnusedOffers(selection.select_id, keep), self._zone)


def _suits(group: ServerGroup | None, selection: Selection) -> bool:
    """Return whether a plan leads to the home zone that its group has been bound to."""
    return home_of(group) in {None, home_at(selection.choices[0].where)}


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all calls, then raise the error of the first call that failed.

    A plain `gather` would return at the first error and leave the others running while the saga
    is already being given up.
    """
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if result is not None:
            raise result


def _places(selection: Selection, entries: Iterable[OfferChoice]) -> Iterable[_Place]:
    for place, choice in enumerate(entries):
        yield _Place(OfferKey(selection.select_id, place), choice.where)


def _told(selection: Selection) -> str:
    """Return the sentence about child zones in the tenant's refusal message, if any.

    Tenants learn whether the answer is complete, but not which zones there are.
    """
    if not selection.late:
        return ""
    return PART_IS_SILENT


def _told_operators(selection: Selection) -> str:
    """Return the sentences about the room of child zones, which only operators may see."""
    below = sum(isinstance(one.where, ChildTerms) for one in selection.choices)
    room = f"The child zones have room for {below} of the instances."
    if not selection.late:
        return room
    return f"{room} {selection.late} of the child zones gave no usable answer."
