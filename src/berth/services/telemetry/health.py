"""The health of a process and its gauges, which are read on demand."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from berth import __version__
from berth.domain.errors import BerthError
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.measures import (
    BROKER_UP,
    FEED_LAG,
    GATEWAY_SESSIONS,
    HEARTBEAT_AGE,
    HOSTS,
    INFO,
    INSTANCES,
    LEDGER_UP,
    PENDING,
    PENDING_AGE,
    POLICY_OK,
    TABLE_AGE,
    TABLE_VERSION,
    UPTIME,
)
from berth.ports.telemetry import Reading
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.replica.stats import ShownStates, count_hosts

_NS_PER_S = 1_000_000_000
# A ledger that does not answer within this many seconds counts as unreachable. Probes have timeouts
# of their own, often 5 to 10 s, and must receive the reason before these end.
_PATIENCE_S = 2.0


class PolicyState(Protocol):
    """Provides the state of the policy file."""

    @property
    def last_error(self) -> str | None:
        """The error in the policy as currently written, or None if the policy is in force."""
        ...


@dataclass(frozen=True, slots=True)
class HostTableHealth:
    """The health sources of a process that makes decisions: its host table and its policy.

    `down_time_s` returns the seconds without a heartbeat after which a service counts as down.
    """

    replica: Replica
    policies: PolicyState
    down_time_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The health source of the broker.

    `is_up` returns whether the broker is connected, and `is_needed` says whether the process needs
    it to be ready.
    """

    is_up: Callable[[], bool]
    is_needed: bool


class Health(Protocol):
    """Determines the readiness of a process, and reads its gauges."""

    async def problems(self) -> list[str]:
        """Return the reasons why the process is not ready, or an empty list if it is ready.

        The reasons contain no internal details.
        """
        ...

    async def read(self) -> list[Reading]:
        """Return the current values of all gauges."""
        ...


class ProcessHealth:
    """Determines the readiness of a process, and reads its gauges.

    Args:
        ledger: the ledger, whose version is queried.
        follower: the follower of the ledger's feed.
        clock: measures ages and the uptime.
        fleet: the host table and policy, or None in a process without them.
        lag_s_max: seconds without a catch-up after which the process is not ready.
        broker: the broker, or None if the process uses none.

    Attributes:
        further: functions that return the gauges of other parts of the process.
        surveys: coroutine functions that do the same, for gauges that take a while to compute.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        clock: Clock,
        fleet: HostTableHealth | None = None,
        lag_s_max: float = 10.0,
        broker: BrokerHealth | None = None,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._clock = clock
        self._fleet = fleet
        self._lag_s_max = lag_s_max
        self._broker = broker
        self._began_ns = clock.ticks_ns()
        self._shown = ShownStates()
        if fleet is not None:
            # Shown states of instances are counted from the feed, because counting on demand would
            # scan all instances.
            follower.subscribers.append(self._shown)
        self.further: list[Callable[[], Sequence[Reading]]] = []
        self.surveys: list[Callable[[], Awaitable[Sequence[Reading]]]] = []

    async def problems(self) -> list[str]:
        """Return the reasons why the process is not ready, or an empty list if it is ready.

        The reasons contain no internal details.
        """
        found: list[str] = []
        fault = await self._ledger_fault()
        if fault is not None:
            found.append(fault)
        if not self._follower.synced_at_s:
            found.append("the replica is not loaded yet")
        elif self._age_s() > self._lag_s_max:
            found.append(f"the replica has not caught up for {self._age_s():.0f} s")
        # An API process without a broker still accepts requests, which stay pending in the ledger.
        if self._broker is not None and self._broker.is_needed and not self._broker.is_up():
            found.append("the broker cannot be reached")
        return found

    async def read(self) -> list[Reading]:
        """Return the current values of all gauges, but none of a ledger that does not answer."""
        version = await self._ledger_version()
        is_up = version is not None and await self._ledger_fault() is None
        readings = [
            Reading(INFO, 1.0, (__version__,)),
            Reading(UPTIME, (self._clock.ticks_ns() - self._began_ns) / _NS_PER_S),
            Reading(LEDGER_UP, float(is_up)),
            Reading(TABLE_AGE, self._age_s()),
            Reading(TABLE_VERSION, self._follower.version),
        ]
        if version is not None:
            readings.append(Reading(FEED_LAG, max(0, version - self._follower.version)))
        if self._broker is not None:
            readings.append(Reading(BROKER_UP, float(self._broker.is_up())))
        # These need no ledger, so they are read even when it does not answer.
        for read in self.further:
            readings += read()
        for survey in self.surveys:
            readings += await survey()
        if self._fleet is not None:
            readings += self._of_fleet(self._fleet)
            if version is not None:
                readings += await self._of_instances()
        return readings

    async def _ledger_fault(self) -> str | None:
        """Return the reason why the ledger cannot be used, or None if it can be used."""
        try:
            return await asyncio.wait_for(self._ledger.write_fault(), _PATIENCE_S)
        except (BerthError, TimeoutError):
            return "the ledger does not answer"

    async def _ledger_version(self) -> int | None:
        """Return the ledger's version, or None if it does not answer."""
        try:
            # The version is the cheapest query that proves a working connection.
            return await asyncio.wait_for(self._ledger.version(), _PATIENCE_S)
        except (BerthError, TimeoutError):
            return None

    def _age_s(self) -> float:
        # The system clock may have been set back since, and an age is never negative.
        return max(0.0, self._clock.now_s() - self._follower.synced_at_s)

    def _of_fleet(self, fleet: HostTableHealth) -> list[Reading]:
        now_s, pending = self._clock.now_s(), fleet.replica.pending
        hosts = count_hosts(fleet.replica.hosts, now_s, fleet.down_time_s())
        oldest_s = min((one.accepted_at_s for one in pending.values()), default=now_s)
        return [
            Reading(HOSTS, hosts.up, ("up",)),
            Reading(HOSTS, hosts.down, ("down",)),
            Reading(HOSTS, hosts.disabled, ("disabled",)),
            Reading(HEARTBEAT_AGE, hosts.oldest_s),
            Reading(PENDING, len(pending)),
            Reading(PENDING_AGE, max(0.0, now_s - oldest_s)),
            Reading(POLICY_OK, float(fleet.policies.last_error is None)),
        ]

    async def _of_instances(self) -> Sequence[Reading]:
        try:
            # The ledger keeps these counts, so the gauge costs one query and does not scan the
            # instances.
            by_status = await asyncio.wait_for(self._ledger.status_counts(), _PATIENCE_S)
        except (BerthError, TimeoutError):
            return ()
        counts = self._shown.counts(by_status)
        return [Reading(INSTANCES, count, (state,)) for state, count in counts.items()]


class SessionHealth:
    """The health of a process of agents that reach the control plane through a gateway.

    Args:
        is_connected: a function for each host, which returns whether the host has a session.
        clock: measures the uptime.
    """

    def __init__(self, is_connected: Sequence[Callable[[], bool]], clock: Clock) -> None:
        self._is_connected = is_connected
        self._clock = clock
        self._began_ns = clock.ticks_ns()

    async def problems(self) -> list[str]:
        """Return the reasons why the process is not ready, or an empty list if it is ready."""
        missing = sum(not one() for one in self._is_connected)
        hosts = "the host has" if len(self._is_connected) == 1 else f"{missing} hosts have"
        return [f"{hosts} no session with the control plane"] if missing else []

    async def read(self) -> list[Reading]:
        """Return the current values of all gauges."""
        connected = sum(one() for one in self._is_connected)
        return [
            Reading(INFO, 1.0, (__version__,)),
            Reading(UPTIME, (self._clock.ticks_ns() - self._began_ns) / _NS_PER_S),
            Reading(GATEWAY_SESSIONS, connected),
        ]
