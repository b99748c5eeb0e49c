"""The executor: carries out the tasks of instances on one host, and the stages of their moves."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from berth.agent.executor import builds, cold_moves, live_moves
from berth.agent.executor.disk_leftovers import HostFinding
from berth.agent.executor.host_context import HostContext, TaskResult
from berth.agent.executor.power import POWER_TASKS, change_power
from berth.agent.executor.reconciliation import HostAnomaly, HostComparison, reconcile, repair
from berth.agent.executor.restarts import RestartRule, stop_restarting
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import EVACUATE, HOST_TASKS
from berth.domain.compute.migration import Migration, MoveKind, Stage
from berth.domain.errors import BerthError, DriverError
from berth.domain.ledger.write import Committed, Put, Unit
from berth.ports.observer import NO_OBSERVER, Observer
from berth.services.placement.failed_builds import FailedBuilds

_StageHandler = Callable[[HostContext, Instance, Migration], Awaitable[TaskResult]]
_TaskHandler = Callable[[HostContext, Instance], Awaitable[TaskResult]]

_STAGE_HANDLERS: Final[Mapping[Stage, _StageHandler]] = {
    Stage.LEAVING: cold_moves.leave_source,
    Stage.ARRIVING: cold_moves.build_at_destination,
    Stage.CONFIRMING: cold_moves.confirm,
    Stage.RETURNING: cold_moves.revert,
    Stage.RESTORING: cold_moves.restore,
    Stage.PREPARING: live_moves.prepare,
    Stage.MOVING: live_moves.hand_over,
    Stage.LANDING: live_moves.check_arrival,
    Stage.WITHDRAWING: live_moves.withdraw,
}
_TASK_HANDLERS: Final[Mapping[Task, _TaskHandler]] = {
    Task.SPAWNING: builds.build,
    Task.REBUILDING: builds.rebuild,
    Task.SHELVING: builds.shelve,
    Task.SHELVING_OFFLOADING: builds.offload,
    Task.UNSHELVING: builds.unshelve,
}

_STORING_TASKS: Final = frozenset({Task.SHELVING, Task.SHELVING_OFFLOADING})
_NS_PER_S: Final = 1_000_000_000
_NO_TASK: Final = "starting"
_LEFTOVER_STAGES: Final = frozenset({Stage.LEFT_BEHIND, Stage.ABANDONED})

CARRIED_OUT: Final = frozenset({*_TASK_HANDLERS, *POWER_TASKS, Task.DELETING})
"""The tasks that have a handler; a test ensures that they equal `HOST_TASKS`."""


def has_turn(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether the agent of a host must take the next step for an instance.

    Args:
        host: the agent's host.
        instance: the instance, as in the ledger.
        migration: the move under way, if any.
    """
    # A newer Berth may write stages that this version does not know; its agents handle them.
    if migration is not None and not migration.is_known:
        return False
    turn = None if migration is None else migration.turn
    # A delete does not wait for a move: it ends the instance's part immediately (ADR 0018).
    if turn is not None and instance.task is not Task.DELETING:
        return turn == host
    if _is_nowhere(instance):
        return True
    if instance.host != host or _is_evacuated(instance):
        return False
    return instance.task in HOST_TASKS or builds.has_disks_to_drop(instance)


def _is_nowhere(instance: Instance) -> bool:
    """Return whether an instance without a host is being deleted but still has stored disks.

    Any agent may delete the disks.
    """
    is_going = instance.task is Task.DELETING and instance.status is not Status.DELETED
    return is_going and instance.host is None and instance.disks is not None


def _is_evacuated(instance: Instance) -> bool:
    """Return whether an instance waits for a scheduler to choose the destination of an evacuation.

    Its task is that of a rebuild, as in Nova; only the action differs. If this host is alive
    although it was declared down, its agent must not rebuild the guest.
    """
    action = instance.action
    is_asked = action is not None and action.name == EVACUATE.action
    return is_asked and instance.task is Task.REBUILDING


class HostExecutor:
    """Carries out tasks on one host through its driver.

    Args:
        context: the host, with its ledger and driver.
        observer: receives each task and its outcome.
    """

    def __init__(self, context: HostContext, observer: Observer = NO_OBSERVER) -> None:
        self._context = context
        self._observer = observer
        self._failed_builds = FailedBuilds(context.ledger, context.clock, context.half_life_s)

    @property
    def host(self) -> str:
        """The name of the host."""
        return self._context.host

    async def carry_out(self, instance: Instance, *, in_doubt: bool = False) -> int:
        """Carry out the task of an instance and commit the outcome.

        If the instance has no task but should run, because it is active or was active before its
        resize, its guest is started unless it runs. When the ledger rejects the outcome, the
        instance is read again: a delete that arrived during a build is carried out next, and the
        guest of an instance that is deleted or on another host by now is destroyed.

        Args:
            instance: the last known state; it may be stale.
            in_doubt: whether an earlier attempt may have been committed, so that the instance must
                be read first.

        Returns:
            The revision up to which nothing remains to be done.

        Raises:
            BuildError: the guest of an active instance cannot be started.
            DriverError: the driver failed in a way that does not end the task.
            UnavailableError: the ledger cannot be reached, or the outcome of a live migration is
                unknown; the task remains in the ledger.
        """
        with self._observer.task(self.host, instance):
            return await self._carry_out(instance, in_doubt=in_doubt)

    async def _carry_out(self, instance: Instance, *, in_doubt: bool) -> int:
        context, host = self._context, self._context.host
        latest = await self._read(instance.uuid) if in_doubt else instance
        migration: Migration | None = None
        move = instance.migration_uuid
        while latest is not None:
            if latest.migration_uuid not in {None, move}:
                # A new move has begun. Return, since leftovers of earlier moves must be cleaned up
                # first, and the feed delivers those in order.
                return latest.revision
            move = latest.migration_uuid
            migration = await self._migration(latest)
            if not _concerns(host, latest, migration):
                break
            result = await self._observed_step(latest, migration)
            if result is None:
                break
            # The writes name the revision that was read, so a concurrent change of the instance
            # (a delete, an evacuation) makes the ledger reject them.
            if await self._commit(result.units):
                await self._follow_up(result, latest)
                return latest.revision + 1
            latest = await self._read(instance.uuid)
            await self._drop_in_vain(result, latest)
        # A stale version may have started a guest that this host must not have, and that may also
        # run elsewhere.
        if latest is None or not _belongs(host, latest, migration):
            await context.driver.destroy(instance.uuid)
        return instance.revision if latest is None else latest.revision

    async def clean_up_after_move(self, migration: Migration) -> None:
        """Destroy the guest that a move left on this host.

        Raises:
            DriverError: the guest could not be destroyed.
            UnavailableError: the ledger cannot be reached; the stage remains there.
        """
        # Read again: the migration from the feed may have been cleaned up by an earlier attempt,
        # and the instance may be back on this host.
        latest = await self._context.ledger.get(Migration, migration.uuid)
        if latest is None or not has_leftover(self._context.host, latest):
            return
        result = await live_moves.clear_leftover_guest(self._context, latest)
        await self._context.ledger.commit([result.unit])

    async def reconcile(self, instances: Sequence[Instance] | None = None) -> HostComparison:
        """Save the decayed count of failed builds, and compare the host with the ledger.

        See `reconciliation.reconcile`.
        """
        await self._failed_builds.fade(self.host)
        return await reconcile(self._context, instances)

    async def repair(self, anomaly: HostAnomaly) -> HostFinding | None:
        """Repair an anomaly; see `reconciliation.repair`."""
        return await repair(self._context, anomaly)

    async def stop_restarting(self, instance: Instance, rule: RestartRule) -> HostFinding | None:
        """Stop restarting the guest of an instance; see `restarts.stop_restarting`."""
        return await stop_restarting(self._context, instance, rule)

    async def cancel_move(self, instance_uuid: str) -> None:
        """Cancel a live migration away from this host."""
        await self._context.driver.cancel_hand_over(instance_uuid)

    async def _commit(self, units: Sequence[Unit]) -> bool:
        """Commit the first unit that the ledger accepts; return whether it is newly committed.

        The next unit is tried after a shortage or a changed guard. A changed instance ends the
        attempts, since all units build on the same state of it.
        """
        for unit in units:
            (outcome,) = await self._context.ledger.commit([unit])
            if isinstance(outcome, Committed):
                return not outcome.repeated
            if not outcome.shortages and not outcome.stale:
                break
        return False

    async def _follow_up(self, result: TaskResult, instance: Instance) -> None:
        """Update the host's build statistics after a commit; losing an update does no harm."""
        if result.cause is not None:
            builds, project_id = self._failed_builds, instance.project_id
            await builds.note_failure(self.host, project_id, result.cause)
        elif result.has_failed is False:
            await self._failed_builds.note_success(self.host)

    async def _drop_in_vain(self, result: TaskResult, latest: Instance | None) -> None:
        """Delete stored disks whose address could not be recorded because the instance changed."""
        stored = result.stored
        if stored is None or (latest is not None and stored == latest.disks):
            return
        if latest is None or latest.task not in _STORING_TASKS:
            with suppress(DriverError):
                await self._context.driver.drop_stored(stored)

    async def _move_on(self, instance: Instance, migration: Migration | None) -> TaskResult | None:
        if migration is None or migration.turn is None:
            return None
        if migration.kind is MoveKind.EVACUATION and migration.stage is Stage.ARRIVING:
            return await cold_moves.evacuate(self._context, instance, migration)
        step = _STAGE_HANDLERS.get(migration.stage)
        # A move that was abandoned since the instance was read has no handler here: the pool
        # cleans it up as a leftover.
        return None if step is None else await step(self._context, instance, migration)

    async def _read(self, uuid: str) -> Instance | None:
        return await self._context.ledger.get(Instance, uuid)

    async def _migration(self, instance: Instance) -> Migration | None:
        if instance.migration_uuid is None:
            return None
        return await self._context.ledger.get(Migration, instance.migration_uuid)

    async def _observed_step(
        self, instance: Instance, migration: Migration | None
    ) -> TaskResult | None:
        step, began_ns = _step_name(instance, migration), self._context.clock.ticks_ns()
        try:
            result = await self._step(instance, migration)
        except BerthError:
            self._observer.task_ended(step, "error", self._seconds_since(began_ns))
            raise
        if result is not None:
            outcome = "failed" if _has_failed(result, instance) else "done"
            self._observer.task_ended(step, outcome, self._seconds_since(began_ns))
            if result.cause is not None:
                self._observer.build_failed(result.cause)
        return result

    def _seconds_since(self, began_ns: int) -> float:
        return (self._context.clock.ticks_ns() - began_ns) / _NS_PER_S

    async def _step(self, instance: Instance, migration: Migration | None) -> TaskResult | None:
        context, task = self._context, instance.task
        if not has_turn(context.host, instance, migration):
            if instance.host == context.host and _should_run(instance, migration):
                await context.driver.spawn(instance)
            return None
        if task is Task.DELETING:
            return await builds.destroy(context, instance, migration)
        if migration is not None and migration.turn is not None:
            return await self._move_on(instance, migration)
        if task is None:
            return await builds.drop_disks(context, instance)
        if task in POWER_TASKS:
            return await change_power(context, instance, task)
        return await _TASK_HANDLERS[task](context, instance)


def _step_name(instance: Instance, migration: Migration | None) -> str:
    """Return the stage of the move under way, else the instance's task, else `starting`."""
    if migration is not None and migration.turn is not None:
        return migration.stage
    return instance.task or _NO_TASK


def _has_failed(result: TaskResult, before: Instance) -> bool:
    """Return whether the result records a fault that the instance did not have before."""
    if result.has_failed is not None:
        return result.has_failed
    written = [write.record for write in result.unit if isinstance(write, Put)]
    return any(
        isinstance(one, Instance) and one.fault is not None and one.fault != before.fault
        for one in written
    )


def _should_run(instance: Instance, migration: Migration | None) -> bool:
    if instance.task is not None:
        return False
    if instance.status is Status.RESIZED:
        return migration is not None and migration.was is Status.ACTIVE
    return instance.status is Status.ACTIVE


def has_leftover(host: str, migration: Migration) -> bool:
    """Return whether a host must destroy the guest that a move has left on it."""
    return migration.stage in _LEFTOVER_STAGES and migration.turn == host


def _concerns(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether an instance is on a host, moves from or to it, or any agent may delete it."""
    if instance.host == host or _is_nowhere(instance):
        return True
    return migration is not None and migration.concerns(host)


def _belongs(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether a host may have a guest of an instance."""
    return instance.status is not Status.DELETED and _concerns(host, instance, migration)
