"""The executor, which carries out the tasks of instances on one host and the stages of moves."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from berth.agent.executor import (
    builds,
    cold_moves,
    live_moves,
    server_images,
)
from berth.agent.executor.host_context import HostContext, StepEnd
from berth.agent.executor.leftovers import HostFinding
from berth.agent.executor.power import (
    POWER_TASKS,
    change_power,
    rescue,
    restore,
    soft_delete,
    unrescue,
)
from berth.agent.executor.reconciliation import HostAnomaly, HostComparison, reconcile, repair
from berth.agent.executor.restarts import RestartRule, stop_restarting
from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.migration import Migration, MoveKind, Stage
from berth.domain.compute.step import Standing, StepOutcome, StepResult
from berth.domain.compute.turns import has_turn, may_have_guest, should_run
from berth.domain.errors import BerthError, DriverError
from berth.ports.observer import NO_OBSERVER, Observer, TaskEnd

_StageHandler = Callable[[HostContext, Instance, Migration], Awaitable[StepEnd]]
_TaskHandler = Callable[[HostContext, Instance], Awaitable[StepEnd]]

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
    Task.RESCUING: rescue,
    Task.UNRESCUING: unrescue,
    Task.SOFT_DELETING: soft_delete,
    Task.RESTORING: restore,
    Task.IMAGE_SNAPSHOT: server_images.create_image,
    Task.IMAGE_BACKUP: server_images.create_image,
}

_STORING_TASKS: Final = frozenset({Task.SHELVING, Task.SHELVING_OFFLOADING})
_NS_PER_S: Final = 1_000_000_000
_NO_TASK: Final = "starting"

CARRIED_OUT: Final = frozenset({*_TASK_HANDLERS, *POWER_TASKS, Task.DELETING})
"""The tasks that have a handler; a test ensures that they equal `HOST_TASKS`."""


class HostExecutor:
    """Carries out tasks on one host through its driver, and reports their outcomes.

    Args:
        context: the host, with its gateway and driver.
        observer: receives each task and its outcome.
    """

    def __init__(self, context: HostContext, observer: Observer = NO_OBSERVER) -> None:
        self._context = context
        self._observer = observer

    @property
    def host(self) -> str:
        """The name of the host."""
        return self._context.host

    async def carry_out(self, instance: Instance, *, in_doubt: bool = False) -> int:
        """Carry out the task of an instance and report the outcome.

        If the instance has no task but should run, because it is active or was active before its
        resize, its guest is started unless it runs. When the control plane rejects the outcome, it
        returns the state of the instance: a delete that arrived during a build is carried out next,
        and the guest of an instance that has been deleted, or is on another host now, is destroyed.

        Args:
            instance: the last known state; it may be stale.
            in_doubt: whether an earlier outcome may have been recorded, so that the control plane
                must be asked first.

        Returns:
            The revision up to which nothing remains to be done.

        Raises:
            BuildError: the guest of an active instance cannot be started.
            DriverError: the driver failed in a way that does not end the task.
            InvalidInputError: the control plane does not accept such an outcome of the step.
            UnavailableError: the control plane cannot be reached, or the outcome of a live
                migration is unknown; the task remains in the ledger.
        """
        with self._observer.task(self.host, instance):
            return await self._carry_out(instance, in_doubt=in_doubt)

    async def _carry_out(self, instance: Instance, *, in_doubt: bool) -> int:
        context, move = self._context, instance.migration_uuid
        standing = Standing(instance)
        if in_doubt:
            standing = await context.gateway.standing(self.host, instance.uuid)
        elif move is not None:
            # The owner or an operator may have abandoned the move since this host learned of it.
            standing = Standing(instance, await context.gateway.move(self.host, move))
        if not in_doubt and not may_have_guest(self.host, instance, standing.migration):
            standing = Standing()
        while (latest := standing.instance) is not None:
            if latest.migration_uuid not in {None, move}:
                # A new move has begun. Return, since leftovers of earlier moves must be cleaned up
                # first, and the control plane sends those in order.
                return latest.revision
            move = latest.migration_uuid
            began_ns = context.clock.ticks_ns()
            end = await self._observed_step(latest, standing.migration)
            if end is None:
                return latest.revision
            # The outcome names the revision that was acted on, so a concurrent change of the
            # instance (a delete, an evacuation) makes the control plane reject it.
            outcome = self._outcome(latest, standing.migration, end, began_ns)
            conclusion = await context.gateway.conclude(self.host, outcome)
            if conclusion.is_recorded or conclusion.standing is None:
                return latest.revision + 1
            standing = conclusion.standing
            await self._drop_in_vain(end, standing)
        # A stale version may have started a guest that this host must not have, and that may also
        # run elsewhere.
        await context.driver.destroy(instance.uuid)
        return max(instance.revision, standing.revision)

    async def clean_up_after_move(self, migration: Migration) -> None:
        """Destroy the guest that a move left on this host.

        Raises:
            DriverError: the guest could not be destroyed.
            UnavailableError: the control plane cannot be reached; the stage remains.
        """
        # The control plane is asked again, because an earlier attempt may have cleaned up after the
        # move, and the instance may be back on this host.
        gateway = self._context.gateway
        latest = await gateway.leftover_move(self.host, migration.uuid)
        if latest is not None:
            await self._context.driver.destroy(latest.instance_uuid)
            await gateway.report_cleared(self.host, latest.uuid)

    async def reconcile(
        self, instances: Sequence[Instance] | None = None, *, seeks_leftovers: bool = True
    ) -> HostComparison:
        """Compare the host with the ledger; see `reconciliation.reconcile`.

        Raises:
            DriverError: the driver cannot list the guests.
            UnavailableError: the control plane cannot be reached.
        """
        return await reconcile(self._context, instances, seeks_leftovers=seeks_leftovers)

    async def repair(self, anomaly: HostAnomaly) -> HostFinding | None:
        """Repair an anomaly; see `reconciliation.repair`.

        Raises:
            DriverError: the repair failed.
            UnavailableError: the control plane cannot be reached.
        """
        return await repair(self._context, anomaly)

    async def stop_restarting(self, instance: Instance, rule: RestartRule) -> HostFinding | None:
        """Stop restarting the guest of an instance; see `restarts.stop_restarting`.

        Raises:
            InvalidInputError: the control plane does not accept the numbers of the rule.
            UnavailableError: the control plane cannot be reached.
        """
        return await stop_restarting(self._context, instance, rule)

    async def cancel_move(self, instance_uuid: str) -> None:
        """Cancel a live migration away from this host."""
        await self._context.driver.cancel_hand_over(instance_uuid)

    def cancel_image(self, instance_uuid: str, revision: int) -> None:
        """Cancel the creation of an image; see `HostContext.cancel_image`."""
        self._context.cancel_image(instance_uuid, revision)

    def _outcome(
        self, instance: Instance, migration: Migration | None, end: StepEnd, began_ns: int
    ) -> StepOutcome:
        return StepOutcome(
            instance.uuid,
            instance.revision,
            end.result,
            seconds=self._seconds_since(began_ns),
            stage="" if migration is None else migration.stage,
            address=end.address,
            error=end.error,
            image=end.image,
        )

    async def _drop_in_vain(self, end: StepEnd, standing: Standing) -> None:
        """Delete stored disks whose address could not be recorded because the instance changed."""
        latest = standing.instance
        if end.result is not StepResult.STORED:
            return
        if latest is not None and (end.address == latest.disks or latest.task in _STORING_TASKS):
            return
        with suppress(DriverError):
            await self._context.driver.drop_stored(end.address)

    async def _observed_step(
        self, instance: Instance, migration: Migration | None
    ) -> StepEnd | None:
        step, began_ns = _step_name(instance, migration), self._context.clock.ticks_ns()
        try:
            end = await self._step(instance, migration)
        except BerthError:
            seconds = self._seconds_since(began_ns)
            self._observer.task_ended(TaskEnd(step, "error", seconds, self.host, instance))
            raise
        if end is not None:
            outcome, why = ("done", "") if end.error is None else ("failed", end.error.text)
            seconds = self._seconds_since(began_ns)
            self._observer.task_ended(TaskEnd(step, outcome, seconds, self.host, instance, why))
            if end.error is not None and end.error.cause is not None:
                self._observer.build_failed(end.error.cause)
        return end

    def _seconds_since(self, began_ns: int) -> float:
        return (self._context.clock.ticks_ns() - began_ns) / _NS_PER_S

    async def _step(self, instance: Instance, migration: Migration | None) -> StepEnd | None:
        context, task = self._context, instance.task
        if not has_turn(context.host, instance, migration):
            if instance.host == context.host and should_run(instance, migration):
                await context.driver.spawn(instance)
            return None
        if task is Task.DELETING:
            return await builds.destroy(context, instance)
        if migration is not None and migration.turn is not None:
            return await self._move_on(instance, migration)
        if task is None:
            return await builds.drop_disks(context, instance)
        if task in POWER_TASKS:
            return await change_power(context, instance, task)
        return await _TASK_HANDLERS[task](context, instance)

    async def _move_on(self, instance: Instance, migration: Migration) -> StepEnd | None:
        if migration.kind is MoveKind.EVACUATION and migration.stage is Stage.ARRIVING:
            return await cold_moves.evacuate(self._context, instance, migration)
        step = _STAGE_HANDLERS.get(migration.stage)
        # A move that was abandoned since the instance was read has no handler here: the pool
        # cleans it up as a leftover.
        return None if step is None else await step(self._context, instance, migration)


def _step_name(instance: Instance, migration: Migration | None) -> str:
    """Return the stage of the move under way, else the instance's task, else `starting`."""
    if migration is not None and migration.turn is not None:
        return migration.stage
    return instance.task or _NO_TASK
