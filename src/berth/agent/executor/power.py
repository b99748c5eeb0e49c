"""Handlers for tasks that stop or start a guest: power tasks, rescues and soft deletions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Task
from berth.domain.errors import DriverError

_Change = Callable[[HostContext, Instance], Awaitable[None]]


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


_CHANGES: Final[Mapping[Task, _Change]] = {
    Task.POWERING_ON: _start,
    Task.POWERING_OFF: _stop,
    Task.REBOOTING: _reboot_soft,
    Task.REBOOTING_HARD: _reboot_hard,
    Task.PAUSING: _pause,
    Task.UNPAUSING: _unpause,
    Task.SUSPENDING: _suspend,
    Task.RESUMING: _resume,
}

POWER_TASKS: Final = frozenset(_CHANGES)
"""The tasks that `change_power` carries out."""


async def change_power(context: HostContext, instance: Instance, task: Task) -> StepEnd:
    """Carry out the power task of an instance."""
    try:
        await _CHANGES[task](context, instance)
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


async def rescue(context: HostContext, instance: Instance) -> StepEnd:
    """Shut the guest down, and start it from the rescue image."""
    return await _restart(context, instance, context.stop_grace_s)


async def unrescue(context: HostContext, instance: Instance) -> StepEnd:
    """Power the guest off, and start it from its own disks.

    As in Nova, the rescue system gets no graceful shutdown, because its disk is deleted.
    """
    return await _restart(context, instance, 0.0)


async def _restart(context: HostContext, instance: Instance, grace_s: float) -> StepEnd:
    try:
        await context.driver.stop(instance.uuid, grace_s=grace_s)
        # The driver derives the boot disk from the instance (`rescue_image_of`).
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE


async def soft_delete(context: HostContext, instance: Instance) -> StepEnd:
    """Power the guest off without a graceful shutdown, as in Nova."""
    try:
        await context.driver.stop(instance.uuid, grace_s=0.0)
    except DriverError as error:
        return failed(error)
    return DONE


async def restore(context: HostContext, instance: Instance) -> StepEnd:
    """Start the guest again, from its stored disks if shelving has stored them."""
    try:
        if instance.disks is not None:
            await context.driver.fetch_disks(instance, instance.disks)
        # If the host was down during the deletion, the guest may still run or be paused.
        await context.driver.stop(instance.uuid, grace_s=0.0)
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE
