"""Holders: the schedulers that hold what was offered, found by what an offer names, or all asked.

Offers are held in the memory of the scheduler that made them, and the bus gives what a parent asks
next to any scheduler of the zone.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

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

LocalBuild = Callable[[HeldBuildOrder], Awaitable[OfferRefusalReason | None]]

_TIMEOUT_S: Final = 5.0


class SelectReleaser(Protocol):
    """Whoever has made offers, and remembers for which selects."""

    async def release(self, surplus: UnusedOffers, audience: str) -> bool:
        """See `Selecting.release`."""
        ...


class HoldRouter:
    """Has offers built by the scheduler that holds their room.

    Args:
        bus: reaches the schedulers of this zone.
        scheduler: names this process, in eight bytes.
        timeout_s: how long another scheduler may take.
    """

    def __init__(self, bus: Bus, scheduler: bytes, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._timeout_s = timeout_s

    async def build(self, order: HeldBuildOrder, here: LocalBuild) -> OfferRefusalReason | None:
        """Have an instance built where its room is held, or here when nobody is there any more.

        Args:
            order: the instance, and its offer.
            here: builds it in this process.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
            UnavailableError: the ledger cannot be reached; what came of it is not known.
        """
        holder = order.where.scheduler
        name = scheduler_name(holder)
        if holder == self._scheduler or not self._bus.serves(BUILD_HELD, server=name):
            return await here(order)
        try:
            built = await self._bus.call(BUILD_HELD, order, timeout_s=self._timeout_s, server=name)
        except UnavailableError:
            # Gone, most likely. Should it only be slow, the claim's key lets one of the two
            # through, and both say the same; but a refusal here need not bind it.
            flaw = await here(order)
            return OfferRefusalReason.UNSETTLED if flaw is OfferRefusalReason.GONE else flaw
        return built.flaw


class OfferReleaser:
    """Lets go offers, of this scheduler or of whichever has made them.

    Args:
        selecting: knows the selects of this process.
        bus: reaches the others.
        telemetry: is told when it does not.
    """

    def __init__(self, selector: SelectReleaser, bus: Bus, telemetry: Telemetry) -> None:
        self._selector = selector
        self._bus = bus
        self._telemetry = telemetry

    async def release(self, surplus: Sequence[UnusedOffers], audience: str) -> None:
        """Let go offers; holds that nobody can be told of end by themselves."""
        others = [one for one in surplus if not await self._selector.release(one, audience)]
        if not others:
            return
        try:
            await self._bus.fanout(RELEASE_OFFERS, OfferRelease(tuple(others), audience))
        except UnavailableError as error:
            self._telemetry.failure("zone_let_go_failed", error)
