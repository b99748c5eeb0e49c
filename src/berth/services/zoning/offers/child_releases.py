"""Batches the releases of the children's unused offers.

A select over ten children leaves the offers of nine unused. Releasing them one by one would cost as
much as the select itself, so releases are collected for a moment, and travel with the child's next
select if that comes first.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import ReleaseOrder, UnusedOffers
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones

_TIMEOUT_S: Final = 2.0
# At most this many releases are kept for a child that does not answer. The oldest ones are dropped,
# because their holds expire within seconds anyway.
_OWED_MAX: Final = 1_000


class ChildReleases:
    """Releases the unused offers of children.

    A failed release is repeated with the next message to the child. If this process ends first,
    the child's holds remain until they expire.

    Args:
        zone: the name of this zone.
        children: the client of the child zones.
        clock: measures the pause.
        telemetry: receives failures of children.
        pause_s: seconds for which releases are collected; 0 sends them immediately.
    """

    def __init__(
        self,
        *,
        zone: str,
        children: ChildZones,
        clock: Clock,
        telemetry: Telemetry,
        pause_s: float = 0.0,
    ) -> None:
        self._zone = zone
        self._children = children
        self._clock = clock
        self._telemetry = telemetry
        self._pause_s = pause_s
        # The queued releases, by the child's id.
        self._owed: dict[int, tuple[Zone, list[UnusedOffers]]] = {}
        self._telling: asyncio.Task[None] | None = None

    async def add(self, owed: Iterable[tuple[Zone, UnusedOffers]]) -> None:
        """Queue releases for children; without a pause they are sent before this returns."""
        for zone, surplus in owed:
            self._note(zone, (surplus,))
        if not self._pause_s:
            await self._tell()

    def take(self, zone: Zone) -> tuple[UnusedOffers, ...]:
        """Remove and return a child's queued releases; the caller sends them or gives them back."""
        _, found = self._owed.pop(zone.zone_id, (zone, ()))
        return tuple(found)

    def give_back(self, zone: Zone, some: Sequence[UnusedOffers]) -> None:
        """Put releases that could not be sent to a child back into its queue."""
        if some:
            self._note(zone, some)

    def _note(self, zone: Zone, some: Sequence[UnusedOffers]) -> None:
        self._owed.setdefault(zone.zone_id, (zone, []))[1].extend(some)
        if self._pause_s and self._telling is None:
            self._telling = asyncio.create_task(self._tell_soon())

    async def _tell_soon(self) -> None:
        try:
            await self._clock.sleep(self._pause_s)
        finally:
            self._telling = None
        await self._tell()

    async def _tell(self) -> None:
        owed, self._owed = self._owed, {}
        await asyncio.gather(*(self._release(zone, some) for zone, some in owed.values()))

    async def _release(self, zone: Zone, some: list[UnusedOffers]) -> None:
        order = ReleaseOrder(self._zone, surplus=tuple(some))
        try:
            await self._children.release(zone, order, timeout_s=_TIMEOUT_S)
        except BerthError as error:
            self._telemetry.failure("zone_release_failed", error, zone=zone.name)
            _, owed = self._owed.setdefault(zone.zone_id, (zone, []))
            owed[:0] = some
            del owed[:-_OWED_MAX]
