"""Routes builds and releases to the scheduler of this zone that holds the offers.

Offers are held in the memory of the scheduler that made them, while the bus delivers a parent's
next order to any scheduler of the zone. A build names the holder in its offer; a release does not,
so it goes to all schedulers.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from berth.domain.errors import UnavailableError
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone_orders import UnusedOffers
from berth.ports.bus import Bus
from berth.ports.telemetry import Telemetry
from berth.services.zoning.messages.zone_commands import (
    BUILD_HELD,
    RELEASE_OFFERS,
    HeldBuildOrder,
    OfferRelease,
    scheduler_name,
)
from berth.services.zoning.offers.selection import OfferSelector

LocalBuild = Callable[[HeldBuildOrder], Awaitable[OfferRefusalReason | None]]

# A claim takes milliseconds, so a scheduler that does not answer within this many seconds is most
# likely dead.
_TIMEOUT_S: Final = 5.0


class HoldRouter:
    """Has each offer built by the scheduler that holds its room.

    Args:
        bus: the bus between the processes of this zone.
        scheduler: this process's id in offers, eight bytes.
        timeout_s: seconds that another scheduler may take to answer.
    """

    def __init__(self, bus: Bus, scheduler: bytes, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._timeout_s = timeout_s

    async def build(self, order: HeldBuildOrder, here: LocalBuild) -> OfferRefusalReason | None:
        """Ask the holder to build an instance, or build it here if the holder is gone or fails.

        Args:
            order: the instance and its offer.
            here: builds the instance in this process.

        Returns:
            The reason for a refusal, or None if the instance is being or has been built. If the
            holder does not answer and this process finds the room taken, the reason is UNSETTLED.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached; the instance may have been built.
        """
        holder = order.where.scheduler
        name = scheduler_name(holder)
        if holder == self._scheduler or not self._bus.serves(BUILD_HELD, server=name):
            return await here(order)
        try:
            built = await self._bus.call(BUILD_HELD, order, timeout_s=self._timeout_s, server=name)
        except UnavailableError:
            # The holder is most likely dead. If it is only slow, the claim's key lets one of the
            # two claims into the ledger and both report success. A refusal here, however, does
            # not bind the holder, so the outcome stays open.
            flaw = await here(order)
            return OfferRefusalReason.UNSETTLED if flaw is OfferRefusalReason.GONE else flaw
        return built.flaw


class OfferReleaser:
    """Releases offers, whichever of this zone's schedulers made them.

    Args:
        selector: releases the offers that this process made.
        bus: reaches the other schedulers.
        telemetry: receives failures of the bus.
    """

    def __init__(self, selector: OfferSelector, bus: Bus, telemetry: Telemetry) -> None:
        self._selector = selector
        self._bus = bus
        self._telemetry = telemetry

    async def release(self, surplus: Sequence[UnusedOffers], audience: str) -> None:
        """Release offers. If the bus fails, holds of other schedulers remain until they expire."""
        others = [one for one in surplus if not await self._selector.release(one, audience)]
        if not others:
            return
        try:
            await self._bus.fanout(RELEASE_OFFERS, OfferRelease(tuple(others), audience))
        except UnavailableError as error:
            self._telemetry.failure("zone_hold_release_failed", error)
