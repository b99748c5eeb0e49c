"""Handlers for the stages of cold moves: resize, cold migration and evacuation.

Each handler returns one unit with the next stage and all its consequences, so the ledger never has
a move between two stages. See docs/adr/0018-moves.md.
"""

from contextlib import suppress
from dataclasses import replace

from berth.agent.executor.builds import preserve_creation
from berth.agent.executor.host_context import HostContext, TaskResult, cause_of
from berth.agent.executor.move_retries import moves_to_alternates, retry_or_end
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.errors import DriverError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Free, Put, Write
from berth.services.servers.moves import continue_task, end_task, undo_claim

_BROKEN = "The move failed, and the instance stays on its original host."


def placed_at(instance: Instance, place: Place) -> Instance:
    """Return an instance with the host, flavor and assignment of one side of a move."""
    return fast_replace(
        instance,
        host=place.host,
        node=place.node,
        flavor=place.flavor,
        assignment=place.assignment,
    )


def is_in_place(migration: Migration) -> bool:
    """Return whether a resize stays on its host."""
    return migration.source.host == migration.destination.host


async def leave_source(
    context: HostContext, instance: Instance, migration: Migration
) -> TaskResult:
    """Stop the guest at the source and, unless it stays on its host, export its disks."""
    began_s, address = context.clock.now_s(), ""
    try:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        if not is_in_place(migration):
            address = await context.driver.offer_disks(instance.uuid)
    except DriverError as error:
        return _go_back(context, instance, migration, "compute_resize_instance", began_s, error)
    event, now_s = context.event("compute_resize_instance", began_s), context.clock.now_s()
    left = replace(migration, stage=Stage.ARRIVING, address=address, updated_at_s=now_s)
    step = continue_task(instance, now_s, event=event, task=Task.RESIZE_MIGRATED)
    return TaskResult((*step, Put(left)))


async def build_at_destination(
    context: HostContext, instance: Instance, migration: Migration
) -> TaskResult:
    """Create the guest from the disks that the source exports, or resize it in place."""
    began_s, name = context.clock.now_s(), "compute_finish_resize"
    moved = placed_at(instance, migration.destination)
    try:
        if not is_in_place(migration):
            await context.driver.fetch_disks(moved, migration.address)
        await context.driver.resize(moved)
        if migration.was is Status.ACTIVE:
            await context.driver.spawn(moved)
    except (BuildError, DriverError) as error:
        # In a resize in place this is also the source's guest, so it must not be destroyed.
        if not is_in_place(migration):
            await context.driver.destroy(instance.uuid)
        result = _go_back(context, instance, migration, name, began_s, error)
        return result._replace(has_failed=_blames_host(error), cause=cause_of(error))
    event, now_s = context.event(name, began_s), context.clock.now_s()
    arrived = replace(migration, stage=Stage.ARRIVED, updated_at_s=now_s)
    first = await preserve_creation(context, instance)
    done = end_task(
        moved, now_s, event=event, status=Status.RESIZED, fault=None, launched_at_s=now_s
    )
    return TaskResult((*first, *done, Put(arrived)), has_failed=False)


async def evacuate(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Rebuild the guest at the destination of an evacuation, since its source is down."""
    began_s, name = context.clock.now_s(), "compute_rebuild_instance"
    moved = placed_at(instance, migration.destination)
    # The stopped state is applied here and not when the evacuation is requested: until another
    # host has the guest, a host that was only cut off would stop its healthy guest.
    is_off = migration.stays_off or migration.was is Status.SHUTOFF
    try:
        await context.driver.spawn(moved)
        if is_off:
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except (BuildError, DriverError) as error:
        await context.driver.destroy(instance.uuid)
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        fault = context.fault("The instance could not be rebuilt on another host.", error)
        failed = replace(migration, stage=Stage.FAILED, fault=fault, updated_at_s=now_s)
        back = undo_claim(migration, instance)
        further = retry_or_end(context, instance, failed, event)
        unit = (*back, Put(failed), *further)
        return TaskResult(unit, has_failed=_blames_host(error), cause=cause_of(error))
    event, now_s = context.event(name, began_s), context.clock.now_s()
    # The source's allocation stays with the migration until the source's agent is back and has
    # destroyed the old guest: until then it may still run.
    left = replace(migration, stage=Stage.LEFT_BEHIND, updated_at_s=now_s)
    status = Status.SHUTOFF if is_off else Status.ACTIVE
    first = await preserve_creation(context, instance)
    done = end_task(
        moved,
        now_s,
        event=event,
        status=status,
        migration_uuid=None,
        fault=None,
        launched_at_s=now_s,
    )
    return TaskResult((*first, *done, Put(left)), has_failed=False)


async def confirm(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Destroy the guest at the source, unless it was resized in place, and release its allocation.

    The move is then confirmed.
    """
    began_s, name = context.clock.now_s(), "compute_confirm_resize"
    if not is_in_place(migration):
        await context.driver.destroy(instance.uuid)
    event, now_s = context.event(name, began_s), context.clock.now_s()
    confirmed = replace(migration, stage=Stage.CONFIRMED, updated_at_s=now_s)
    done = end_task(instance, now_s, event=event, status=migration.was, migration_uuid=None)
    return TaskResult((Free(migration.uuid), *done, Put(confirmed)))


async def revert(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Destroy the guest at the destination, or stop it if it was resized in place.

    This is the first step of a reverted resize; `restore` then starts the guest at the source.
    """
    began_s, name = context.clock.now_s(), "compute_revert_resize"
    try:
        if is_in_place(migration):
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        else:
            await context.driver.destroy(instance.uuid)
    except DriverError as error:
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        text = "The resize could not be reverted."
        arrived = replace(migration, stage=Stage.ARRIVED, updated_at_s=now_s)
        fault = context.fault(text, error)
        return TaskResult(
            (*end_task(instance, now_s, message=text, event=event, fault=fault), Put(arrived))
        )
    event, now_s = context.event(name, began_s), context.clock.now_s()
    restoring = replace(migration, stage=Stage.RESTORING, updated_at_s=now_s)
    back = continue_task(placed_at(instance, migration.source), now_s, event=event)
    return TaskResult((*undo_claim(migration, instance), *back, Put(restoring)))


async def restore(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Start the guest at the source again, if it ran before a move that failed or was reverted.

    A failed move is then retried on another host while attempts remain.
    """
    began_s, name = context.clock.now_s(), "compute_finish_revert_resize"
    error: Exception | None = None
    try:
        if is_in_place(migration):
            await context.driver.resize(instance)
        if migration.was is Status.ACTIVE:
            await context.driver.spawn(instance)
        else:
            await _take_back_disks(context, instance)
    except (BuildError, DriverError) as raised:
        error = raised
    event, now_s = context.event(name, began_s, error), context.clock.now_s()
    fault = migration.fault
    stage = Stage.REVERTED if fault is None else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=now_s)
    # The move ends even if the guest does not start: its disks are on this host, and the owner can
    # rebuild or restart it from ERROR.
    if error is not None:
        text = "The instance could not be started again on its original host."
        broken = end_task(
            instance,
            now_s,
            message=text,
            event=event,
            status=Status.ERROR,
            migration_uuid=None,
            fault=context.fault(text, error),
        )
        return TaskResult((*broken, Put(over)))
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
        return TaskResult((*first, *done, Put(over)))
    units = [*await moves_to_alternates(context, instance, over, event)]
    units.append(tuple(retry_or_end(context, instance, over, event)))
    first, *others = ((Put(over), *unit) for unit in units)
    return TaskResult(first, otherwise=tuple(others))


async def _take_back_disks(context: HostContext, instance: Instance) -> None:
    """End the export of the disks of a guest that stays off, ignoring errors."""
    # The next start of the guest also ends the export, so until then a failure here only leaves
    # the exporting process running.
    with suppress(DriverError):
        await context.driver.stop(instance.uuid, grace_s=0.0)


def _go_back(
    context: HostContext,
    instance: Instance,
    migration: Migration,
    name: str,
    began_s: float,
    error: Exception,
) -> TaskResult:
    """Return the result that releases the destination and restores the guest at the source."""
    event, now_s = context.event(name, began_s, error), context.clock.now_s()
    restoring = replace(
        migration,
        stage=Stage.RESTORING,
        fault=context.fault(_BROKEN, error),
        updated_at_s=now_s,
    )
    step: list[Write] = continue_task(instance, now_s, event=event, task=Task.RESIZE_REVERTING)
    return TaskResult((*undo_claim(migration, instance), *step, Put(restoring)))


def _blames_host(error: Exception) -> bool | None:
    return True if isinstance(error, BuildError) and error.blames_host else None
