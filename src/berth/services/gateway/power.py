"""The writes that record power tasks: start, stop, reboot, pause, suspend and their opposites."""

from collections.abc import Mapping
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESUME,
    START,
    STOP,
    SUSPEND,
    UNPAUSE,
    Transition,
)
from berth.ports.virt import Power
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
