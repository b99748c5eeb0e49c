"""The writes that end instances, actions and moves, for deletes and interrupted tasks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import DELETE, Action, ActionEvent, Caller
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Free, Put, TransferAllocations, Unit, Write
from berth.services.servers.moves import holder_of_move, undo_claim

_DELETED: Final = "The instance was deleted."
# Nova's name of the step that destroys a guest.
_TERMINATE: Final = "compute_terminate_instance"
_CUT_SHORT: Final = "Another action interrupted this action."


def end_action(instance: Instance, now_s: float, message: str = _CUT_SHORT) -> list[Write]:
    """Return the write that ends an instance's current action in the history, if there is one."""
    action = instance.action
    return [] if action is None else [Put(replace(action, ended_at_s=now_s, message=message))]


def deletion_by(instance: Instance, caller: Caller, now_s: float) -> Action:
    """Return the deletion of an instance as an action that begins now."""
    return Action(
        instance.uuid, caller.request_id, DELETE, caller.project_id, caller.user_id, now_s
    )


def end_by_deletion(instance: Instance, now_s: float) -> list[Write]:
    """Return the write that ends an instance's current action, because a deletion begins."""
    return end_action(instance, now_s, _DELETED)


def _end_at_deletion(instance: Instance, now_s: float) -> list[Write]:
    """Return the writes that end the action of an instance that is now deleted."""
    action = instance.action
    if action is None or not action.is_deletion:
        return end_action(instance, now_s, _DELETED)
    event = ActionEvent(_TERMINATE, instance.host or "", action.started_at_s, now_s)
    return [Put(replace(action, ended_at_s=now_s, events=(*action.events, event)))]


def begin_disk_deletion(instance: Instance, now_s: float) -> Unit:
    """Return the unit that begins the deletion of an instance whose disks are in storage.

    The unit frees the allocations and the host. An agent then deletes the disks, and the instance
    is deleted last.
    """
    action = instance.action
    is_deletion = action is not None and action.is_deletion
    going = replace(
        instance,
        task=Task.DELETING,
        action=action if is_deletion else None,
        host=None,
        node=None,
        assignment=None,
        updated_at_s=now_s,
    )
    over = [] if is_deletion else end_action(instance, now_s, _DELETED)
    return (Free(instance.uuid), Put(going), *over)


def delete_instance(instance: Instance, migration: Migration | None, now_s: float) -> Unit:
    """Return the unit that records an instance as deleted, and frees its allocations.

    The allocations on the other side of a move are kept until the agent there has cleaned up.

    Raises:
        ConflictError: this version of Berth does not know the move.
    """
    _check_known(migration)
    # Deleted records stay for a while: clients list them, and repeats of the create find them.
    gone = fast_replace(
        instance,
        status=Status.DELETED,
        task=None,
        action=None,
        migration_uuid=None,
        disks=None,
        updated_at_s=now_s,
        terminated_at_s=now_s,
    )
    over = _end_at_deletion(instance, now_s)
    if migration is None or migration.has_ended:
        return (Free(instance.uuid), Put(gone), *over)
    place = migration.elsewhere
    if place is None or place.host == instance.host:
        # As in Nova, the deletion confirms a resize that the owner could have confirmed.
        is_arrived = migration.stage is Stage.ARRIVED
        stage = Stage.CONFIRMED if is_arrived else Stage.FAILED
        ended = replace(migration, stage=stage, updated_at_s=now_s)
        return (Free(instance.uuid), Free(migration.uuid), Put(gone), Put(ended), *over)
    freed: list[Write] = [Free(instance.uuid)]
    # The migration, as a consumer, keeps the room until the agent there has cleaned up.
    stage = Stage.LEFT_BEHIND
    if place is migration.destination:
        freed = [
            Free(migration.uuid),
            TransferAllocations(instance.uuid, holder_of_move(migration, now_s), must_hold=False),
        ]
        stage = Stage.ABANDONED
    left = replace(migration, stage=stage, updated_at_s=now_s)
    return (*freed, Put(gone), Put(left), *over)


def without_move(
    instance: Instance,
    migration: Migration | None,
    now_s: float,
    *,
    may_lose_guest: bool = False,
) -> tuple[Instance, Sequence[Write]]:
    """Return an instance without its move, and the writes that give the move up.

    Args:
        instance: the record as read.
        migration: the record that was read as its move, or None if there is none.
        now_s: Unix seconds.
        may_lose_guest: whether the only guest may be destroyed with the move.

    Returns:
        The instance and the writes. An instance that is being returned to its source is then on
        the source, because its disks may no longer be elsewhere.

    Raises:
        ConflictError: the instance has another move now, this version of Berth does not know the
            move, or the guest could be lost.
    """
    stays = fast_replace(instance, migration_uuid=None, counts_as=None)
    if instance.migration_uuid is None:
        return stays, ()
    if migration is None or migration.uuid != instance.migration_uuid:
        raise ConflictError(
            f"cannot end the move of {instance.uuid}: the instance has changed; try again"
        )
    _check_known(migration)
    # Only an administrator who resets the state to ERROR accepts the loss of the guest.
    if not may_lose_guest:
        _check_guest(migration)
    source = migration.source
    if migration.stage is Stage.RETURNING and source.host != instance.host:
        back = fast_replace(
            stays,
            host=source.host,
            node=source.node,
            flavor=source.flavor,
            assignment=source.assignment,
        )
        over = replace(migration, stage=Stage.ABANDONED, updated_at_s=now_s)
        return back, [*undo_claim(migration, instance), Put(over)]
    return stays, give_up_move(instance, migration, now_s)


def settle_move(
    instance: Instance, migration: Migration | None, now_s: float
) -> tuple[Instance, Sequence[Write]]:
    """Return an instance without its move, and the writes that confirm the move or give it up.

    A resize that waits for confirmation is confirmed. For any other move, see `without_move`.

    Raises:
        ConflictError: see `without_move`.
    """
    is_arrived = migration is not None and migration.stage is Stage.ARRIVED
    if migration is None or not is_arrived or migration.uuid != instance.migration_uuid:
        return without_move(instance, migration, now_s)
    stays = fast_replace(instance, migration_uuid=None, counts_as=None)
    return stays, confirm_move(migration, now_s)


def confirm_move(migration: Migration, now_s: float) -> list[Write]:
    """Return the writes that confirm a move; the agent of the source cleans up afterwards."""
    is_in_place = migration.source.host == migration.destination.host
    stage = Stage.CONFIRMED if is_in_place else Stage.LEFT_BEHIND
    done = replace(migration, stage=stage, updated_at_s=now_s)
    return [*([Free(migration.uuid)] if done.has_ended else []), Put(done)]


def _check_guest(migration: Migration) -> None:
    """Reject the end of a move while the host of the only guest is unknown.

    Raises:
        ConflictError: the guest is being handed over, or may be on the destination.
    """
    uuid, there = migration.instance_uuid, migration.destination.host
    if migration.stage is Stage.LANDING:
        raise ConflictError(
            f"cannot end the move of instance {uuid}: its guest has left its host, and only "
            f"{there} can have it; wait until the agent of {there} has checked, or reset the state "
            "to error"
        )
    if migration.stage is Stage.MOVING:
        raise ConflictError(
            f"cannot end the move of instance {uuid}: its guest is being handed over to {there}, "
            "and may be there by now; abort the live migration, wait, or reset the state to error"
        )


def _check_known(migration: Migration | None) -> None:
    """Reject a change of a move that this version of Berth does not know.

    Raises:
        ConflictError: this version of Berth does not know the move.
    """
    if migration is not None and not migration.is_known:
        raise ConflictError(
            f"cannot end the move of instance {migration.instance_uuid}: this version of Berth "
            f"does not know the move ({migration.kind}, {migration.stage}); send the request to an "
            "upgraded process"
        )


def give_up_move(instance: Instance, migration: Migration, now_s: float) -> list[Write]:
    """Return the writes that end a move and leave its leftovers to the agents to clean up.

    The instance stays on its host and holds the allocations there again. The caller writes the
    record of the instance.
    """
    place = migration.elsewhere
    is_before = place is migration.destination
    if place is None or place.host == instance.host:
        # Both sides are the same host: the instance has returned, or was resized on its host.
        over = replace(migration, stage=Stage.FAILED, updated_at_s=now_s)
        freed = undo_claim(migration, instance) if is_before else [Free(migration.uuid)]
        return [*freed, Put(over)]
    if is_before:
        over = replace(migration, stage=Stage.ABANDONED, updated_at_s=now_s)
        return [*undo_claim(migration, instance), Put(over)]
    return [Put(replace(migration, stage=Stage.LEFT_BEHIND, updated_at_s=now_s))]
