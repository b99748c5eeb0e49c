"""The writes that record the stages of live migrations, during which guests keep running."""

from dataclasses import replace

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.step import StepResult
from berth.domain.compute.turns import placed_at
from berth.domain.ledger.write import Free, Put
from berth.services.gateway.move_retries import retry_or_end
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import continue_task, end_task, undo_claim

_NAME = "compute_live_migration"
_FAILED = "The live migration failed, and the instance stays on its original host."
_LOST = "The guest was lost during the migration. Rebuild the instance to recreate it."


async def prepare(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the destination is ready for the guest, with its address, or that it is not."""
    event, now_s = context.event("compute_pre_live_migration"), context.now_s
    if context.has_failed:
        stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
        fault = context.fault(_FAILED)
        failed = replace(migration, stage=stage, fault=fault, updated_at_s=now_s)
        further = retry_or_end(context, instance, failed, event)
        return StepWrites((*undo_claim(migration, instance), Put(failed), *further))
    address = context.outcome.address
    moving = replace(migration, stage=Stage.MOVING, address=address, updated_at_s=now_s)
    return StepWrites((*continue_task(instance, now_s, event=event), Put(moving)))


async def hand_over(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the source has handed over its guest, has failed to, or no longer has a guest.

    In the last case an earlier attempt may have handed the guest over without recording that, or
    the guest was lost. Only the destination knows, so the move enters the stage LANDING, which is
    the destination's turn.
    """
    now_s = context.now_s
    if context.outcome.result is StepResult.GUEST_GONE:
        landing = replace(migration, stage=Stage.LANDING, updated_at_s=now_s)
        return StepWrites((*continue_task(instance, now_s), Put(landing)))
    if context.has_failed:
        fault = context.fault(_FAILED)
        back = replace(migration, stage=Stage.WITHDRAWING, fault=fault, updated_at_s=now_s)
        step = continue_task(instance, now_s, event=context.event(_NAME))
        return StepWrites((*step, Put(back)))
    return _arrived(context, instance, migration)


async def check_arrival(
    context: StepContext, instance: Instance, migration: Migration
) -> StepWrites:
    """Record that the guest has arrived, or that it is lost; this ends the stage LANDING."""
    if context.outcome.result is not StepResult.GUEST_LOST:
        return _arrived(context, instance, migration)
    now_s = context.now_s
    event, fault = context.event(_NAME), context.fault(_LOST)
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
    return StepWrites((*undo_claim(migration, instance), *broken, Put(lost)))


def _arrived(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    over = replace(migration, stage=Stage.COMPLETED, updated_at_s=context.now_s)
    done = end_task(
        placed_at(instance, migration.destination),
        context.now_s,
        event=context.event(_NAME),
        migration_uuid=None,
        fault=None,
    )
    return StepWrites((Free(migration.uuid), *done, Put(over)))


async def withdraw(context: StepContext, instance: Instance, migration: Migration) -> StepWrites:
    """Record that the destination of a failed move has destroyed the guest that waited there."""
    stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=context.now_s)
    further = retry_or_end(context, instance, over, None)
    return StepWrites((*undo_claim(migration, instance), Put(over), *further))
