"""Outcomes of steps: checked against the ledger, and recorded there."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, MoveKind, Stage
from berth.domain.compute.server_image import IMAGE_TASKS
from berth.domain.compute.step import (
    DELETED,
    NO_HOST,
    OTHER_HOST,
    UNKNOWN,
    Conclusion,
    Standing,
    StepOutcome,
    StepResult,
)
from berth.domain.compute.turns import as_any_host_sees, has_turn, is_nowhere, may_have_guest
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.write import Committed, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.gateway import (
    builds,
    cold_moves,
    live_moves,
    server_images,
)
from berth.services.gateway.alternates import Alternates
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.gateway.power import (
    POWER_TRANSITIONS,
    change_power,
    rescue,
    restore,
    soft_delete,
    unrescue,
)
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.placement.failed_builds import FailedBuilds

_StageRecorder = Callable[[StepContext, Instance, Migration], Awaitable[StepWrites]]
_TaskRecorder = Callable[[StepContext, Instance], Awaitable[StepWrites]]

_STAGES: Final[Mapping[Stage, _StageRecorder]] = {
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
_TASKS: Final[Mapping[Task, _TaskRecorder]] = {
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
_USUAL: Final = frozenset({StepResult.DONE, StepResult.FAILED})
# Further results that the step of a task or stage may have. The unusual ones change what is
# recorded, so a host may report them only where they can occur.
_FURTHER: Final[Mapping[str, frozenset[StepResult]]] = {
    Task.SHELVING: frozenset({StepResult.STORED}),
    Task.SHELVING_OFFLOADING: frozenset({StepResult.STORED}),
    Task.DELETING: frozenset({StepResult.DISKS_LEFT}),
    Stage.MOVING: frozenset({StepResult.GUEST_GONE}),
    Stage.LANDING: frozenset({StepResult.GUEST_LOST}),
}
# Steps that are repeated until they succeed, so a report of their failure is an error.
_NEVER_FAIL: Final[frozenset[str]] = frozenset(
    {Task.DELETING, Stage.CONFIRMING, Stage.WITHDRAWING, Stage.LANDING, ""}
)

CARRIED_OUT: Final = frozenset({*_TASKS, *POWER_TRANSITIONS, Task.DELETING})
"""The tasks whose outcome can be recorded; a test ensures that they equal `HOST_TASKS`."""


class Outcomes:
    """Records the outcomes that the agents of hosts report.

    Args:
        ledger: the ledger.
        clock: dates the records; the clocks of hosts are not trusted.
        attempts_max: the maximum number of hosts on which a build or move is tried.
        alternates: finds the hosts to try next; if None, a scheduler chooses them.
        half_life_s: the half-life of the count of failed builds, in seconds.
        service_of: returns the service of a host as the host table has it.
        in_progress: the instances that need not be read from the ledger.
    """

    def __init__(  # noqa: PLR0913 - the parts that record outcomes
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        attempts_max: int,
        alternates: Alternates | None,
        half_life_s: float,
        service_of: Callable[[str], Service | None],
        in_progress: InstancesInProgress,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._attempts_max = attempts_max
        self._alternates = alternates
        self._half_life_s = half_life_s
        self._service_of = service_of
        self._in_progress = in_progress
        self._failed_builds: dict[str, FailedBuilds] = {}

    async def standing(self, host: str, instance_uuid: str) -> Standing:
        """Return the state of an instance, as far as it concerns the host.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        instance, migration = await self._read(instance_uuid)
        return _standing(host, instance, migration)

    async def conclude(self, host: str, outcome: StepOutcome) -> Conclusion:
        """Record the outcome of a step, unless the instance has changed or is not the host's.

        The revision in the outcome must be that of the ledger, and the ledger checks it again, so
        a concurrent change of the instance (a delete, an evacuation) takes precedence.

        Raises:
            InvalidInputError: the step cannot have this outcome.
            UnavailableError: the ledger cannot be reached; the outcome may have been recorded.
        """
        # If this record is outdated by now, the ledger refuses the writes.
        instance, migration = self._in_progress.at(outcome.instance_uuid, outcome.revision), None
        if instance is None:
            instance, migration = await self._read(outcome.instance_uuid)
        if instance is None or not _is_current(host, outcome, instance, migration):
            return Conclusion(is_recorded=False, standing=_standing(host, instance, migration))
        writes = await self._writes(host, outcome, instance, migration)
        if not await self._commit(writes.units):
            standing = await self.standing(host, outcome.instance_uuid)
            return Conclusion(is_recorded=False, standing=standing)
        await self._follow_up(host, writes, instance)
        return Conclusion(is_recorded=True)

    def failed_builds(self, host: str) -> FailedBuilds:
        """Return the counter of the failed builds on a host."""
        counts = self._failed_builds.get(host)
        if counts is None:
            known = self._service_of(host)
            counts = FailedBuilds(self._ledger, self._clock, self._half_life_s, known)
            self._failed_builds[host] = counts
        return counts

    async def _read(self, instance_uuid: str) -> tuple[Instance | None, Migration | None]:
        instance = await self._ledger.get(Instance, instance_uuid)
        if instance is None or instance.migration_uuid is None:
            return instance, None
        return instance, await self._ledger.get(Migration, instance.migration_uuid)

    async def _writes(
        self, host: str, outcome: StepOutcome, instance: Instance, migration: Migration | None
    ) -> StepWrites:
        """Return the writes that record an outcome of the step that is the host's to take."""
        context = StepContext(
            host, self._ledger, outcome, self._clock.now_s(), self._attempts_max, self._alternates
        )
        task = instance.task
        if task is Task.DELETING:
            _check_result(outcome, Task.DELETING)
            return builds.destroy(context, instance, migration)
        if migration is not None and migration.turn is not None:
            stage = migration.stage
            if migration.kind is MoveKind.EVACUATION and stage is Stage.ARRIVING:
                return await cold_moves.evacuate(context, instance, migration)
            _check_result(outcome, stage)
            return await _STAGES[stage](context, instance, migration)
        _check_result(outcome, task or "")
        if task is None:
            return await builds.drop_disks(context, instance)
        if task in POWER_TRANSITIONS:
            return change_power(context, instance, task)
        return await _TASKS[task](context, instance)

    async def _commit(self, units: Sequence[Unit]) -> bool:
        """Commit the first unit that the ledger accepts; return whether it is newly committed.

        The next unit is tried after a shortage or a changed guard. A changed instance ends the
        attempts, since all units build on the same state of it.
        """
        for unit in units:
            (outcome,) = await self._ledger.commit([unit])
            if isinstance(outcome, Committed):
                return not outcome.repeated
            if not outcome.shortages and not outcome.stale:
                break
        return False

    async def _follow_up(self, host: str, writes: StepWrites, instance: Instance) -> None:
        """Update the host's build statistics after a commit; losing an update does no harm."""
        counts = self.failed_builds(host)
        if writes.cause is not None:
            await counts.note_failure(host, instance.project_id, writes.cause)
        elif writes.has_failed is False:
            await counts.note_success(host)


def _is_current(
    host: str, outcome: StepOutcome, instance: Instance, migration: Migration | None
) -> bool:
    """Return whether an outcome is about the current state and the step is the host's to take."""
    stage = "" if migration is None else migration.stage
    if instance.revision != outcome.revision or outcome.stage != stage:
        return False
    if instance.status is Status.DELETED or not has_turn(host, instance, migration):
        return False
    is_move = migration is not None and migration.turn is not None
    # A move that was abandoned is cleaned up as a leftover, not as a step of the instance.
    return not is_move or stage in _STAGES or instance.task is Task.DELETING


def _check_result(outcome: StepOutcome, step: str) -> None:
    """Reject a result that the step of a task or stage cannot have.

    Raises:
        InvalidInputError: the step cannot have the result.
    """
    allowed = _USUAL | _FURTHER.get(step, frozenset())
    if step in _NEVER_FAIL:
        allowed -= {StepResult.FAILED}
    if outcome.result not in allowed:
        name = step or "deletion of stored disks"
        reason = f"must be one of {', '.join(sorted(allowed))} for the step {name}"
        raise InvalidInputError("result", f"{reason}, not {outcome.result}")
    if outcome.result is StepResult.STORED and not outcome.address:
        raise InvalidInputError("address", "is missing; report where the disks are stored")
    is_image = step in IMAGE_TASKS and outcome.result is StepResult.DONE
    if is_image != (outcome.image is not None):
        reason = "is missing; report the size of the image" if is_image else "must be absent"
        raise InvalidInputError("image", reason)


def _standing(host: str, instance: Instance | None, migration: Migration | None) -> Standing:
    if instance is None:
        return Standing(where=UNKNOWN)
    is_here = migration is not None and migration.concerns(host)
    if is_nowhere(instance) and not is_here:
        return Standing(as_any_host_sees(instance), revision=instance.revision)
    if may_have_guest(host, instance, migration):
        return Standing(instance, migration, revision=instance.revision)
    if instance.status is Status.DELETED:
        return Standing(where=DELETED, revision=instance.revision)
    # The name of the other host is not disclosed: a compromised host must not learn the layout.
    where = NO_HOST if instance.host is None else OTHER_HOST
    return Standing(where=where, revision=instance.revision)
