"""Steps of cold moves: resize, cold migration and evacuation. See docs/adr/0018-moves.md."""

from contextlib import suppress

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.turns import ends_off, is_in_place, placed_at
from berth.domain.errors import DriverError


async def leave_source(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Stop the guest at the source and, unless it stays on its host, export its disks."""
    address = ""
    try:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        if not is_in_place(migration):
            address = await context.driver.offer_disks(instance.uuid)
    except DriverError as error:
        return failed(error)
    return StepEnd(address=address)


async def build_at_destination(
    context: HostContext, instance: Instance, migration: Migration
) -> StepEnd:
    """Create the guest from the disks that the source exports, or resize it in place."""
    moved = placed_at(instance, migration.destination)
    try:
        if not is_in_place(migration):
            await context.driver.fetch_disks(moved, migration.address)
        await context.driver.resize(moved)
        if migration.was is Status.ACTIVE:
            await context.driver.spawn(moved)
    except (BuildError, DriverError) as error:
        # In a resize in place this is also the source's guest, so it must not be destroyed.
        if not is_in_place(migration):
            await context.driver.destroy(instance.uuid)
        return failed(error)
    return DONE


async def evacuate(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Rebuild the guest at the destination of an evacuation, since its source is down."""
    try:
        await context.driver.spawn(placed_at(instance, migration.destination))
        if ends_off(migration):
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except (BuildError, DriverError) as error:
        await context.driver.destroy(instance.uuid)
        return failed(error)
    return DONE


async def confirm(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Destroy the guest at the source, unless it was resized in place."""
    if not is_in_place(migration):
        await context.driver.destroy(instance.uuid)
    return DONE


async def revert(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Destroy the guest at the destination, or stop it if it was resized in place.

    This is the first step of a reverted resize; `restore` then starts the guest at the source.
    """
    try:
        if is_in_place(migration):
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        else:
            await context.driver.destroy(instance.uuid)
    except DriverError as error:
        return failed(error)
    return DONE


async def restore(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Start the guest at the source again, if it ran before a move that failed or was reverted."""
    try:
        if is_in_place(migration):
            await context.driver.resize(instance)
        if migration.was is Status.ACTIVE:
            await context.driver.spawn(instance)
        else:
            await _take_back_disks(context, instance)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE


async def _take_back_disks(context: HostContext, instance: Instance) -> None:
    """End the export of the disks of a guest that stays off, ignoring errors."""
    # The next start of the guest also ends the export, so until then a failure here only leaves
    # the exporting process running.
    with suppress(DriverError):
        await context.driver.stop(instance.uuid, grace_s=0.0)
