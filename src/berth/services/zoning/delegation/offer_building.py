"""Builds instances from offers, by claims on this zone's hosts or by delegation to children."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.compute.request import Destination, Request
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import QuotaCheck
from berth.domain.zones.offer import (
    ChildTerms,
    HostTerms,
    LapsedHoldAction,
    OfferKey,
    OfferRefusalReason,
    OfferRefusedError,
    OfferTerms,
)
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.domain.zones.zone_orders import BuildItem, BuildOrder, BuildOutcome
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.zoning.delegation.delegation import Delegation, Delegator
from berth.services.zoning.delegation.release import withdrawn_ms
from berth.services.zoning.messages.zone_commands import HeldBuildOrder
from berth.services.zoning.offers.group_homes import GroupHomes, home_of
from berth.services.zoning.offers.held_offers import HeldOffers
from berth.services.zoning.offers.hold_routing import HoldRouter
from berth.services.zoning.offers.offer_seals import OfferSeals, request_digest


class _Opened(NamedTuple):
    """An item of a build order, and the terms inside its sealed offer."""

    item: BuildItem
    terms: OfferTerms


class OfferBuilder:
    """Builds instances from the offers that this zone has made.

    Args:
        ledger: stores claims and remote instances.
        replica: maps providers to hosts.
        placer: claims room on this zone's hosts.
        held: the offers that this process holds for parents.
        seals: opens this zone's offers.
        homes: the home zones of server groups.
        delegator: delegates instances to children.
        clock: provides the time of day.
        on_gone: the response to an offer whose hold has ended.
        hold_router: reaches the other schedulers of this zone; None if there are none.
        limits: returns the quota check of a project, or None if it has no limits; without this
            argument no project has limits.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        placer: Placer,
        held: HeldOffers,
        seals: OfferSeals,
        homes: GroupHomes,
        delegator: Delegator,
        clock: Clock,
        on_gone: LapsedHoldAction = LapsedHoldAction.TAKE,
        hold_router: HoldRouter | None = None,
        limits: Callable[[str], QuotaCheck | None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._placer = placer
        self._held = held
        self._seals = seals
        self._homes = homes
        self._delegator = delegator
        self._clock = clock
        self._on_gone = on_gone
        self._hold_router = hold_router
        self._limits = limits

    async def build(self, order: BuildOrder) -> tuple[BuildOutcome, ...]:
        """Build each item whose offer is valid, and return one outcome per item, in order.

        Each offer can be used once. Repeating an order for an instance that was built from the
        same offer succeeds again.

        Raises:
            ConflictError: the record of the server group kept changing, or the record of an
                instance that a child accepted cannot be written.
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached; instances may have been built.
        """
        flaws: dict[str, OfferRefusalReason | None] = {}
        here: list[_Opened] = []
        below: dict[int, list[_Opened]] = {}
        digest, now_s = request_digest(order.request), self._clock.now_s()
        for item in order.items:
            try:
                terms = self._seals.open(
                    item.blob, audience=order.audience, request_digest=digest, now_s=now_s
                )
            except OfferRefusedError as error:
                flaws[item.instance.uuid] = error.flaw
                continue
            opened = _Opened(item, terms)
            if isinstance(terms.where, ChildTerms):
                below.setdefault(terms.where.zone_id, []).append(opened)
            else:
                here.append(opened)
        first = next((one.terms.where for one in (*here, *chain(*below.values()))), None)
        home = None if first is None else home_of(await self._homes.bind(order.group, first))
        if home is not None:
            # The group may have got its home zone after the offers were made, so offers of other
            # zones are void.
            elsewhere = [one for one in here if home]
            elsewhere += chain(*(some for zone_id, some in below.items() if zone_id != home))
            flaws.update((one.item.instance.uuid, OfferRefusalReason.GONE) for one in elsewhere)
            here = [] if home else here
            below = {zone_id: some for zone_id, some in below.items() if zone_id == home}
        found = await asyncio.gather(
            *(self._build_here(order.request, one) for one in here),
            *(self._build_below(order, zone_id, some) for zone_id, some in below.items()),
        )
        flaws.update(pair for pairs in found for pair in pairs)
        uuids = (item.instance.uuid for item in order.items)
        return tuple(BuildOutcome(uuid, flaws[uuid]) for uuid in uuids)

    async def _build_here(
        self, request: Request, one: _Opened
    ) -> Sequence[tuple[str, OfferRefusalReason | None]]:
        where = one.terms.where
        assert isinstance(where, HostTerms)  # noqa: S101 - `build` separates the kinds
        instance = one.item.instance
        order = HeldBuildOrder(request, instance, one.terms.key, where, one.item.sent_ms)
        if self._hold_router is None:
            flaw = await self.build_held(order)
        else:
            flaw = await self._hold_router.build(order, self.build_held)
        return [(instance.uuid, flaw)]

    async def build_held(self, order: HeldBuildOrder) -> OfferRefusalReason | None:
        """Claim the room that this process holds for an order's offer; see `build_here`."""
        key, where = order.key, order.where
        return await self.build_here(
            order.request, order.instance, key, where, sent_ms=order.sent_ms
        )

    async def build_here(
        self,
        request: Request,
        instance: Instance,
        key: OfferKey,
        where: HostTerms,
        *,
        sent_ms: int,
    ) -> OfferRefusalReason | None:
        """Claim the room of one offer on this zone's own hosts.

        Args:
            request: the request that the offer was made for.
            instance: the instance to build.
            key: identifies the offer.
            where: the hold of the offer on its host.
            sent_ms: the Unix time of the order in milliseconds; it overrides an older withdrawal
                of the instance.

        Returns:
            None if the instance is being built or was built from this offer before, otherwise the
            reason for the refusal.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached; the claim may have been made.
        """
        order = self._order(request, instance, key, where)
        if order is None:
            return OfferRefusalReason.GONE
        try:
            decision = await self._place(order, sent_ms)
        except ConflictError:
            return await self._why(instance, key)
        except QuotaExceededError:
            # The parent gets the same answer as for taken room. A different one would disclose that
            # a project of this zone has used up its quota.
            return OfferRefusalReason.GONE
        if decision.verdict is Verdict.REFUSED:
            return OfferRefusalReason.GONE
        return (
            None
            if decision.placements[0].instance_uuid == instance.uuid
            else OfferRefusalReason.USED
        )

    async def _place(self, order: PlaceOrder, sent_ms: int) -> Decision:
        """Place an order, overwriting an older tombstone of its instance; return the decision."""
        (instance,) = order.instances
        try:
            return await self._placer.place(order)
        except ConflictError:
            stored = await self._ledger.get(Instance, instance.uuid)
            marked_ms = None if stored is None else withdrawn_ms(stored)
            if stored is None or marked_ms is None or sent_ms <= marked_ms:
                raise
            anew = replace(instance, revision=stored.revision)
            return await self._placer.place(replace(order, instances=(anew,)))

    def _order(
        self, request: Request, instance: Instance, key: OfferKey, where: HostTerms
    ) -> PlaceOrder | None:
        """End the hold of an offer and return the order that claims its room.

        Returns:
            The order, or None if the host is gone, or if the hold has ended and `on_gone` is
            REFUSE.
        """
        # No await comes between the end of the hold and the decision, except for members of groups,
        # so no other request in this process can take the room.
        place = OfferKey(key.select_id, where.place)
        offered = self._held.offered(place)
        held = self._held.take(place)
        row = self._replica.hosts.row_of(where.provider_uuid)
        if row is None or (held is None and self._on_gone is LapsedHoldAction.REFUSE):
            return None
        host, node, _ = self._replica.hosts.identity(row)
        is_bound = held is not None or self._on_gone is LapsedHoldAction.TAKE
        # The offer's key becomes the claim's key, which the ledger accepts only once. A second use
        # of the offer therefore fails in the ledger, whichever process attempts it.
        wanted = replace(
            request,
            request_id=key.claim_key,
            instance_uuids=(instance.uuid,),
            destination=Destination(host, node) if is_bound else None,
            alternates=() if is_bound else ((host, node),),
        )
        within = None if self._limits is None else self._limits(instance.project_id)
        return PlaceOrder(wanted, (instance,), offer=True, offered=offered, within=within)

    async def _why(self, instance: Instance, key: OfferKey) -> OfferRefusalReason | None:
        """Return why an instance could not be saved, or None if this same offer built it."""
        stored = await self._ledger.get(Instance, instance.uuid)
        if stored is None or stored.status is Status.DELETED:
            return OfferRefusalReason.WITHDRAWN
        decision = await self._ledger.get(Decision, key.claim_key)
        placed = () if decision is None else decision.placements
        is_same = any(one.instance_uuid == instance.uuid for one in placed)
        return None if is_same else OfferRefusalReason.USED

    async def _build_below(
        self, order: BuildOrder, zone_id: int, some: Sequence[_Opened]
    ) -> Sequence[tuple[str, OfferRefusalReason | None]]:
        flaws: dict[str, OfferRefusalReason | None] = {}
        delegations: list[Delegation] = []
        earlier: dict[str, RemoteInstance] = {}
        for one in some:
            delegation = Delegation(one.item.instance, _inner_blob(one), one.item.sent_ms)
            uuid = delegation.instance.uuid
            remote = await self._ledger.get(RemoteInstance, uuid)
            flaw = await self._flaw_of(delegation, zone_id, remote)
            if flaw is not None:
                flaws[uuid] = flaw
                continue
            if remote is not None:
                earlier[uuid] = remote
            delegations.append(delegation)
        if delegations:
            flaws |= await self._delegator.send(
                order.request,
                order.group,
                zone_id,
                delegations,
                withdrawn=self._withdrawn,
                earlier=earlier,
            )
        for uuid, remote in earlier.items():
            if flaws[uuid] is not None and remote.stage is not RemoteInstanceStage.THERE:
                # The child refuses this offer, but may have built the instance from an earlier
                # order whose answer was lost.
                flaws[uuid] = OfferRefusalReason.UNSETTLED
        return list(flaws.items())

    async def _flaw_of(
        self, delegation: Delegation, zone_id: int, remote: RemoteInstance | None
    ) -> OfferRefusalReason | None:
        """Return why an instance must not be delegated, or None if it may be.

        An instance is refused if it is in this zone or at another child, belongs to another
        project, or was withdrawn or sent again after this order.
        """
        # These checks precede the write of the new record, which would replace the only record of
        # an instance at another child.
        if remote is not None and remote.project_id != delegation.instance.project_id:
            return OfferRefusalReason.USED
        is_late = remote is not None and remote.sent_ms > delegation.sent_ms
        if is_late or await self._is_past(delegation):
            return OfferRefusalReason.WITHDRAWN
        is_elsewhere = remote is not None and remote.zone_id != zone_id
        return OfferRefusalReason.USED if is_elsewhere else None

    async def _withdrawn(self, delegations: Sequence[Delegation]) -> frozenset[str]:
        """Return the uuids of instances that were withdrawn after they were sent, or are here."""
        return frozenset([one.instance.uuid for one in delegations if await self._is_past(one)])

    async def _is_past(self, delegation: Delegation) -> bool:
        """Return whether an instance was withdrawn after it was sent, or is in this zone."""
        stored = await self._ledger.get(Instance, delegation.instance.uuid)
        if stored is None:
            return False
        marked_ms = withdrawn_ms(stored)
        return marked_ms is None or delegation.sent_ms <= marked_ms


def _inner_blob(one: _Opened) -> bytes:
    where = one.terms.where
    assert isinstance(where, ChildTerms)  # noqa: S101 - `build` separates the kinds
    return where.blob
