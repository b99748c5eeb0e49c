"""Handlers for the bus commands that a scheduler serves for its zone."""

from berth.domain.zones.zone_orders import BuildOrder, Offers, ReleaseOrder, SelectOrder
from berth.ports.bus import Bus
from berth.services.zoning.delegation.offer_building import OfferBuilder
from berth.services.zoning.delegation.release import ReleaseHandler
from berth.services.zoning.messages.zone_commands import (
    BUILD,
    BUILD_HELD,
    RELEASE,
    RELEASE_OFFERS,
    SELECT,
    Acknowledged,
    BuildReply,
    HeldBuildOrder,
    HeldBuildReply,
    OfferRelease,
    ReleaseReply,
    scheduler_name,
)
from berth.services.zoning.offers.hold_routing import OfferReleaser
from berth.services.zoning.offers.selection import OfferSelector


class ZoneCommandHandlers:
    """Serves the bus commands of a zone.

    Args:
        selector: makes offers.
        builder: builds instances from offers.
        release_handler: releases offers and withdraws instances.
        offer_releaser: releases offers, whichever of the zone's schedulers made them.
        scheduler: this process's id in offers, eight bytes.
    """

    def __init__(
        self,
        selector: OfferSelector,
        builder: OfferBuilder,
        release_handler: ReleaseHandler,
        offer_releaser: OfferReleaser,
        scheduler: bytes,
    ) -> None:
        self._selector = selector
        self._builder = builder
        self._release_handler = release_handler
        self._offer_releaser = offer_releaser
        self._scheduler = scheduler

    def serve(self, bus: Bus) -> None:
        """Register the handlers on a bus, which calls them until the process ends."""
        bus.serve(SELECT, self.select)
        bus.serve(BUILD, self._build)
        bus.serve(BUILD_HELD, self._build_held, server=scheduler_name(self._scheduler))
        bus.serve(RELEASE, self._release)
        bus.serve(RELEASE_OFFERS, self._let_go)

    async def select(self, order: SelectOrder) -> Offers:
        """Release the parent's unused offers of earlier selects, and return new offers.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached.
        """
        # The release comes first, so the new offers may use the room that the old ones held.
        await self._offer_releaser.release(order.surplus, order.audience)
        return await self._selector.offers(order)

    async def _build(self, order: BuildOrder) -> BuildReply:
        return BuildReply(await self._builder.build(order))

    async def _build_held(self, order: HeldBuildOrder) -> HeldBuildReply:
        return HeldBuildReply(await self._builder.build_held(order))

    async def _release(self, order: ReleaseOrder) -> ReleaseReply:
        return ReleaseReply(await self._release_handler.release(order))

    async def _let_go(self, order: OfferRelease) -> Acknowledged:
        for surplus in order.surplus:
            await self._selector.release(surplus, order.audience)
        return Acknowledged()
