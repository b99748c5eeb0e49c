"""Watching: which child zones are up, and what they tell of themselves (the zone manager of D1)."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.ledger.change import Change, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.domain.zones.zone import Zone, ZoneInfo
from berth.ports.clock import Clock
from berth.ports.measures import CHILD_ZONES
from berth.ports.telemetry import Reading, Telemetry
from berth.ports.zones import ChildZones

_ACTIVE: Final = "active"
_OFFLINE: Final = "offline"
_DISABLED: Final = "disabled"


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How children are watched.

    One is asked each `interval_s`, and has `timeout_s` to answer. After `failures_to_offline`
    failures in a row it is down; from then on it is asked less and less often, up to
    `pause_max_s`, until it answers.
    """

    interval_s: float = 30.0
    timeout_s: float = 5.0
    failures_to_offline: int = 3
    pause_max_s: float = 300.0


@dataclass(slots=True)
class _Sight:
    """What is known of a child: it is up until it has failed too often."""

    zone: Zone
    failures: int = 0
    next_s: float = 0.0
    info: ZoneInfo | None = None
    seen_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChildZoneState:
    """A child as operators see it: `seen_s` is when it last answered, None for never.

    One that `is_active` is up and enabled: requests for new instances go to it.
    """

    zone: Zone
    is_active: bool
    is_up: bool
    failures: int
    info: ZoneInfo | None
    seen_s: float | None


class ZoneWatch:
    """Follows the records of the zones, and asks each child now and then; see `Subscriber`.

    Args:
        children: asks them.
        clock: tells the time.
        telemetry: is told when one goes down or comes back.
        rng: for the jitter between two questions.
        settings: see `WatchSettings`.
    """

    def __init__(
        self,
        *,
        children: ChildZones,
        clock: Clock,
        telemetry: Telemetry,
        rng: Random,
        settings: WatchSettings,
    ) -> None:
        self._children = children
        self._clock = clock
        self._telemetry = telemetry
        self._rng = rng
        self._settings = settings
        self._sights: dict[int, _Sight] = {}
        self._changed = asyncio.Event()

    # ---- the records ----------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        known = {zone.zone_id: zone for zone in snapshot.zones if not zone.is_removed}
        for zone_id in self._sights.keys() - known.keys():
            del self._sights[zone_id]
        for zone in known.values():
            self._put(zone)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            match change.event:
                case Zone(is_removed=True) as zone:
                    self._sights.pop(zone.zone_id, None)
                case Zone():
                    self._put(change.event)
                case RecordRemoved(Kind.ZONE, key):
                    self._sights.pop(int(key), None)
                case _:
                    pass

    def _put(self, zone: Zone) -> None:
        sight = self._sights.get(zone.zone_id)
        if sight is not None and sight.zone == zone:
            return
        if sight is None or sight.zone.api_url != zone.api_url:
            self._sights[zone.zone_id] = _Sight(zone)
        else:
            sight.zone, sight.next_s = zone, 0.0
        self._changed.set()

    # ---- what is known --------------------------------------------------------------------

    def active(self) -> Sequence[Zone]:
        """Return the children that are enabled and up, in order of their numbers."""
        states = (self._sights[zone_id] for zone_id in sorted(self._sights))
        return [sight.zone for sight in states if self._is_active(sight)]

    def zone_of(self, zone_id: int) -> Zone | None:
        """Return a child by its number, whether it is up or not; None when there is none."""
        sight = self._sights.get(zone_id)
        return None if sight is None else sight.zone

    def states(self) -> Mapping[int, ChildZoneState]:
        """Return what is known of each child, by its number."""
        return {
            zone_id: ChildZoneState(
                zone=sight.zone,
                is_active=self._is_active(sight),
                is_up=self._is_up(sight),
                failures=sight.failures,
                info=sight.info,
                seen_s=sight.seen_s,
            )
            for zone_id, sight in sorted(self._sights.items())
        }

    def read(self) -> list[Reading]:
        """Take the readings for monitoring: how many children are in each state."""
        states = Counter(map(_state_of, self.states().values()))
        return [Reading(CHILD_ZONES, states[one], (one,)) for one in (_ACTIVE, _OFFLINE, _DISABLED)]

    def _is_active(self, sight: _Sight) -> bool:
        return sight.zone.is_enabled and self._is_up(sight)

    def _is_up(self, sight: _Sight) -> bool:
        return sight.failures < self._settings.failures_to_offline

    # ---- asking ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask every child in its time, for ever."""
        while True:
            self._changed.clear()
            at_s = self._steady_s()
            due = [one for one in self._sights.values() if one.next_s <= at_s]
            await asyncio.gather(*map(self._ask, due))
            pause_s = self._until_next()
            wakes = asyncio.ensure_future(self._changed.wait())
            sleeps = asyncio.ensure_future(self._clock.sleep(pause_s))
            try:
                await asyncio.wait((wakes, sleeps), return_when=asyncio.FIRST_COMPLETED)
            finally:
                wakes.cancel()
                sleeps.cancel()

    def _until_next(self) -> float:
        at_s = self._steady_s()
        times = [one.next_s - at_s for one in self._sights.values()]
        return max(0.01, min(times, default=self._settings.interval_s))

    async def _ask(self, sight: _Sight) -> None:
        zone = sight.zone
        was_active = self._is_active(sight)
        try:
            info = await self._children.info(zone, timeout_s=self._settings.timeout_s)
        except BerthError as error:
            sight.failures += 1
            if was_active and not self._is_active(sight):
                self._telemetry.failure("zone_went_down", error, zone=zone.name)
        else:
            if info.name != zone.name:
                # Offers and statements are bound to the name, so nothing of it would work.
                sight.failures = max(sight.failures + 1, self._settings.failures_to_offline)
                self._telemetry.event("zone_has_another_name", zone=zone.name, says=info.name)
            else:
                sight.failures, sight.info, sight.seen_s = 0, info, self._clock.now_s()
                if not was_active and zone.is_enabled:
                    self._telemetry.event("zone_came_back", zone=zone.name)
        sight.next_s = self._steady_s() + self._pause_s(sight)

    def _steady_s(self) -> float:
        """Return seconds that go on when the time of day is set."""
        return self._clock.ticks_ns() / 1e9

    def _pause_s(self, sight: _Sight) -> float:
        settings = self._settings
        beyond = max(0, sight.failures - settings.failures_to_offline)
        pause_s: float = min(settings.interval_s * 2 ** min(beyond, 16), settings.pause_max_s)
        return pause_s * self._rng.uniform(0.9, 1.1)


def _state_of(state: ChildZoneState) -> str:
    if not state.zone.is_enabled:
        return _DISABLED
    return _ACTIVE if state.is_active else _OFFLINE
