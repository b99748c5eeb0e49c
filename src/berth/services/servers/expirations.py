"""Confirms resizes and deletes soft-deleted servers after the configured times.

Every scheduler does this work periodically. The ledger accepts an operation for one revision of an
instance only, so each operation is carried out once, however many schedulers there are
(docs/adr/0037-rescued-and-soft-deleted-servers.md).
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.migration import Migration
from berth.domain.compute.soft_deletion import is_reclaimable
from berth.domain.errors import BerthError, ConflictError, NotFoundError
from berth.domain.uuids import named_uuid
from berth.ports.clock import Clock
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.ports.telemetry import Telemetry
from berth.services.replica.ledger_pages import every_instance, every_migration
from berth.services.replica.replica import Replica
from berth.services.servers.instances import Instances
from berth.services.servers.operations import Operations

# As in Nova, the work is done once a minute, or more often if a time is shorter than ten minutes.
_PAUSE_MAX_S: Final = 60.0
_PAUSE_MIN_S: Final = 1.0
_PAUSES: Final = 10
_ARRIVED: Final = "finished"
# The number of hosts whose instances a round reads. Each read takes about a millisecond.
_HOSTS_MAX: Final = 200


class ExpirationTimes(NamedTuple):
    """The times in seconds after which resizes are confirmed and servers deleted; 0 means never.

    `confirm_resize_s` counts from the arrival of a resized or cold migrated instance, `reclaim_s`
    from the request for a soft deletion.
    """

    confirm_resize_s: float = 0.0
    reclaim_s: float = 0.0

    @property
    def pause_s(self) -> float | None:
        """The seconds between two rounds; None if both times are 0."""
        shortest_s = min((one for one in self if one > 0), default=None)
        if shortest_s is None:
            return None
        return max(_PAUSE_MIN_S, min(_PAUSE_MAX_S, shortest_s / _PAUSES))


class Expirations:
    """Confirms resizes and deletes soft-deleted instances whose time has passed.

    Args:
        ledger: lists the moves and the instances.
        replica: knows the services that are down.
        operations: confirms the resizes.
        instances: deletes the instances.
        clock: provides the time.
        telemetry: receives the number of changed servers, and failures.
        times: the times after which to act.
        service_down_time_s: returns the seconds without a heartbeat after which a service is down.
    """

    def __init__(  # noqa: PLR0913 - the parts that change servers
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        operations: Operations,
        instances: Instances,
        clock: Clock,
        telemetry: Telemetry,
        times: ExpirationTimes,
        service_down_time_s: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._last_host = ""
        self._operations = operations
        self._instances = instances
        self._clock = clock
        self._telemetry = telemetry
        self._times = times
        self._service_down_time_s = service_down_time_s

    async def run(self) -> None:
        """Do the work periodically; return only if both times are 0."""
        while (pause_s := self._times.pause_s) is not None:
            try:
                await self.confirm_resizes()
                await self.finish_soft_deletions()
                await self.reclaim()
            except BerthError as error:
                self._telemetry.failure("expirations_failed", error)
            await self._clock.sleep(pause_s)

    async def confirm_resizes(self) -> int:
        """Confirm the resizes and cold migrations whose time has passed; return their number.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        window_s, count = self._times.confirm_resize_s, 0
        if not window_s:
            return 0
        query = MigrationQuery(
            status=_ARRIVED, is_live=True, changed_before_s=self._clock.now_s() - window_s
        )
        async for migration in every_migration(self._ledger, query):
            count += await self._confirm(migration)
        if count:
            self._telemetry.event("resizes_confirmed", instances=count)
        return count

    async def _confirm(self, migration: Migration) -> bool:
        """Confirm a move; return False if the instance has changed or is being changed."""
        instance = await self._ledger.get(Instance, migration.instance_uuid)
        is_waiting = instance is not None and instance.migration_uuid == migration.uuid
        if instance is None or not is_waiting or instance.task is not None:
            return False
        # All schedulers derive the same request id.
        request_id = f"req-{named_uuid(f'confirm:{migration.uuid}')}"
        try:
            await self._operations.confirm(
                instance.uuid,
                _system_caller(instance, request_id),
                service_down_time_s=self._service_down_time_s(),
            )
        except (ConflictError, NotFoundError):
            return False  # the owner or another process was faster
        return True

    async def finish_soft_deletions(self) -> int:
        """Finish the soft deletions that wait for agents of hosts that are down; return the number.

        A round handles at most `_HOSTS_MAX` such hosts, and the next one continues with the others.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        if not self._times.reclaim_s:
            return 0
        count = 0
        for host in self._next_down_hosts():
            async for instance in every_instance(self._ledger, InstanceQuery(host=host)):
                if instance.task is Task.SOFT_DELETING:
                    count += await self._soft_delete(instance)
        if count:
            self._telemetry.event("soft_deletions_finished", instances=count)
        return count

    def _next_down_hosts(self) -> list[str]:
        """Return the next hosts in alphabetical order whose services are down."""
        hosts = self._replica.hosts
        silence_s = np.abs(self._clock.now_s() - hosts.last_seen_s)
        is_up = ~hosts.forced_down & (silence_s <= self._service_down_time_s())
        rows = np.flatnonzero(hosts.alive & hosts.is_served & ~is_up)
        down = sorted({hosts.name(int(row)) for row in rows})
        first = bisect_right(down, self._last_host)
        found = [*down[first:], *down[:first]][:_HOSTS_MAX]
        self._last_host = found[-1] if found else ""
        return found

    async def _soft_delete(self, instance: Instance) -> bool:
        """Repeat a soft deletion in progress; return False if the instance has changed."""
        request_id = f"req-{named_uuid(f'soft-delete:{instance.uuid}')}"
        try:
            await self._operations.soft_delete(
                instance.uuid,
                _system_caller(instance, request_id),
                service_down_time_s=self._service_down_time_s(),
                only_finish=True,
            )
        except (ConflictError, NotFoundError):
            return False
        return True

    async def reclaim(self) -> int:
        """Delete the soft-deleted instances whose time has passed; return their number.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        interval_s, count = self._times.reclaim_s, 0
        if not interval_s:
            return 0
        before_s = self._clock.now_s() - interval_s
        async for instance in every_instance(
            self._ledger, InstanceQuery(status=Status.SOFT_DELETED)
        ):
            if is_reclaimable(instance, before_s):
                count += await self._delete(instance, before_s)
        if count:
            self._telemetry.event("instances_reclaimed", instances=count)
        return count

    async def _delete(self, instance: Instance, before_s: float) -> bool:
        """Delete an instance; return False if it has been restored or deleted meanwhile."""
        caller = _system_caller(instance, f"req-{named_uuid(f'reclaim:{instance.uuid}')}")
        try:
            return await self._instances.delete(
                instance.uuid,
                caller,
                service_down_time_s=self._service_down_time_s(),
                may_delete=lambda found: is_reclaimable(found, before_s),
            )
        except (ConflictError, NotFoundError):
            return False


def _system_caller(instance: Instance, request_id: str) -> Caller:
    """Return the caller of an operation without a user; it may operate on locked instances."""
    return Caller(request_id, instance.project_id, user_id="", is_admin=True)
