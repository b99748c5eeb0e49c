"""Rounds: each host is audited again and again, and never many of them at the same time."""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

_NS_PER_S: Final = 1_000_000_000
_BEAT_S: Final = 0.25
"""How long to wait at least, so that a process of many hosts wakes a few times a second."""
_JITTER: Final = 0.1
"""The share of the interval by which it is longer or shorter each time."""
_AT_ONCE: Final = 16


class AuditRounds:
    """Goes round the hosts of a process.

    The first round is spread over the whole interval, and no two hosts keep step: many agents that
    were started together would else ask the ledger together for ever.

    Args:
        hosts: all of them.
        audit: looks at one of them; what it raises is told, and it is called again in time.
        clock: the time.
        telemetry: told of what went wrong.
        interval_s: seconds between two looks at the same host, more or less.
        randomness: draws when each host is looked at.
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
        """Go round for ever."""
        async with asyncio.TaskGroup() as group:
            while self._due:
                await self._clock.sleep(max(self._due[0][0] - self._now_s(), _BEAT_S))
                for host in self._next():
                    group.create_task(self._look_at(host))

    def _next(self) -> list[str]:
        """Return the hosts that are due, and say when they are again."""
        now_s, found = self._now_s(), list[str]()
        while self._due[0][0] <= now_s:
            _, host = self._due[0]
            share = 1 + _JITTER * (2 * self._randomness.random() - 1)
            wait_s = max(self._interval_s * share, _BEAT_S)
            heapq.heapreplace(self._due, (now_s + wait_s, host))
            if host not in self._at_work:
                self._at_work.add(host)
                found.append(host)
        return found

    async def _look_at(self, host: str) -> None:
        try:
            async with self._slots:
                await self._audit(host)
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way; it is done again
            self._telemetry.failure("audit_failed", error, host=host)
        finally:
            self._at_work.discard(host)

    def _now_s(self) -> float:
        return self._clock.ticks_ns() / _NS_PER_S
