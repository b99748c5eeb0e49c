"""Liveness of hosts: heartbeats kept in memory, and shared between processes in batches.

A gateway notes the heartbeats of the agents that are connected to it, and stores them together
every few seconds in a report of its own, which is not a version of the ledger. Every process reads
the reports of all gateways into its host table. The cost is therefore the same for 20 hosts and for
10,000.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from berth.domain.errors import BerthError
from berth.ports.clock import Clock
from berth.ports.ledger import HeartbeatReport, HeartbeatStore
from berth.ports.observer import NO_OBSERVER, Observer
from berth.ports.telemetry import Telemetry
from berth.services.replica.replica import Replica

SHARE_INTERVAL_S: Final = 5.0
"""Seconds between two exchanges of heartbeats with other processes."""

# A report contains the hosts that were heard from within this time, so that a process reading its
# first report learns when a now-silent host was last heard from.
_KEPT_S: Final = 3_600.0
_MS_PER_S: Final = 1_000
_NS_PER_S: Final = 1_000_000_000
# The system clock was stepped if it and the monotonic clock have diverged by more than this.
_STEP_S: Final = 2.0


class Liveness:
    """Keeps the time at which each host was last heard from.

    Args:
        store: exchanges the heartbeats with other processes.
        replica: contains the host table.
        clock: the system clock and a monotonic counter.
        telemetry: receives failed exchanges and steps of the clock.
        gateway: the id of this process in the store; a UUID that is new at each start.
        interval_s: seconds between two exchanges.
        observer: counts the heartbeats.
    """

    def __init__(  # noqa: PLR0913 - its collaborators and two values
        self,
        store: HeartbeatStore,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        gateway: str,
        *,
        interval_s: float = SHARE_INTERVAL_S,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._store = store
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._gateway = gateway
        self._interval_s = interval_s
        self._observer = observer
        # The Unix time of the last heartbeat that this process itself received from each host.
        self._heard_s: dict[str, float] = {}
        self._has_news = False
        # The newest report that was read of each gateway.
        self._known: dict[str, int] = {}
        self._number = 0
        self._is_failing = False
        self._step_checked_s = clock.now_s(), clock.ticks_ns() / _NS_PER_S

    def note(self, host: str) -> None:
        """Note a heartbeat of a host; this process's host table shows it at once."""
        now_s = self._clock.now_s()
        self._heard_s[host] = now_s
        self._has_news = True
        self._replica.note_alive((host,), now_s)

    async def run(self) -> None:
        """Exchange heartbeats with other processes periodically, until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            self.check_clock()
            try:
                await self.share()
            except BerthError as error:
                if not self._is_failing:
                    self._telemetry.failure("heartbeats_not_shared", error)
                self._is_failing = True
            else:
                self._is_failing = False

    async def share(self) -> None:
        """Store the heartbeats of this process, if there are new ones, and read those of others.

        Raises:
            UnavailableError: the store cannot be reached; the next exchange includes everything.
        """
        if self._has_news:
            await self._save()
        for report in await self._store.heartbeats({**self._known, self._gateway: self._number}):
            self._known[report.gateway] = report.number
            self._put(report.seen_s)

    def check_clock(self) -> None:
        """Detect a step of the system clock, and move the times of heartbeats along with it.

        After a step all heartbeats seem to be old, or to lie in the future, although no host has
        fallen silent.
        """
        before_s, ticked_before_s = self._step_checked_s
        now_s, ticked_s = self._clock.now_s(), self._clock.ticks_ns() / _NS_PER_S
        self._step_checked_s = now_s, ticked_s
        step_s = (now_s - before_s) - (ticked_s - ticked_before_s)
        if abs(step_s) <= _STEP_S:
            return
        self._telemetry.event("clock_stepped", seconds=round(step_s, 1))
        self._heard_s = {host: at_s + step_s for host, at_s in self._heard_s.items()}
        self._replica.shift_heartbeats(step_s)

    async def _save(self) -> None:
        now_s = self._clock.now_s()
        self._heard_s = {h: at_s for h, at_s in self._heard_s.items() if now_s - at_s <= _KEPT_S}
        self._has_news = False
        number = max(int(now_s * _MS_PER_S), self._number + 1)
        count = len(self._heard_s)
        try:
            report = HeartbeatReport(self._gateway, number, dict(self._heard_s))
            await self._store.save_heartbeats(report)
        except (BerthError, asyncio.CancelledError):
            self._has_news = True
            self._observer.heartbeats(count, are_saved=False)
            raise
        self._number = number
        self._observer.heartbeats(count, are_saved=True)

    def _put(self, seen_s: Mapping[str, float]) -> None:
        by_time: dict[float, list[str]] = defaultdict(list)
        for host, at_s in seen_s.items():
            by_time[at_s].append(host)
        for at_s, hosts in by_time.items():
            self._replica.note_alive(hosts, at_s)
