"""Audit rounds: the periodic audit of each host, with bounded concurrency."""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

_NS_PER_S: Final = 1_000_000_000
# The minimum wait in seconds, so that a process with many hosts wakes up only a few times a second.
_BEAT_S: Final = 0.25
# Each wait differs from the interval by up to this share of it.
_JITTER: Final = 0.1
_AT_ONCE: Final = 16


class AuditRounds:
    """Audits the hosts of a process periodically, at most 16 at a time.

    The first round is spread over the whole interval and each wait has jitter: agents that were
    started together would otherwise all report at the same moment.

    Args:
        hosts: the names of the hosts.
        audit: audits one host. After an error, which is reported, it is called again in the next
            round.
        clock: provides the time.
        telemetry: receives failed audits.
        interval_s: the mean time in seconds between two audits of a host.
        randomness: provides the jitter.
    """

    def __init__(
        self,
        hosts: Collection[str],
        audit: Callable[[str], Awaitable[None]],
        clock: Clock,
        telemetry: Telemetry,
        *,
        interval_s: float,
        randomness: random.Random,
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._telemetry = telemetry
        self._interval_s = interval_s
        self._randomness = randomness
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._at_work: set[str] = set()
        now_s = self._now_s()
        self._due = [(now_s + randomness.random() * interval_s, host) for host in sorted(hosts)]
        heapq.heapify(self._due)

    async def run(self) -> None:
        """Audit hosts as they become due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while self._due:
                await self._clock.sleep(max(self._due[0][0] - self._now_s(), _BEAT_S))
                for host in self._next():
                    group.create_task(self._look_at(host))

    def _next(self) -> list[str]:
        """Return the hosts that are due, and schedule their next audits."""
        now_s, found = self._now_s(), list[str]()
        while self._due[0][0] <= now_s:
            _, host = self._due[0]
            share = 1 + _JITTER * (2 * self._randomness.random() - 1)
            wait_s = max(self._interval_s * share, _BEAT_S)
            heapq.heapreplace(self._due, (now_s + wait_s, host))
            # While an audit takes longer than the interval, no second audit of its host is started.
            if host not in self._at_work:
                self._at_work.add(host)
                found.append(host)
        return found

    async def _look_at(self, host: str) -> None:
        try:
            async with self._slots:
                await self._audit(host)
        except Exception as error:  # noqa: BLE001 - drivers may raise anything; it is retried
            self._telemetry.failure("audit_failed", error, host=host)
        finally:
            self._at_work.discard(host)

    def _now_s(self) -> float:
        return self._clock.ticks_ns() / _NS_PER_S
