"""The writes that record the outcomes of rescues and unrescues."""

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import RESCUE, UNRESCUE, Transition
from berth.domain.compute.rescue import with_rescue_image
from berth.services.gateway.builds import preserve_creation
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import end_task


async def rescue(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the guest runs from the rescue image.

    As in Nova, this is a launch, so `launched_at` is the time of the rescue.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    if context.has_failed:
        return _failed(context, instance, RESCUE, "The instance could not be rescued.")
    first = await preserve_creation(context, instance)
    done = end_task(
        instance,
        context.now_s,
        event=context.event("compute_rescue_instance"),
        status=Status.RESCUED,
        fault=None,
        launched_at_s=context.now_s,
    )
    return StepWrites((*first, *done))


async def unrescue(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the guest runs from its own disks again."""
    if context.has_failed:
        return _failed(context, instance, UNRESCUE, "The instance could not be unrescued.")
    event = context.event("compute_unrescue_instance")
    done = end_task(
        instance,
        context.now_s,
        event=event,
        status=Status.ACTIVE,
        fault=None,
        extra=with_rescue_image(instance, None),
    )
    return StepWrites(tuple(done))


def _failed(context: StepContext, instance: Instance, step: Transition, text: str) -> StepWrites:
    """Return the writes that put an instance into ERROR, as in Nova; its guest may be off."""
    broken = end_task(
        instance,
        context.now_s,
        message=text,
        event=context.event(f"compute_{step.action}_instance"),
        status=Status.ERROR,
        fault=context.fault(text),
    )
    return StepWrites(tuple(broken))
