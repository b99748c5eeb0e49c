"""The writes that record the stages of cold moves: resize, cold migration and evacuation.

Each function returns one unit with the next stage and all its consequences, so the ledger never has
a move between two stages. See docs/adr/0018-moves.md.
"""

from dataclasses import replace

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.turns import ends_off, placed_at
from berth.domain.ledger.write import Free, Put, Write
from berth.services.gateway.builds import preserve_creation
from berth.services.gateway.move_retries import moves_to_alternates, retry_or_end
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import continue_task, end_task, undo_claim

_BROKEN = "The move failed, and the instance stays on its original host."


async def leave_source(
    context: StepContext, instance: Instance, migration: Migration
) -> StepWrites:
    """Record that the source has stopped the guest, and where its disks are, or that it failed."""
    name, now_s = "compute_resize_instance", context.now_s
    if context.has_failed:
        return _go_back(context, instance, migration, name)
    left = replace(
        migration, stage=Stage.ARRIVING, address=context.outcome.address, updated_at_s=now_s
    )
    step = continue_task(instance, now_s, event=context.event(name), task=Task.RESIZE_MIGRATED)
    return StepWrites((*step, Put(left)))


async def build_at_destination(
    context: StepContext, instance: Instance, migration: Migration
) -> StepWrites:
    """Record that the destination has the guest, or could not build or resize it.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    name, now_s = "compute_finish_resize", context.now_s
    if context.has_failed:
        result = _go_back(context, instance, migration, name)
        return result._replace(has_failed=context.blames_host, cause=context.cause)
    moved = placed_at(instance, migration.destination)
    arrived = replace(migration, stage=Stage.ARRIVED, updated_at_s=now_s)
    first = await preserve_creation(context, instance)
    done = end_task(
        moved,
        now_s,
        event=context.event(name),
        status=Status.RESIZED,
        fault=None,
        launched_at_s=now_s,
    )
    return StepWrites((*first, *done, Put(arrived)), has_failed=False)


async def evacuate(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the destination of an evacuation has rebuilt the guest, or could not.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    event, now_s = context.event("compute_rebuild_instance"), context.now_s
    if context.has_failed:
        fault = context.fault("The instance could not be rebuilt on another host.")
        failed = replace(migration, stage=Stage.FAILED, fault=fault, updated_at_s=now_s)
        back = undo_claim(migration, instance)
        further = retry_or_end(context, instance, failed, event)
        unit = (*back, Put(failed), *further)
        return StepWrites(unit, has_failed=context.blames_host, cause=context.cause)
    # The source's allocation stays with the migration until the source's agent is back and has
    # destroyed the old guest: until then that guest may still run.
    left = replace(migration, stage=Stage.LEFT_BEHIND, updated_at_s=now_s)
    status = Status.SHUTOFF if ends_off(migration) else Status.ACTIVE
    first = await preserve_creation(context, instance)
    done = end_task(
        placed_at(instance, migration.destination),
        now_s,
        event=event,
        status=status,
        migration_uuid=None,
        fault=None,
        launched_at_s=now_s,
    )
    return StepWrites((*first, *done, Put(left)), has_failed=False)


async def confirm(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the source no longer has the guest, and release its allocation.

    The move is then confirmed.
    """
    event, now_s = context.event("compute_confirm_resize"), context.now_s
    confirmed = replace(migration, stage=Stage.CONFIRMED, updated_at_s=now_s)
    done = end_task(instance, now_s, event=event, status=migration.was, migration_uuid=None)
    return StepWrites((Free(migration.uuid), *done, Put(confirmed)))


async def revert(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the destination has given up the guest, or could not.

    After a success the source starts the guest again next; after a failure the move can still be
    confirmed or reverted.
    """
    event, now_s = context.event("compute_revert_resize"), context.now_s
    if context.has_failed:
        text = "The resize could not be reverted."
        arrived = replace(migration, stage=Stage.ARRIVED, updated_at_s=now_s)
        fault = context.fault(text)
        return StepWrites(
            (*end_task(instance, now_s, message=text, event=event, fault=fault), Put(arrived))
        )
    restoring = replace(migration, stage=Stage.RESTORING, updated_at_s=now_s)
    back = continue_task(placed_at(instance, migration.source), now_s, event=event)
    return StepWrites((*undo_claim(migration, instance), *back, Put(restoring)))


async def restore(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the source has its guest again after a move that failed or was reverted.

    A failed move is then retried on another host while attempts remain.
    """
    event, now_s = context.event("compute_finish_revert_resize"), context.now_s
    fault = migration.fault
    stage = Stage.REVERTED if fault is None else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=now_s)
    # The move ends even if the guest does not start: its disks are on this host, and the owner can
    # rebuild or restart it from ERROR.
    if context.has_failed:
        text = "The instance could not be started again on its original host."
        broken = end_task(
            instance,
            now_s,
            message=text,
            event=event,
            status=Status.ERROR,
            migration_uuid=None,
            fault=context.fault(text),
        )
        return StepWrites((*broken, Put(over)))
    if fault is None:
        first = await preserve_creation(context, instance)
        done = end_task(
            instance,
            now_s,
            event=event,
            status=migration.was,
            migration_uuid=None,
            launched_at_s=now_s,
        )
        return StepWrites((*first, *done, Put(over)))
    units = [*await moves_to_alternates(context, instance, over, event)]
    units.append(tuple(retry_or_end(context, instance, over, event)))
    first, *others = ((Put(over), *unit) for unit in units)
    return StepWrites(first, otherwise=tuple(others))


def _go_back(
    context: StepContext, instance: Instance, migration: Migration, name: str
) -> StepWrites:
    """Return the writes that release the destination and have the source restore the guest."""
    event, now_s = context.event(name), context.now_s
    restoring = replace(
        migration, stage=Stage.RESTORING, fault=context.fault(_BROKEN), updated_at_s=now_s
    )
    step: list[Write] = continue_task(instance, now_s, event=event, task=Task.RESIZE_REVERTING)
    return StepWrites((*undo_claim(migration, instance), *step, Put(restoring)))
