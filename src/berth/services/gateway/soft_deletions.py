"""The writes that record the outcomes of soft deletions and restores."""

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.soft_deletion import without_soft_deletion
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import end_task


async def soft_delete(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the guest is off and the instance is soft-deleted.

    After a failure the instance keeps its earlier status, as in Nova, but not its move.
    """
    event, now_s = context.event("compute_soft_delete_instance"), context.now_s
    if context.has_failed:
        text, kept = "The instance could not be deleted.", instance.extra
        # If the deletion interrupted a restore, the instance is still soft-deleted, and would never
        # be reclaimed without the time of its deletion.
        if instance.status is not Status.SOFT_DELETED:
            kept = without_soft_deletion(instance)
        fault = context.fault(text)
        return StepWrites(
            tuple(end_task(instance, now_s, message=text, event=event, fault=fault, extra=kept))
        )
    return StepWrites(tuple(end_task(instance, now_s, event=event, status=Status.SOFT_DELETED)))


async def restore(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the guest runs and the instance is active, as in Nova even if it was off before.

    After a failure the instance is still soft-deleted, and is reclaimed at the same time as before.
    """
    event, now_s = context.event("compute_restore_instance"), context.now_s
    if context.has_failed:
        text = "The instance could not be restored."
        fault = context.fault(text)
        return StepWrites(tuple(end_task(instance, now_s, message=text, event=event, fault=fault)))
    extra = without_soft_deletion(instance)
    done = end_task(instance, now_s, event=event, status=Status.ACTIVE, fault=None, extra=extra)
    return StepWrites(tuple(done))
