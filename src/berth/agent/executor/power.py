"""Tasks that a host does by itself with a guest that it has: power, pause, suspend."""

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
from berth.services.servers.moves import ended

_Deed = Callable[[HostContext, Instance], Awaitable[None]]


async def _start(bench: HostContext, instance: Instance) -> None:
    await bench.driver.spawn(instance)


async def _stop(bench: HostContext, instance: Instance) -> None:
    await bench.driver.stop(instance.uuid, grace_s=bench.stop_grace_s)


async def _reboot_soft(bench: HostContext, instance: Instance) -> None:
    await bench.driver.stop(instance.uuid, grace_s=bench.stop_grace_s)
    await bench.driver.spawn(instance)


async def _reboot_hard(bench: HostContext, instance: Instance) -> None:
    await bench.driver.stop(instance.uuid, grace_s=0.0)
    await bench.driver.spawn(instance)


async def _pause(bench: HostContext, instance: Instance) -> None:
    await bench.driver.pause(instance.uuid)


async def _unpause(bench: HostContext, instance: Instance) -> None:
    await bench.driver.unpause(instance.uuid)


async def _suspend(bench: HostContext, instance: Instance) -> None:
    await bench.driver.suspend(instance.uuid)


async def _resume(bench: HostContext, instance: Instance) -> None:
    await bench.driver.resume(instance.uuid)


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
"""Tasks that `change_power` does."""


async def change_power(bench: HostContext, instance: Instance, task: Task) -> TaskResult:
    """Do what an instance's task asks of its guest.

    When the driver cannot, the instance is what its guest does then, and its history says why.
    """
    step, deed = _DEEDS[task]
    began_s = bench.clock.now_s()
    name = f"compute_{step.action}_instance"
    try:
        await deed(bench, instance)
    except (BuildError, DriverError) as error:
        text = f"The action {step.action} failed on its host."
        event, now_s = bench.event(name, began_s, error), bench.clock.now_s()
        status, fault = await _status_of(bench, instance), bench.fault(text, error)
        failed = ended(instance, now_s, message=text, event=event, status=status, fault=fault)
        return TaskResult(tuple(failed))
    now_s = bench.clock.now_s()
    status = step.ends or instance.status
    event = bench.event(name, began_s)
    return TaskResult(tuple(ended(instance, now_s, event=event, status=status, fault=None)))


async def _status_of(bench: HostContext, instance: Instance) -> Status:
    """Return what an instance is after a step that failed: half of it, or all, may be done."""
    if instance.status is Status.ERROR:
        return instance.status
    try:
        guests = {guest.instance_uuid: guest.power for guest in await bench.driver.guests()}
    except DriverError:
        return instance.status
    power = guests.get(instance.uuid)
    return instance.status if power is None else _STATUSES.get(power, instance.status)
