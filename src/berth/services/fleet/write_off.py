"""Write-off of a lost host, which ends the moves that wait for its cleanup.

The leftovers of moves on a host that is down keep their capacity until its agent has removed them,
so that nothing new starts next to a guest that may still run. If the machine is lost, that never
happens. Only an operator can know this, and must confirm it twice: by forcing the service down, and
by requesting the write-off.

A write-off spares everything that could be the only copy: instances on the host keep their
allocations, and so do moves whose data the host still has. If the machine comes back after all,
its agent finds guests of instances that are elsewhere, and destroys them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.domain.compute.host import Service
from berth.domain.compute.migration import Migration
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.ledger.write import Free, Put, Unit, Write
from berth.ports.clock import Clock
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.ports.telemetry import Telemetry
from berth.services.auditing.audit_snapshot import ALL, held_by, total_by_class
from berth.services.providers.guarded_saves import save_guarded, service_guard
from berth.services.replica.replica import Replica

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class LeftoverMove:
    """A move with leftovers on a host, and its allocations there by class."""

    migration: Migration
    held: dict[str, int]


@dataclass(frozen=True, slots=True)
class WriteOffPlan:
    """The consequences of writing off a host.

    `moves` are those that end. `instances` are the uuids of the instances that stay on the host,
    and `waiting` are the other moves from or to the host, which also stay.
    """

    host: str
    moves: tuple[LeftoverMove, ...]
    instances: tuple[str, ...]
    waiting: tuple[Migration, ...]

    @property
    def freed(self) -> dict[str, int]:
        """The amounts that the write-off frees, by class."""
        return total_by_class({one.migration.uuid: one.held for one in self.moves})


class WriteOffService:
    """Plans and carries out the write-off of hosts.

    Args:
        ledger: stores the moves and the allocations.
        replica: knows the heartbeats that the ledger lacks.
        clock: provides the time of day.
        telemetry: receives an event for each host that is written off.
    """

    def __init__(
        self, ledger: Ledger, replica: Replica, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry

    async def plan(self, host: str, *, service_down_time_s: float) -> WriteOffPlan:
        """Return the consequences of writing off a host, without changing anything.

        Raises:
            NotFoundError: the host has no compute service.
            ConflictError: its service is not forced down, or its agent has sent a recent heartbeat.
            UnavailableError: the ledger cannot be reached.
        """
        await self._check(host, service_down_time_s)
        found = await self._ledger.migrations(MigrationQuery(host=host, is_live=True, limit=ALL))
        ending = [one for one in found if one.is_left_over and one.turn == host]
        moves = [
            LeftoverMove(one, total_by_class(await held_by(self._ledger, one.uuid)))
            for one in ending
        ]
        here = await self._ledger.instances(InstanceQuery(host=host, limit=ALL))
        waiting = [one for one in found if one not in ending]
        return WriteOffPlan(host, tuple(moves), tuple(one.uuid for one in here), tuple(waiting))

    async def write_off(self, host: str, *, service_down_time_s: float) -> WriteOffPlan:
        """End the leftovers of moves on a lost host, and free their capacity.

        Returns:
            The plan that was carried out.

        Raises:
            NotFoundError: the host has no compute service.
            ConflictError: its service is not forced down, its agent has sent a recent heartbeat, or
                every attempt lost a race against another change. Some moves may already have ended;
                repeat the write-off to end the others.
            UnavailableError: the ledger cannot be reached; some moves may already have ended.
        """
        planned = await self.plan(host, service_down_time_s=service_down_time_s)
        # The moves end in parts, each under the guard of the service, so a host that comes back
        # stops the write-off.
        for first in range(0, len(planned.moves), _AT_ONCE):
            some = [one.migration for one in planned.moves[first : first + _AT_ONCE]]
            await self._end(host, some, service_down_time_s)
        self._telemetry.event(
            "host_written_off",
            host=host,
            moves=[one.migration.uuid for one in planned.moves],
            freed=planned.freed,
        )
        return planned

    async def _end(self, host: str, moves: Sequence[Migration], down_time_s: float) -> None:
        async def read() -> Unit:
            await self._check(host, down_time_s)
            writes: list[Write] = []
            for one in moves:
                # The agent may have cleaned up since the plan was made.
                now = await self._ledger.get(Migration, one.uuid)
                if now is None or not now.is_left_over or now.turn != host:
                    continue
                over = replace(now, stage=now.stage_when_cleared, updated_at_s=self._clock.now_s())
                writes += (Free(now.uuid), Put(over))
            return tuple(writes)

        await save_guarded(self._ledger, service_guard(host), read)

    async def _check(self, host: str, down_time_s: float) -> None:
        """Check that an operator has forced a host down, and that its agent is silent.

        Raises:
            NotFoundError: the host has no compute service.
            ConflictError: it is not forced down, or its agent is alive.
            UnavailableError: the ledger cannot be reached.
        """
        service = await self._ledger.get(Service, host)
        if service is None:
            raise NotFoundError("compute service", host)
        if not service.forced_down:
            raise ConflictError(
                f"cannot write off host {host}: its service is not forced down; make sure that the "
                f"machine is off, then run `berth service force-down {host}`"
            )
        service, now_s = self._replica.with_heartbeat(service), self._clock.now_s()
        # Forcing a service down does not stop its agent, so the heartbeats are decisive.
        if replace(service, forced_down=False).is_up(now_s, down_time_s):
            raise ConflictError(
                f"cannot write off host {host}: its agent sent a heartbeat "
                f"{now_s - service.last_seen_s:.0f} s ago, so the host is alive and its agent "
                "cleans up the leftovers"
            )
