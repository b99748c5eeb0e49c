"""Handlers for tasks that change a guest's power state: start, stop, reboot, pause, suspend."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from berth.agent.executor.host_context import HostContext, TaskResult
from berth.domain.compute.build_failure import BuildError
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
from berth.domain.errors import DriverError
from berth.ports.virt import Power
from berth.services.servers.moves import end_task

_Deed = Callable[[HostContext, Instance], Awaitable[None]]


async def _start(context: HostContext, instance: Instance) -> None:
    await context.driver.spawn(instance)


async def _stop(context: HostContext, instance: Instance) -> None:
    await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)


# A reboot stops and starts the guest rather than resetting it, so that it gets a pending new size
# and the current settings.
async def _reboot_soft(context: HostContext, instance: Instance) -> None:
    await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    await context.driver.spawn(instance)


async def _reboot_hard(context: HostContext, instance: Instance) -> None:
    await context.driver.stop(instance.uuid, grace_s=0.0)
    await context.driver.spawn(instance)


async def _pause(context: HostContext, instance: Instance) -> None:
    await context.driver.pause(instance.uuid)


async def _unpause(context: HostContext, instance: Instance) -> None:
    await context.driver.unpause(instance.uuid)


async def _suspend(context: HostContext, instance: Instance) -> None:
    await context.driver.suspend(instance.uuid)


async def _resume(context: HostContext, instance: Instance) -> None:
    await context.driver.resume(instance.uuid)


_DEEDS: Final[Mapping[Task, tuple[Transition, _Deed]]] = {
    step.task: (step, deed)
    for step, deed in (
        (START, _start),
        (STOP, _stop),
        (REBOOT_SOFT, _reboot_soft),
        (REBOOT_HARD, _reboot_hard),
        (PAUSE, _pause),
        (UNPAUSE, _unpause),
        (SUSPEND, _suspend),
        (RESUME, _resume),
    )
}

_STATUSES: Final[Mapping[Power, Status]] = {
    Power.RUNNING: Status.ACTIVE,
    Power.PAUSED: Status.PAUSED,
    Power.SUSPENDED: Status.SUSPENDED,
    Power.STOPPED: Status.SHUTOFF,
}

POWER_TASKS: Final = frozenset(_DEEDS)
"""The tasks that `change_power` carries out."""


async def change_power(context: HostContext, instance: Instance, task: Task) -> TaskResult:
    """Carry out the power task of an instance.

    When the driver fails, the instance gets the status that its guest then has, and its action
    records the fault.
    """
    step, deed = _DEEDS[task]
    began_s = context.clock.now_s()
    name = f"compute_{step.action}_instance"
    try:
        await deed(context, instance)
    except (BuildError, DriverError) as error:
        text = f"The action {step.action} failed on the instance's host."
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        status, fault = await _status_of(context, instance), context.fault(text, error)
        failed = end_task(instance, now_s, message=text, event=event, status=status, fault=fault)
        return TaskResult(tuple(failed))
    now_s = context.clock.now_s()
    status = step.ends or instance.status
    event = context.event(name, began_s)
    return TaskResult(tuple(end_task(instance, now_s, event=event, status=status, fault=None)))


async def _status_of(context: HostContext, instance: Instance) -> Status:
    """Return the status of an instance after a failed step, which may have taken effect.

    It follows the power state of the guest. An instance in ERROR stays in ERROR, and the status
    also stays when the guest is missing, has crashed, or cannot be listed.
    """
    if instance.status is Status.ERROR:
        return instance.status
    try:
        guests = {guest.instance_uuid: guest.power for guest in await context.driver.guests()}
    except DriverError:
        return instance.status
    power = guests.get(instance.uuid)
    return instance.status if power is None else _STATUSES.get(power, instance.status)
