"""Releases below: what children are told to let go, of many selects at once.

A select over ten children leaves offers of nine of them unused. To tell each at once, for each
select, would cost as much as the select; so what is to be let go is gathered for a moment.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.zone import Zone
from berth.domain.zone_orders import ReleaseOrder, Surplus
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones

_TIMEOUT_S: Final = 2.0


class ReleasesBelow:
    """Tells children of offers that are not used.

    A child that cannot be told keeps its part until the holds end; so does each when this process
    ends before it has told.

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
        self._owed: dict[Zone, list[Surplus]] = {}
        self._telling: asyncio.Task[None] | None = None

    async def add(self, owed: Iterable[tuple[Zone, Surplus]]) -> None:
        """Have children let go offers: soon, or with no pause before this returns."""
        for zone, surplus in owed:
            self._owed.setdefault(zone, []).append(surplus)
        if not self._pause_s:
            await self._tell()
        elif self._owed and self._telling is None:
            self._telling = asyncio.create_task(self._tell_soon())

    async def _tell_soon(self) -> None:
        try:
            await self._clock.sleep(self._pause_s)
        finally:
            self._telling = None
        await self._tell()

    async def _tell(self) -> None:
        owed, self._owed = self._owed, {}
        await asyncio.gather(*(self._release(zone, some) for zone, some in owed.items()))

    async def _release(self, zone: Zone, some: list[Surplus]) -> None:
        order = ReleaseOrder(self._zone, surplus=tuple(some))
        try:
            await self._children.release(zone, order, timeout_s=_TIMEOUT_S)
        except BerthError as error:
            self._telemetry.failure("zone_release_failed", error, zone=zone.name)
