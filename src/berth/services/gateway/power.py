"""The writes that record the outcomes of power tasks, rescues and soft deletions."""

from collections.abc import Mapping
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESCUE,
    RESUME,
    START,
    STOP,
    SUSPEND,
    UNPAUSE,
    UNRESCUE,
    Transition,
)
from berth.domain.compute.rescue import with_rescue_image
from berth.domain.compute.soft_deletion import without_soft_deletion
from berth.ports.virt import Power
from berth.services.gateway.builds import preserve_creation
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import end_task

POWER_TRANSITIONS: Final[Mapping[Task, Transition]] = {
    step.task: step
    for step in (START, STOP, REBOOT_SOFT, REBOOT_HARD, PAUSE, UNPAUSE, SUSPEND, RESUME)
}
"""The transition of each power task."""

_STATUSES: Final[Mapping[str, Status]] = {
    Power.RUNNING: Status.ACTIVE,
    Power.PAUSED: Status.PAUSED,
    Power.SUSPENDED: Status.SUSPENDED,
    Power.STOPPED: Status.SHUTOFF,
}


def change_power(context: StepContext, instance: Instance, task: Task) -> StepWrites:
    """Record a power task.

    If the driver failed, the instance gets a fault and the status of its guest, and its action
    records the failure.
    """
    step = POWER_TRANSITIONS[task]
    event, now_s = context.event(f"compute_{step.action}_instance"), context.now_s
    if context.outcome.error is not None:
        text = f"The action {step.action} failed on the instance's host."
        status, fault = _status_of(context.outcome.error.power, instance), context.fault(text)
        failed = end_task(instance, now_s, message=text, event=event, status=status, fault=fault)
        return StepWrites(tuple(failed))
    status = step.ends or instance.status
    return StepWrites(tuple(end_task(instance, now_s, event=event, status=status, fault=None)))


def _status_of(power: str, instance: Instance) -> Status:
    """Return the status of an instance after a failed step, which may have taken effect.

    It follows the power state of the guest. An instance in ERROR stays in ERROR, and the status
    also stays when the guest is missing, has crashed, or could not be listed.
    """
    if instance.status is Status.ERROR:
        return instance.status
    return _STATUSES.get(power, instance.status)


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
