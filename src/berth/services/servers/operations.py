"""The operations on an instance: power, rebuild, resize, moves, locks, state resets."""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Action, Caller
from berth.domain.compute.lifecycle import Transition
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.observed import check_not_observed
from berth.domain.compute.request import Operation
from berth.domain.compute.rescue import with_rescue_image
from berth.domain.compute.server_image import ServerImage, of_instance, with_image_in_progress
from berth.domain.compute.soft_deletion import is_soft_deleted, soft_deleted_at
from berth.domain.errors import (
    ConflictError,
    InstanceStateError,
    InvalidInputError,
    NotFoundError,
)
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Committed, Put, Write
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.replica.liveness import Liveness
from berth.services.replica.replica import Replica
from berth.services.requests.permissions import (
    check_lock,
    check_resize,
    check_size,
    check_state,
    vm_state,
    with_lock,
    without_lock,
)
from berth.services.requests.quotas import QuotaLimits, check_excess, counted_at_larger_size
from berth.services.servers.evacuation_checks import check_still_on, query_destination
from berth.services.servers.moves import (
    AWAITING,
    MoveTarget,
    end_task,
    request_to_move,
    resolve_target,
)
from berth.services.servers.teardown import (
    confirm_move,
    end_action,
    settle_move,
    without_move,
)

# Each failed attempt lost a race against another change of the instance, which does not happen this
# many times in a row by chance.
_TRIES: Final = 20
_ABORT: Final = "abort live migration"
# The stages in which a live migration may be cancelled. In later ones the guest may run elsewhere.
CANCELLABLE: Final = frozenset({Stage.PREPARING, Stage.MOVING})
# A function that returns the writes of an operation on the given record.
_Change = Callable[[Instance], Awaitable[Sequence[Write]]]
_Admit = Callable[[], Awaitable[Sequence[Write]]]


async def _admitted() -> Sequence[Write]:
    return ()


class Operations:
    """Starts the operations on instances.

    Methods that return an instance return its record from before the operation, and raise the
    errors of `begin` in addition to their own. All others raise NotFoundError for an unknown
    instance, ConflictError if the instance keeps changing or another cloud runs it, and
    UnavailableError if the ledger cannot be reached.

    Args:
        ledger: records the tasks.
        replica: provides the host table.
        clock: provides the times in records.
        resizes_in_place: whether a resize may stay on its host.
        quota_limits: the limits of projects, or None for those in the replica only.
        liveness: knows whether silent hosts count as down; None if they always do.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        clock: Clock,
        resizes_in_place: bool = False,
        quota_limits: QuotaLimits | None = None,
        liveness: Liveness | None = None,
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._clock = clock
        self._resizes_in_place = resizes_in_place
        self._quota_limits = quota_limits or QuotaLimits(replica)
        self._liveness = liveness

    async def begin(self, uuid: str, step: Transition, caller: Caller) -> Instance:
        """Request one step of the agent on the instance's host, such as a start or a pause.

        Raises:
            NotFoundError: there is no such instance.
            InstanceLockedError: the instance is locked, and the caller is not an administrator.
            InstanceStateError: the state of the instance does not allow the step.
            ConflictError: the instance has no host, or keeps changing.
            UnavailableError: the ledger cannot be reached.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            return [Put(replace(instance, task=step.task))]

        return await self._begin(uuid, step, caller, change)

    async def rebuild(self, uuid: str, image: Image, caller: Caller, **fields: object) -> Instance:
        """Request a rebuild of the guest from an image, on its host.

        Args:
            uuid: the instance.
            image: the image.
            caller: the caller of the operation.
            fields: new values of other fields of the instance (`name`, `metadata`, `extra`).

        Raises:
            InvalidInputError: the flavor of the instance is too small for the image.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            check_size(instance.flavor, image)
            return [Put(fast_replace(instance, task=Task.REBUILDING, image=image, **fields))]

        return await self._begin(uuid, lifecycle.REBUILD, caller, change)

    async def rescue(self, uuid: str, image: Image | None, caller: Caller) -> Instance:
        """Request a restart of the guest from a rescue image, with its own disks attached.

        Args:
            uuid: the instance.
            image: the rescue image; None for the instance's own image.
            caller: the caller of the operation.

        Raises:
            InvalidInputError: no image is given, and the instance has none.
            InstanceStateError: the instance has never run, so it has no disks.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            if image is None and instance.image is None:
                raise InvalidInputError(
                    "rescue.rescue_image_ref", "is required, because the server has no image"
                )
            if instance.launched_at_s is None:  # its build has failed, so it has no disks
                raise InstanceStateError(lifecycle.RESCUE.action, uuid, "launched_at", "None")
            extra = with_rescue_image(instance, image)
            return [Put(fast_replace(instance, task=Task.RESCUING, extra=extra))]

        return await self._begin(uuid, lifecycle.RESCUE, caller, change)

    async def create_image(
        self, uuid: str, image: ServerImage, caller: Caller, admit: _Admit = _admitted
    ) -> Instance:
        """Request an image of the root disk of an instance.

        Args:
            uuid: the instance.
            image: the image's record. The properties that its guests inherit from the instance's
                own image, and the smallest disk and memory, are added here.
            caller: the caller of the operation.
            admit: checks the quota, and returns writes on which the check depends; see
                `ServerImages.admit`. It is called again after each lost race.

        Raises:
            QuotaExceededError: the project of the image would exceed its quota.
        """
        step = lifecycle.CREATE_IMAGE if image.rotation is None else lifecycle.CREATE_BACKUP

        async def change(instance: Instance) -> Sequence[Write]:
            extra = with_image_in_progress(instance, image.image_id)
            made = of_instance(image, instance, self._clock.now_s())
            begun = fast_replace(instance, task=step.task, extra=extra)
            return [*await admit(), Put(begun), Add(made)]

        return await self._begin(uuid, step, caller, change)

    async def resize(
        self,
        uuid: str,
        flavor: Flavor,
        caller: Caller,
        extra: Mapping[str, object] = MappingProxyType({}),
        *,
        service_down_time_s: float = math.inf,
    ) -> Instance:
        """Request the move of an instance to a host with the capacity for another flavor.

        Args:
            uuid: the instance.
            flavor: the new flavor.
            caller: the caller of the operation.
            extra: new values of fields in the instance's `extra`.
            service_down_time_s: seconds without a heartbeat after which a service is down.

        Raises:
            InvalidInputError: the instance already has the flavor, a disk would have to shrink, the
                flavor is too small for the image, or a spec cannot be parsed.
            QuotaExceededError: the project would exceed its quota.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            await self._check_up(instance, service_down_time_s)
            check_resize(instance, flavor)
            grown = counted_at_larger_size(instance, flavor)
            if extra:
                grown = replace(grown, extra={**grown.extra, **extra})
            within = self._quota_limits.within(instance.project_id)
            moved = self._moved(grown, Operation.RESIZE, caller, MoveTarget(), flavor)
            return moved if within is None else [*moved, within]

        return await self._begin(uuid, lifecycle.RESIZE, caller, change)

    async def migrate(
        self,
        uuid: str,
        target: MoveTarget,
        caller: Caller,
        extra: Mapping[str, object] = MappingProxyType({}),
        *,
        service_down_time_s: float = math.inf,
    ) -> Instance:
        """Request a cold migration: stop an instance, move it, and start it on another host.

        Args:
            uuid: the instance.
            target: the requested host, if any.
            caller: the caller of the operation.
            extra: see `resize`.
            service_down_time_s: see `resize`.

        Raises:
            InvalidInputError: the target host does not exist, or the instance is already on it.
        """
        target = resolve_target(target, self._replica.hosts)

        async def change(instance: Instance) -> Sequence[Write]:
            await self._check_up(instance, service_down_time_s)
            moved = replace(instance, extra={**instance.extra, **extra})
            return self._moved(moved, Operation.MIGRATE, caller, target)

        return await self._begin(uuid, lifecycle.MIGRATE, caller, change)

    async def live_migrate(self, uuid: str, target: MoveTarget, caller: Caller) -> Instance:
        """Request a live migration: move an instance to another host while it runs.

        Raises:
            InvalidInputError: the target host does not exist, or the instance is already on it.
        """
        target = resolve_target(target, self._replica.hosts)

        async def change(instance: Instance) -> Sequence[Write]:
            return self._moved(instance, Operation.LIVE_MIGRATE, caller, target)

        return await self._begin(uuid, lifecycle.LIVE_MIGRATE, caller, change)

    async def evacuate(
        self,
        uuid: str,
        target: MoveTarget,
        caller: Caller,
        *,
        service_down_time_s: float,
        stops: bool = False,
        despite_uncertainty: bool = False,
    ) -> Instance:
        """Request a rebuild of an instance on another host, because its host is down.

        Until another host has the instance, only its task changes.

        Args:
            uuid: the instance.
            target: the requested host, if any.
            caller: the caller of the operation.
            service_down_time_s: seconds without a heartbeat after which a service is down.
            stops: whether the instance stays off on the new host until it is started.
            despite_uncertainty: whether to evacuate although so many hosts fell silent at once that
                they may be up; the caller must know by other means that this host is down.

        Raises:
            InvalidInputError: the host is up or is the target, or the target does not exist.
            ConflictError: the instance or its guest may be elsewhere, or so many hosts fell silent
                at once that this host may be up.
        """
        target = resolve_target(target, self._replica.hosts)
        instance = await self._get(uuid)
        if (down := instance.host) is not None and await self._is_up(down, service_down_time_s):
            raise InvalidInputError("host", f"compute service of {down} is still in use")
        if not despite_uncertainty:
            self._check_certain(instance)
        migration = await self._migration(instance)
        if migration is not None and migration.stage is Stage.MOVING:
            check_state(instance, lifecycle.EVACUATE, caller, any_task=True)
            await query_destination(self._ledger, instance, migration, self._clock.now_s())

        async def change(instance: Instance) -> Sequence[Write]:
            # The move is read again, because it may have progressed since the last attempt.
            migration = await self._migration(instance)
            instance, before = without_move(instance, migration, self._clock.now_s())
            check_still_on(instance, down)
            writes = self._moved(instance, Operation.EVACUATE, caller, target, stays_off=stops)
            return [*before, *writes]

        return await self._begin(uuid, lifecycle.EVACUATE, caller, change, any_task=True)

    async def unshelve(self, uuid: str, target: MoveTarget, caller: Caller) -> Instance:
        """Request the start of a shelved instance on its host or, if it has none, on a new one.

        Raises:
            InvalidInputError: the target host does not exist.
            ConflictError: a target was given for an instance that still has its host.
        """
        target = resolve_target(target, self._replica.hosts)

        async def change(instance: Instance) -> Sequence[Write]:
            if instance.status is Status.SHELVED:
                if target != MoveTarget():
                    raise ConflictError(
                        "Specifying an availability zone or a host when unshelving server "
                        f'"{uuid}" with status "{vm_state(instance.status)}" is not supported. '
                        "The server status must be SHELVED_OFFLOADED."
                    )
                return [Put(replace(instance, task=Task.UNSHELVING))]
            zone = instance.requested_zone if target.zone is None else target.zone or None
            instance = replace(instance, requested_zone=zone)
            return self._moved(instance, Operation.UNSHELVE, caller, target)

        return await self._begin(uuid, lifecycle.UNSHELVE, caller, change)

    async def confirm(self, uuid: str, caller: Caller, *, service_down_time_s: float) -> Instance:
        """Confirm a resize or cold migration, so that the agent of the source cleans up there."""
        return await self._settle(uuid, lifecycle.CONFIRM, caller, service_down_time_s)

    async def revert(self, uuid: str, caller: Caller, *, service_down_time_s: float) -> Instance:
        """Revert a resize or cold migration, so that the instance returns to its source.

        Raises:
            ConflictError: the source host is down.
        """
        return await self._settle(uuid, lifecycle.REVERT, caller, service_down_time_s)

    async def soft_delete(
        self,
        uuid: str,
        caller: Caller,
        *,
        service_down_time_s: float,
        only_finish: bool = False,
    ) -> Instance:
        """Request a soft deletion: power an instance off, and keep it for a while to be restored.

        A resize that waits for confirmation is confirmed, and any other move is given up. If the
        compute service of the host is down, the status changes immediately, and the agent stops the
        guest when it comes back. A repeated deletion never extends the time for which the instance
        is kept. It changes nothing, unless the first deletion waits for an agent whose service is
        down by now: then the status changes immediately.

        Args:
            uuid: the instance.
            caller: the caller of the operation.
            service_down_time_s: seconds without a heartbeat after which a service is down.
            only_finish: whether to leave alone an instance whose task is not SOFT_DELETING.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            host, waits = instance.host, instance.task is Task.SOFT_DELETING
            if only_finish and not waits:
                return ()
            is_up = host is not None and await self._is_up(host, service_down_time_s)
            if is_soft_deleted(instance) and (is_up or not waits):
                return ()
            now_s = self._clock.now_s()
            migration = await self._migration(instance)
            instance, before = settle_move(instance, migration, now_s)
            going = instance if waits else soft_deleted_at(instance, now_s)
            if is_up:
                kept = _status_without_move(going, migration)
                return [*before, Put(replace(going, status=kept, task=Task.SOFT_DELETING))]
            return [*before, *end_task(going, now_s, status=Status.SOFT_DELETED)]

        return await self._begin(uuid, lifecycle.SOFT_DELETE, caller, change, any_task=True)

    async def restore(self, uuid: str, caller: Caller) -> Instance:
        """Request the restart of a soft-deleted instance; it counts against the quota from now on.

        Raises:
            QuotaExceededError: the project would exceed its quota.
        """

        async def change(instance: Instance) -> Sequence[Write]:
            within = self._quota_limits.within(instance.project_id)
            back = Put(replace(instance, task=Task.RESTORING))
            return [back] if within is None else [back, within]

        return await self._begin(uuid, lifecycle.RESTORE, caller, change)

    async def cancel_live_migration(
        self, uuid: str, number: int, caller: Caller, *, stages: Collection[Stage] = CANCELLABLE
    ) -> None:
        """Request the cancellation of a live migration, so that the instance stays on its source.

        Args:
            uuid: the instance.
            number: the id of the migration.
            caller: the caller of the operation.
            stages: the stages in which the migration may be cancelled.

        Raises:
            NotFoundError: the instance has no such migration.
            InstanceLockedError: the instance is locked, and the caller is not an administrator.
            InstanceStateError: the instance (attribute `task_state`) or the migration (attribute
                `migration`) has passed those stages.
        """

        async def cancelled(instance: Instance) -> Sequence[Write]:
            check_lock(instance, caller)
            if instance.task is not Task.MIGRATING:
                raise InstanceStateError(_ABORT, uuid, "task_state", str(instance.task))
            migration = await self._migration(instance)
            if migration is None or migration.number != number:
                raise NotFoundError("migration", str(number))
            if migration.stage not in stages:
                raise InstanceStateError(_ABORT, uuid, "migration", migration.status)
            now_s = self._clock.now_s()
            ends = replace(migration, cancelled=True, updated_at_s=now_s)
            return [Put(replace(instance, updated_at_s=now_s)), Put(ends)]

        await self._at_once(uuid, "live_migration_cancel", caller, cancelled)

    async def reset_state(self, uuid: str, status: Status, caller: Caller) -> None:
        """Overwrite the status of an instance, which only administrators may do.

        A task, an action and a move in progress end.

        Raises:
            ConflictError: the instance has no host and would be active, keeps changing, or has a
                move that cannot be given up.
        """

        async def reset(read: Instance) -> Sequence[Write]:
            now_s = self._clock.now_s()
            instance, before = without_move(
                read,
                await self._migration(read),
                now_s,
                may_lose_guest=status is Status.ERROR,
            )
            if status is Status.ACTIVE and instance.host is None:
                raise ConflictError(
                    f"instance {uuid} has no host, so it cannot be active; reset it to error"
                )
            made = replace(instance, status=status, task=None, action=None, updated_at_s=now_s)
            return [*before, *end_action(instance, now_s), Put(made)]

        await self._at_once(uuid, "resetState", caller, reset)

    async def lock(self, uuid: str, reason: str | None, caller: Caller) -> None:
        """Restrict changes of an instance to administrators."""

        async def lock(instance: Instance) -> Sequence[Write]:
            made = with_lock(instance, reason, caller)
            return () if made is instance else [Put(made)]

        await self._at_once(uuid, "lock", caller, lock)

    async def unlock(self, uuid: str, caller: Caller) -> None:
        """Allow the owner to change an instance again."""

        async def unlock(instance: Instance) -> Sequence[Write]:
            return [Put(without_lock(instance))]

        await self._at_once(uuid, "unlock", caller, unlock)

    async def bind_zone(
        self,
        uuid: str,
        zone: str | None,
        caller: Caller,
        zones_of: Callable[[str], Collection[str]],
        *,
        force: bool = False,
    ) -> None:
        """Bind an instance to an availability zone that moves must not leave; None unbinds it.

        Args:
            uuid: the instance.
            zone: the zone, which must exist, or None.
            caller: the caller of the operation.
            zones_of: returns the availability zones of a host.
            force: bind it even if its host is in another zone, it has a task, or its move waits
                for confirmation.

        Raises:
            ConflictError: without `force`, the host is in another zone, a task is in progress, or
                a move waits for confirmation and might be reverted to a host in another zone.
        """

        async def bind(instance: Instance) -> Sequence[Write]:
            if instance.requested_zone == zone:
                return ()
            if not force and instance.task is not None:
                raise ConflictError(
                    f"cannot bind server {uuid} to another availability zone while its task "
                    f"{instance.task} is in progress; repeat this when it is done"
                )
            if not force and zone is not None and instance.migration_uuid is not None:
                raise ConflictError(
                    f"cannot bind server {uuid} to availability zone {zone} while its resize or "
                    "migration is not confirmed, because a revert may return it to another zone; "
                    "confirm or revert it first, or repeat this with --force (X-Berth-Force: true)"
                )
            here = zones_of(instance.host) if instance.host else ()
            if not force and zone is not None and here and zone not in here:
                raise ConflictError(
                    f"server {uuid} is on host {instance.host} in availability zone "
                    f"{', '.join(sorted(here))}, not in {zone}; unbind it and move it to a host in "
                    f"{zone} first, or repeat this with --force (X-Berth-Force: true)"
                )
            now_s = self._clock.now_s()
            return [Put(replace(instance, requested_zone=zone, updated_at_s=now_s))]

        await self._at_once(uuid, "bindZone", caller, bind)

    async def _at_once(self, uuid: str, name: str, caller: Caller, change: _Change) -> None:
        """Commit a change that needs no agent, with its action; without writes, commit nothing."""
        for _ in range(_TRIES):
            instance = await self._get(uuid)
            check_not_observed(instance)
            writes = await change(instance)
            if not writes:
                return
            now_s = self._clock.now_s()
            action = Action(
                uuid, caller.request_id, name, caller.project_id, caller.user_id, now_s, now_s
            )
            (outcome,) = await self._ledger.commit([(*writes, Put(action))])
            if isinstance(outcome, Committed):
                return
        raise ConflictError(f"cannot change instance {uuid}: it keeps changing; try again")

    # --- start of operations ---

    async def _begin(
        self,
        uuid: str,
        step: Transition,
        caller: Caller,
        change: _Change,
        *,
        any_task: bool = False,
    ) -> Instance:
        for _ in range(_TRIES):
            instance = await self._get(uuid)
            check_state(instance, step, caller, any_task=any_task)
            now_s = self._clock.now_s()
            action = Action(
                instance.uuid,
                caller.request_id,
                step.action,
                caller.project_id,
                caller.user_id,
                now_s,
            )
            writes = await change(replace(instance, action=action, updated_at_s=now_s))
            if not writes:
                return instance
            # An interrupted action ends in the history before the new one begins.
            unit = (*end_action(instance, now_s), Put(action), *writes)
            (outcome,) = await self._ledger.commit([unit])
            check_excess(outcome)
            if isinstance(outcome, Committed):
                return instance
        raise ConflictError(f"cannot change instance {uuid}: it keeps changing; try again")

    def _moved(
        self,
        instance: Instance,
        operation: Operation,
        caller: Caller,
        target: MoveTarget,
        flavor: Flavor | None = None,
        *,
        stays_off: bool = False,
    ) -> Sequence[Write]:
        """Return the writes that have a scheduler choose a host."""
        # Only a resize may stay on its host, because a migration is meant to leave it.
        stays = operation is Operation.RESIZE and self._resizes_in_place
        # One call may move several instances; the start of the instance's uuid keeps their request
        # ids distinct.
        request_id = f"{caller.request_id}.{instance.uuid[:8]}"
        request = request_to_move(
            instance, operation, target, request_id, flavor=flavor, may_stay=stays
        )
        request = replace(request, stays_off=stays_off)
        pending = PendingRequest(request, accepted_at_s=self._clock.now_s())
        return [Put(replace(instance, task=AWAITING[operation])), Add(pending)]

    async def _settle(
        self, uuid: str, step: Transition, caller: Caller, service_down_time_s: float
    ) -> Instance:
        async def change(instance: Instance) -> Sequence[Write]:
            migration = await self._migration(instance)
            if migration is None or migration.stage is not Stage.ARRIVED:
                raise InstanceStateError(step.action, uuid, "vm_state", vm_state(instance.status))
            is_source_up = await self._is_up(migration.source.host, service_down_time_s)
            now_s = self._clock.now_s()
            if step is lifecycle.REVERT:
                if not is_source_up:
                    raise ConflictError(
                        f"cannot revert instance {uuid}: its source host is down; try again when "
                        "the host is up"
                    )
                back = replace(migration, stage=Stage.RETURNING, updated_at_s=now_s)
                return [Put(replace(instance, task=step.task)), Put(back)]
            if is_source_up:
                on = replace(migration, stage=Stage.CONFIRMING, updated_at_s=now_s)
                return [Put(replace(instance, task=step.task)), Put(on)]
            # The source is down, so its agent cleans up only when it comes back.
            done = end_task(instance, now_s, status=migration.was, migration_uuid=None)
            return [*confirm_move(migration, now_s), *done]

        return await self._begin(uuid, step, caller, change)

    # --- reads ---

    async def _get(self, uuid: str) -> Instance:
        instance = await self._ledger.get(Instance, uuid)
        if instance is None or instance.status is Status.DELETED:
            raise NotFoundError("instance", uuid)
        return instance

    async def _migration(self, instance: Instance) -> Migration | None:
        if instance.migration_uuid is None:
            return None
        return await self._ledger.get(Migration, instance.migration_uuid)

    def _check_certain(self, instance: Instance) -> None:
        liveness = self._liveness
        if liveness is not None and liveness.is_uncertain():
            raise ConflictError(
                f"cannot evacuate instance {instance.uuid}: {liveness.silence}, so its host may be "
                "up; check the network and the control plane, and force the evacuation only if the "
                "host is off"
            )

    async def _check_up(self, instance: Instance, service_down_time_s: float) -> None:
        """Reject a move that the agent of the instance's host would have to begin, but cannot.

        Raises:
            ConflictError: the host is down. The error does not name it, since tenants read it.
        """
        host = instance.host
        if host is not None and not await self._is_up(host, service_down_time_s):
            raise ConflictError(
                f"cannot move instance {instance.uuid}: its host is down; try again when the host "
                "is up, or have an administrator evacuate the instance"
            )

    async def _is_up(self, host: str, service_down_time_s: float) -> bool:
        found = await self._ledger.get(Service, host)
        if found is None:
            return False
        # The ledger does not have the heartbeats that gateways receive, but the replica does.
        service = self._replica.with_heartbeat(found)
        return service.is_up(self._clock.now_s(), service_down_time_s)


def _status_without_move(instance: Instance, migration: Migration | None) -> Status:
    """Return the status that an instance has on its host if its soft deletion fails.

    A settled resize no longer waits for confirmation, and an unshelved instance has a host now.

    Args:
        instance: the record without its move.
        migration: the move that was settled, or None.
    """
    if instance.status is Status.RESIZED:
        return Status.ACTIVE if migration is None else migration.was
    if instance.status is Status.SHELVED_OFFLOADED:
        return Status.SHELVED
    return instance.status
