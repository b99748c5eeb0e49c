"""Handlers for the stages of live migrations, during which guests keep running."""

from dataclasses import replace

from berth.agent.executor.cold_moves import placed_at
from berth.agent.executor.host_context import HostContext, TaskResult
from berth.agent.executor.move_retries import retry_or_end
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import ActionEvent
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import DriverError, MigrationError
from berth.domain.ledger.write import Free, Put
from berth.ports.virt import Guest
from berth.services.servers.moves import continue_task, end_task, undo_claim

_NAME = "compute_live_migration"
_FAILED = "The live migration failed, and the instance stays on its original host."
_LOST = "The guest was lost during the migration. Rebuild the instance to recreate it."
# The destination checks this many times, with pauses of this many seconds, whether a waiting guest
# has arrived: QEMU may still be reading the last of its memory.
_LANDING_TRIES = 10
_LANDING_S = 1.0


async def prepare(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Create a guest at the destination that waits for the running one."""
    began_s, name = context.clock.now_s(), "compute_pre_live_migration"
    try:
        address = await context.driver.take_in(placed_at(instance, migration.destination))
    except (BuildError, DriverError) as error:
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
        fault = context.fault(_FAILED, error)
        failed = replace(migration, stage=stage, fault=fault, updated_at_s=now_s)
        further = retry_or_end(context, instance, failed, event)
        return TaskResult((*undo_claim(migration, instance), Put(failed), *further))
    event, now_s = context.event(name, began_s), context.clock.now_s()
    moving = replace(migration, stage=Stage.MOVING, address=address, updated_at_s=now_s)
    return TaskResult((*continue_task(instance, now_s, event=event), Put(moving)))


async def hand_over(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Migrate the running guest to the destination, which waits for it.

    When the guest is no longer here, an earlier attempt may have handed it over without recording
    that, or the guest was lost. Only the destination knows, so the move enters the stage LANDING,
    which is the destination's turn.

    Raises:
        DriverError: the driver cannot tell whether the guest is here. The stage is repeated: if it
            failed, the destination would destroy a guest that may have arrived.
        UnavailableError: the migration has begun and its outcome is unknown. The stage is repeated
            for the same reason.
    """
    began_s, uuid = context.clock.now_s(), migration.instance_uuid
    if all(guest.instance_uuid != uuid for guest in await context.driver.guests()):
        now_s = context.clock.now_s()
        landing = replace(migration, stage=Stage.LANDING, updated_at_s=now_s)
        return TaskResult((*continue_task(instance, now_s), Put(landing)))
    try:
        if migration.cancelled:
            raise MigrationError("the migration was cancelled before it began")
        await context.driver.hand_over(uuid, migration.address)
    except DriverError as error:
        event, now_s = context.event(_NAME, began_s, error), context.clock.now_s()
        fault = context.fault(_FAILED, error)
        back = replace(migration, stage=Stage.WITHDRAWING, fault=fault, updated_at_s=now_s)
        return TaskResult((*continue_task(instance, now_s, event=event), Put(back)))
    return _arrived(context, instance, migration, context.event(_NAME, began_s))


async def check_arrival(
    context: HostContext, instance: Instance, migration: Migration
) -> TaskResult:
    """Complete the move if the guest has arrived, or else record that the guest is lost.

    This handles the stage LANDING. An orphan, of which the driver has no record, may be the guest,
    so it is not destroyed but left to the operator.
    """
    began_s = context.clock.now_s()
    guest = await _landed(context, instance.uuid)
    if guest is not None and not guest.is_orphan and not guest.waits:
        return _arrived(context, instance, migration, context.event(_NAME, began_s))
    # A guest that still waits has not received the memory of the lost one, so it is useless.
    if guest is None or not guest.is_orphan:
        await context.driver.destroy(instance.uuid)
    gone = "its source host no longer has it, or is down"
    error = MigrationError(f"guest {instance.uuid} has not arrived, and {gone}")
    event, now_s = context.event(_NAME, began_s, error), context.clock.now_s()
    fault = context.fault(_LOST, error)
    lost = replace(migration, stage=Stage.FAILED, fault=fault, updated_at_s=now_s)
    broken = end_task(
        instance,
        now_s,
        message=_LOST,
        event=event,
        status=Status.ERROR,
        migration_uuid=None,
        fault=fault,
    )
    return TaskResult((*undo_claim(migration, instance), *broken, Put(lost)))


async def _landed(context: HostContext, uuid: str) -> Guest | None:
    """Return the guest on this host, or None if there is none.

    A guest that waits for its migration is given up to 10 seconds to arrive.
    """
    guest: Guest | None = None
    for _ in range(_LANDING_TRIES):
        guests = {guest.instance_uuid: guest for guest in await context.driver.guests()}
        guest = guests.get(uuid)
        if guest is None or guest.is_orphan or not guest.waits:
            return guest
        await context.clock.sleep(_LANDING_S)
    return guest


def _arrived(
    context: HostContext, instance: Instance, migration: Migration, event: ActionEvent
) -> TaskResult:
    now_s = context.clock.now_s()
    over = replace(migration, stage=Stage.COMPLETED, updated_at_s=now_s)
    done = end_task(
        placed_at(instance, migration.destination),
        now_s,
        event=event,
        migration_uuid=None,
        fault=None,
    )
    return TaskResult((Free(migration.uuid), *done, Put(over)))


async def withdraw(context: HostContext, instance: Instance, migration: Migration) -> TaskResult:
    """Destroy the guest that waited at the destination of a failed move."""
    await context.driver.destroy(instance.uuid)
    now_s = context.clock.now_s()
    stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=now_s)
    further = retry_or_end(context, instance, over, None)
    return TaskResult((*undo_claim(migration, instance), Put(over), *further))


async def clear_leftover_guest(context: HostContext, migration: Migration) -> TaskResult:
    """Destroy the guest that a move left here, and release the migration's allocation."""
    await context.driver.destroy(migration.instance_uuid)
    stage = Stage.COMPLETED if migration.stage is Stage.LEFT_BEHIND else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=context.clock.now_s())
    return TaskResult((Free(migration.uuid), Put(over)))
