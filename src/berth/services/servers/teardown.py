"""Endings: what an instance on its way comes to when it is deleted, or its move is given up.

What is cut short ends in the history too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Free, Put, TransferAllocations, Unit, Write
from berth.services.servers.moves import holder_of_move, undo_claim

_DELETED: Final = "The instance was deleted."
_CUT_SHORT: Final = "Something else was asked for before it was done."


def end_action(instance: Instance, now_s: float, message: str = _CUT_SHORT) -> list[Write]:
    """Return what ends, in the history alone, what goes on with an instance."""
    action = instance.action
    return [] if action is None else [Put(replace(action, ended_at_s=now_s, message=message))]


def begin_disk_deletion(instance: Instance, now_s: float) -> Unit:
    """Return what begins the end of an instance that is on no host, but has disks somewhere.

    Some agent deletes them first, so that nothing of it is left.
    """
    going = replace(
        instance,
        task=Task.DELETING,
        action=None,
        host=None,
        node=None,
        assignment=None,
        updated_at_s=now_s,
    )
    return (Free(instance.uuid), Put(going), *end_action(instance, now_s, _DELETED))


def delete_instance(instance: Instance, migration: Migration | None, now_s: float) -> Unit:
    """Return what an instance comes to whose guest is gone from its host.

    What the other side of its move holds is kept until the agent there has looked after it.

    Raises:
        ConflictError: only a newer Berth knows its move.
    """
    _check_known(migration)
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
    over = end_action(instance, now_s, _DELETED)
    if migration is None or migration.has_ended:
        return (Free(instance.uuid), Put(gone), *over)
    place = migration.elsewhere
    if place is None or place.host == instance.host:
        failed = replace(migration, stage=Stage.FAILED, updated_at_s=now_s)
        return (Free(instance.uuid), Free(migration.uuid), Put(gone), Put(failed), *over)
    freed: list[Write] = [Free(instance.uuid)]
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
    """Return an instance as it is without its move, and what gives that up.

    Args:
        instance: as it was read.
        migration: what was read as its move; None when it is in none.
        now_s: Unix seconds.
        may_lose_guest: the only guest may be destroyed with the move.

    Returns:
        The instance, which is where it was before when it is just being brought back there: by
        now that may be the only place where its disks are. And what is to be written.

    Raises:
        ConflictError: it is in the midst of another one by now, or of one that only a newer Berth
            knows; or its guest would be lost.
    """
    stays = fast_replace(instance, migration_uuid=None, counts_as=None)
    if instance.migration_uuid is None:
        return stays, ()
    if migration is None or migration.uuid != instance.migration_uuid:
        raise ConflictError(f"instance {instance.uuid} has changed; try again")
    _check_known(migration)
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


def _check_guest(migration: Migration) -> None:
    """Leave alone what may be the only guest, as long as nobody knows where that is.

    Raises:
        ConflictError: it is on its way.
    """
    uuid, there = migration.instance_uuid, migration.destination.host
    if migration.stage is Stage.LANDING:
        raise ConflictError(
            f"the guest of instance {uuid} has left its host, and only {there} can have "
            f"it; wait until the agent of {there} has looked, or reset its state to error"
        )
    if migration.stage is Stage.MOVING:
        raise ConflictError(
            f"the guest of instance {uuid} is being handed over to {there}, and may be there by "
            "now; abort the live migration, or wait, or reset its state to error"
        )


def _check_known(migration: Migration | None) -> None:
    """Leave alone what a newer Berth does: what is where cannot be told.

    Raises:
        ConflictError: only a newer Berth knows the move.
    """
    if migration is not None and not migration.is_known:
        raise ConflictError(
            f"instance {migration.instance_uuid} is in the midst of a move ({migration.kind}, "
            f"{migration.stage}) that only a newer Berth knows; ask one that has been upgraded"
        )


def give_up_move(instance: Instance, migration: Migration, now_s: float) -> list[Write]:
    """Return what ends a move where its instance is; what it left elsewhere is cleared away.

    The instance holds again what it has on its host. Its record is up to the caller.
    """
    place = migration.elsewhere
    is_before = place is migration.destination
    if place is None or place.host == instance.host:
        # Nothing is anywhere else: it is brought back already, or changes its size where it is.
        over = replace(migration, stage=Stage.FAILED, updated_at_s=now_s)
        freed = undo_claim(migration, instance) if is_before else [Free(migration.uuid)]
        return [*freed, Put(over)]
    if is_before:
        over = replace(migration, stage=Stage.ABANDONED, updated_at_s=now_s)
        return [*undo_claim(migration, instance), Put(over)]
    return [Put(replace(migration, stage=Stage.LEFT_BEHIND, updated_at_s=now_s))]
