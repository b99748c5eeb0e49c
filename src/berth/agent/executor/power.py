"""Handlers for tasks that change a guest's power state: start, stop, reboot, pause, suspend."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Task
from berth.domain.errors import DriverError

_Deed = Callable[[HostContext, Instance], Awaitable[None]]


async def _start(context: HostContext, instance: Instance) -> None:
    await context.driver.spawn(instance)


async def _stop(context: HostContext, instance: Instance) -> None:
    await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)


# A reboot stops and starts the guest rather than resetting it, so that a pending resize and the
# current settings take effect.
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


_DEEDS: Final[Mapping[Task, _Deed]] = {
    Task.POWERING_ON: _start,
    Task.POWERING_OFF: _stop,
    Task.REBOOTING: _reboot_soft,
    Task.REBOOTING_HARD: _reboot_hard,
    Task.PAUSING: _pause,
    Task.UNPAUSING: _unpause,
    Task.SUSPENDING: _suspend,
    Task.RESUMING: _resume,
}

POWER_TASKS: Final = frozenset(_DEEDS)
"""The tasks that `change_power` carries out."""


async def change_power(context: HostContext, instance: Instance, task: Task) -> StepEnd:
    """Carry out the power task of an instance."""
    try:
        await _DEEDS[task](context, instance)
    except (BuildError, DriverError) as error:
        return failed(error, await _power_of(context, instance))
    return DONE


async def _power_of(context: HostContext, instance: Instance) -> str:
    """Return the power state of a guest; empty if it is missing or guests cannot be listed."""
    try:
        guests = {guest.instance_uuid: guest.power for guest in await context.driver.guests()}
    except DriverError:
        return ""
    return guests.get(instance.uuid, "")
