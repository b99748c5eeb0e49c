"""Monitors the availability of child zones and the capabilities that they report.

Source: nova-behaviour.md 1.6.
"""

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
    """Settings for polling child zones.

    Attributes:
        interval_s: seconds between two polls of a child.
        timeout_s: seconds that a child may take to answer.
        failures_to_offline: failures in a row after which a child counts as down.
        pause_max_s: the longest pause between two polls of a child that is down, before jitter;
            the pause doubles with each failure up to this limit.
    """

    interval_s: float = 30.0
    timeout_s: float = 5.0
    failures_to_offline: int = 3
    pause_max_s: float = 300.0


@dataclass(slots=True)
class _PolledChild:
    """The polling state of a child; `next_s` is the monotonic second of its next poll.

    A child counts as up until it has failed `failures_to_offline` times in a row.
    """

    zone: Zone
    failures: int = 0
    next_s: float = 0.0
    info: ZoneInfo | None = None
    seen_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChildZoneState:
    """A child's state for operators.

    `is_active` means up and enabled: requests for new instances go to it. `seen_s` is the Unix time
    of its latest answer, or None if it has never answered.
    """

    zone: Zone
    is_active: bool
    is_up: bool
    failures: int
    info: ZoneInfo | None
    seen_s: float | None


class ZoneWatch:
    """Follows the records of child zones as a `Subscriber`, and polls each child.

    Args:
        children: the client of the child zones.
        clock: provides the time of day and a monotonic counter.
        telemetry: receives an event when a child goes down, comes back, or reports another name.
        rng: the random source of the jitter.
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
        self._polled: dict[int, _PolledChild] = {}
        self._changed = asyncio.Event()

    # ---- the records ----------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        known = {zone.zone_id: zone for zone in snapshot.zones if not zone.is_removed}
        for zone_id in self._polled.keys() - known.keys():
            del self._polled[zone_id]
        for zone in known.values():
            self._put(zone)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            match change.event:
                case Zone(is_removed=True) as zone:
                    self._polled.pop(zone.zone_id, None)
                case Zone():
                    self._put(change.event)
                case RecordRemoved(Kind.ZONE, key):
                    self._polled.pop(int(key), None)
                case _:
                    pass

    def _put(self, zone: Zone) -> None:
        child = self._polled.get(zone.zone_id)
        if child is not None and child.zone == zone:
            return
        # Failures at the old URL say nothing about the new one, so the state is reset.
        if child is None or child.zone.api_url != zone.api_url:
            self._polled[zone.zone_id] = _PolledChild(zone)
        else:
            child.zone, child.next_s = zone, 0.0
        self._changed.set()

    # ---- what is known --------------------------------------------------------------------

    def active(self) -> Sequence[Zone]:
        """Return the children that are enabled and up, ordered by id."""
        states = (self._polled[zone_id] for zone_id in sorted(self._polled))
        return [child.zone for child in states if self._is_active(child)]

    def offline(self) -> Sequence[Zone]:
        """Return the children that are enabled and known to be down, ordered by id."""
        states = (self._polled[zone_id] for zone_id in sorted(self._polled))
        return [one.zone for one in states if one.zone.is_enabled and not self._is_up(one)]

    def zone_of(self, zone_id: int) -> Zone | None:
        """Return a child by its id, whether up or not, or None if there is no such child."""
        child = self._polled.get(zone_id)
        return None if child is None else child.zone

    def states(self) -> Mapping[int, ChildZoneState]:
        """Return the state of each child, by its id."""
        return {
            zone_id: ChildZoneState(
                zone=child.zone,
                is_active=self._is_active(child),
                is_up=self._is_up(child),
                failures=child.failures,
                info=child.info,
                seen_s=child.seen_s,
            )
            for zone_id, child in sorted(self._polled.items())
        }

    def read(self) -> list[Reading]:
        """Return a gauge for each state, with the number of children in it."""
        states = Counter(map(_state_of, self.states().values()))
        return [Reading(CHILD_ZONES, states[one], (one,)) for one in (_ACTIVE, _OFFLINE, _DISABLED)]

    def _is_active(self, child: _PolledChild) -> bool:
        return child.zone.is_enabled and self._is_up(child)

    def _is_up(self, child: _PolledChild) -> bool:
        return child.failures < self._settings.failures_to_offline

    # ---- polling --------------------------------------------------------------------------

    async def run(self) -> None:
        """Poll every child whenever it is due; this never returns."""
        while True:
            self._changed.clear()
            at_s = self._steady_s()
            due = [one for one in self._polled.values() if one.next_s <= at_s]
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
        times = [one.next_s - at_s for one in self._polled.values()]
        return max(0.01, min(times, default=self._settings.interval_s))

    async def _ask(self, child: _PolledChild) -> None:
        zone = child.zone
        was_active = self._is_active(child)
        try:
            info = await self._children.info(zone, timeout_s=self._settings.timeout_s)
        except BerthError as error:
            child.failures += 1
            if was_active and not self._is_active(child):
                self._telemetry.failure("zone_offline", error, zone=zone.name)
        else:
            if info.name != zone.name:
                # Offers and assertions are bound to the name, so every order would be refused.
                # The child is therefore taken offline immediately.
                child.failures = max(child.failures + 1, self._settings.failures_to_offline)
                self._telemetry.event("zone_name_mismatch", zone=zone.name, says=info.name)
            else:
                child.failures, child.info, child.seen_s = 0, info, self._clock.now_s()
                if not was_active and zone.is_enabled:
                    self._telemetry.event("zone_online", zone=zone.name)
        child.next_s = self._steady_s() + self._pause_s(child)

    def _steady_s(self) -> float:
        """Return monotonic seconds, which do not change when the time of day is set."""
        return self._clock.ticks_ns() / 1e9

    def _pause_s(self, child: _PolledChild) -> float:
        settings = self._settings
        # The exponent is capped, as 2 ** failures would overflow a float after a long outage.
        # The jitter of 10 % keeps schedulers from polling a child simultaneously.
        beyond = max(0, child.failures - settings.failures_to_offline)
        pause_s: float = min(settings.interval_s * 2 ** min(beyond, 16), settings.pause_max_s)
        return pause_s * self._rng.uniform(0.9, 1.1)


def _state_of(state: ChildZoneState) -> str:
    if not state.zone.is_enabled:
        return _DISABLED
    return _ACTIVE if state.is_active else _OFFLINE
