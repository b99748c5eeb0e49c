"""Carrying out the tasks of instances on one host, and the stages of their moves."""

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
"""Tasks that have a handler here; a test holds them equal to `HOST_TASKS`."""


def has_turn(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Tell whether the agent of a host has something to do for an instance.

    Args:
        host: of the agent.
        instance: as the ledger has it.
        migration: the move that it is in the midst of.
    """
    if migration is not None and not migration.is_known:
        return False
    turn = None if migration is None else migration.turn
    if turn is not None and instance.task is not Task.DELETING:
        return turn == host
    if _is_nowhere(instance):
        return True
    if instance.host != host or _is_evacuated(instance):
        return False
    return instance.task in HOST_TASKS or builds.has_disks_to_drop(instance)


def _is_nowhere(instance: Instance) -> bool:
    """Tell whether an instance is deleted that has nothing but disks: any agent may do that."""
    is_going = instance.task is Task.DELETING and instance.status is not Status.DELETED
    return is_going and instance.host is None and instance.disks is not None


def _is_evacuated(instance: Instance) -> bool:
    """Tell whether another host is looked for, since this one is said to be down.

    The task is that of a rebuild. An agent that lives all the same must not make the guest anew.
    """
    action = instance.action
    is_asked = action is not None and action.name == EVACUATE.action
    return is_asked and instance.task is Task.REBUILDING


class HostExecutor:
    """Carries out tasks on one host through its driver."""

    def __init__(self, context: HostContext, observer: Observer = NO_OBSERVER) -> None:
        self._context = context
        self._observer = observer
        self._failed_builds = FailedBuilds(context.ledger, context.clock, context.half_life_s)

    @property
    def host(self) -> str:
        """The host."""
        return self._context.host

    async def carry_out(self, instance: Instance, *, in_doubt: bool = False) -> int:
        """Do what is to be done here with an instance, until it is done and recorded.

        An active instance is made to run. The instance is read again when the ledger refuses
        the outcome, so a delete that comes during a build is carried out after it, and what was
        started for an instance that is gone, or is elsewhere by now, is stopped.

        Args:
            instance: as it was last heard of; it may be out of date.
            in_doubt: an earlier try may have been recorded, so read the instance first.

        Returns:
            The revision at which the instance is done with.

        Raises:
            BuildError: an active instance cannot be made to run.
            UnavailableError: the ledger cannot be reached; the task is still there.
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
                # What an earlier move has left here goes first: the feed tells them in order.
                return latest.revision
            move = latest.migration_uuid
            migration = await self._migration(latest)
            if not _concerns(host, latest, migration):
                break
            result = await self._observed_step(latest, migration)
            if result is None:
                break
            if await self._commit(result.units):
                await self._follow_up(result, latest)
                return latest.revision + 1
            latest = await self._read(instance.uuid)
            await self._drop_in_vain(result, latest)
        if latest is None or not _belongs(host, latest, migration):
            await context.driver.destroy(instance.uuid)
        return instance.revision if latest is None else latest.revision

    async def clean_up_after_move(self, migration: Migration) -> None:
        """Destroy what a move has left here of an instance that is elsewhere, or deleted.

        Raises:
            UnavailableError: the ledger cannot be reached; the stage is still there.
        """
        latest = await self._context.ledger.get(Migration, migration.uuid)
        if latest is None or not has_leftover(self._context.host, latest):
            return
        result = await live_moves.clear_leftover_guest(self._context, latest)
        await self._context.ledger.commit([result.unit])

    async def reconcile(self, instances: Sequence[Instance] | None = None) -> HostComparison:
        """Compare the host with the ledger; see `reconciling.reconcile`."""
        await self._failed_builds.fade(self.host)
        return await reconcile(self._context, instances)

    async def repair(self, anomaly: HostAnomaly) -> HostFinding | None:
        """Mend what was odd about a guest; see `reconciling.mend`."""
        return await repair(self._context, anomaly)

    async def stop_restarting(self, instance: Instance, rule: RestartRule) -> HostFinding | None:
        """Start the guest of an instance no more; see `restarting.give_up`."""
        return await stop_restarting(self._context, instance, rule)

    async def cancel_move(self, instance_uuid: str) -> None:
        """Have a live move that is going on from here fail."""
        await self._context.driver.cancel_hand_over(instance_uuid)

    async def _commit(self, units: Sequence[Unit]) -> bool:
        """Commit the first unit that the ledger takes; tell whether it took any.

        One that is refused for what its instance is by now is as good as all of them refused.
        """
        for unit in units:
            (outcome,) = await self._context.ledger.commit([unit])
            if isinstance(outcome, Committed):
                return not outcome.repeated
            if not outcome.shortages and not outcome.stale:
                break
        return False

    async def _follow_up(self, result: TaskResult, instance: Instance) -> None:
        """Do what comes after an outcome that is recorded; none of it is needed."""
        if result.cause is not None:
            builds, project_id = self._failed_builds, instance.project_id
            await builds.note_failure(self.host, project_id, result.cause)
        elif result.has_failed is False:
            await self._failed_builds.note_success(self.host)

    async def _drop_in_vain(self, result: TaskResult, latest: Instance | None) -> None:
        """Delete disks that were stored for an instance with which something else is done now."""
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
        # One that was given up since the instance was read is cleared away in its own turn.
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
    """Return the stage of the move under way, or else the instance's task."""
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
    """Tell whether a move has left something on a host that is to be cleared away."""
    return migration.stage in _LEFTOVER_STAGES and migration.turn == host


def _concerns(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Tell whether an instance is on a host, or on its way from or to it."""
    if instance.host == host or _is_nowhere(instance):
        return True
    return migration is not None and migration.concerns(host)


def _belongs(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Tell whether a host may have a guest of an instance."""
    return instance.status is not Status.DELETED and _concerns(host, instance, migration)
