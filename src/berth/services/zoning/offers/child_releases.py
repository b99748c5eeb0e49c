"""Releases below: what children are told to let go, of many selects at once.

A select over ten children leaves offers of nine of them unused. To tell each at once, for each
select, would cost as much as the select; so what is to be let go is gathered for a moment, and goes
along with the next select of the child if one comes first.
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
_OWED_MAX: Final = 1_000
"""Selects that a child is still told of after it could not be told."""


class ChildReleases:
    """Tells children of offers that are not used.

    A child that cannot be told is told with whatever it is told next, if that comes before the
    holds end; each keeps its part until then when this process ends before it has told.

    Args:
        zone: the name of this zone.
        children: tells them.
        clock: waits.
        telemetry: is told of children that did not answer.
        pause_s: how long more is waited for; 0 tells at once.
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
        self._owed: dict[int, tuple[Zone, list[UnusedOffers]]] = {}
        """By the number of the zone."""
        self._telling: asyncio.Task[None] | None = None

    async def add(self, owed: Iterable[tuple[Zone, UnusedOffers]]) -> None:
        """Have children let go offers: soon, or with no pause before this returns."""
        for zone, surplus in owed:
            self._note(zone, (surplus,))
        if not self._pause_s:
            await self._tell()

    def take(self, zone: Zone) -> tuple[UnusedOffers, ...]:
        """Return what a child is to let go; whoever takes it tells the child, or gives it back."""
        _, found = self._owed.pop(zone.zone_id, (zone, ()))
        return tuple(found)

    def give_back(self, zone: Zone, some: Sequence[UnusedOffers]) -> None:
        """Take back what a child could not be told of; it is told soon."""
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
