"""Steps that create or destroy guests: build, rebuild, shelve, unshelve, delete."""

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.step import StepResult
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature


async def build(context: HostContext, instance: Instance) -> StepEnd:
    """Start a new guest."""
    try:
        await context.driver.spawn(instance)
    except BuildError as error:
        return failed(error)
    return DONE


async def rebuild(context: HostContext, instance: Instance) -> StepEnd:
    """Rebuild the guest on its host from the instance's image."""
    try:
        await context.driver.destroy(instance.uuid)
        await context.driver.spawn(instance)
        if instance.status is Status.SHUTOFF:
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE


async def shelve(context: HostContext, instance: Instance) -> StepEnd:
    """Stop the guest and, if shelved instances are offloaded, store its disks."""
    try:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except DriverError as error:
        return failed(error)
    if not context.offloads:
        return DONE
    try:
        return await _store(context, instance)
    except DriverError:
        return DONE  # the instance is shelved nevertheless, and stays on its host


async def offload(context: HostContext, instance: Instance) -> StepEnd:
    """Store the disks of a shelved guest or, once the ledger has their address, destroy the guest.

    A crash between the two steps must not lose the only copy of the disks.
    """
    try:
        if instance.disks is None:
            return await _store(context, instance)
        if any(guest.instance_uuid == instance.uuid for guest in await context.driver.guests()):
            # The guest may have written to its disks since they were stored. Unchanged disks are
            # not copied again.
            await context.driver.store_disks(instance.uuid)
        await context.driver.destroy(instance.uuid)
    except DriverError as error:
        return failed(error)
    return DONE


async def _store(context: HostContext, instance: Instance) -> StepEnd:
    return StepEnd(StepResult.STORED, await context.driver.store_disks(instance.uuid))


async def unshelve(context: HostContext, instance: Instance) -> StepEnd:
    """Start a shelved guest, from its stored disks if any.

    `drop_disks` deletes the stored disks after the ledger has recorded that the guest runs.
    """
    try:
        if instance.disks is not None:
            await context.driver.fetch_disks(instance, instance.disks)
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        # The guest is destroyed before the failure is reported: afterwards the instance is on no
        # host, and no agent would look for the half-built guest until the next reconciliation.
        if instance.status is not Status.SHELVED:
            await context.driver.destroy(instance.uuid)
        return failed(error)
    return DONE


async def drop_disks(context: HostContext, instance: Instance) -> StepEnd | None:
    """Delete the stored disks of an active instance, whose guest has its own copy.

    Returns:
        The end, or None when there are no stored disks or the driver cannot delete them.

    Raises:
        DriverError: the guest could not be started, or the disks could not be deleted.
    """
    if instance.disks is None or DriverFeature.DISKS not in context.driver.verbs:
        return None
    try:
        await context.driver.fetch_disks(instance, instance.disks)
        await context.driver.spawn(instance)
    except BuildError as error:
        # This is not a failed build: the instance is active, and the step is repeated.
        raise DriverError(str(error)) from error
    await context.driver.drop_stored(instance.disks)
    return DONE


async def destroy(context: HostContext, instance: Instance) -> StepEnd:
    """Destroy the guest and the stored disks of an instance that is being deleted.

    An instance on no host has only stored disks, so any agent whose driver can delete disks does
    this. An agent whose driver cannot do so leaves the disks to another agent.
    """
    await context.driver.destroy(instance.uuid)
    if instance.disks is not None:
        if DriverFeature.DISKS not in context.driver.verbs:
            return StepEnd(StepResult.DISKS_LEFT)
        await context.driver.drop_stored(instance.disks)
    return DONE
