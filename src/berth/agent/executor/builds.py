"""Handlers for tasks that create or destroy guests: build, rebuild, shelve, unshelve, delete."""

from dataclasses import replace

from berth.agent.executor.alternates import Alternate
from berth.agent.executor.host_context import HostContext, TaskResult, cause_of
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance, Status, Task, creation_of, has_creation
from berth.domain.compute.migration import Migration
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import DriverError
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import Claim
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Free, Put, Take, Unit
from berth.ports.virt import DriverFeature
from berth.services.servers.moves import continue_task, end_task
from berth.services.servers.teardown import begin_disk_deletion, delete_instance


async def build(context: HostContext, instance: Instance) -> TaskResult:
    """Start a new guest; retry a failed build on another host while attempts remain."""
    try:
        await context.driver.spawn(instance)
    except BuildError as error:
        return await _failed(context, instance, error)
    now_s = context.clock.now_s()
    built = fast_replace(
        instance,
        status=Status.ACTIVE,
        task=None,
        fault=None,
        launched_at_s=now_s,
        updated_at_s=now_s,
    )
    return TaskResult((Put(built),), has_failed=False)


async def _failed(context: HostContext, instance: Instance, error: BuildError) -> TaskResult:
    """Return the result that releases the allocation and, if attempts remain, retries the build."""
    now_s = context.clock.now_s()
    here = (instance.host or "", instance.node or "")
    retried = (*instance.retried, here)
    tried = "the requested host" if instance.forced else _count(len(retried))
    homeless = replace(
        instance,
        host=None,
        node=None,
        assignment=None,
        retried=retried,
        fault=context.fault(f"The build failed on {tried}.", error, instance.fault),
        updated_at_s=now_s,
    )
    units: list[Unit] = []
    freed, cause = Free(instance.uuid), cause_of(error)
    if instance.forced or len(retried) >= context.attempts_max:
        units.append((freed, Put(replace(homeless, status=Status.ERROR, task=None))))
    else:
        request = _retry_of(homeless)
        # If the request itself is at fault (ADR 0021), it would fail on the alternates too, and
        # other instances may need their capacity.
        if context.alternates is not None and cause is not FailureCause.GUEST:
            found = await context.alternates.of(request, instance.assignment)
            units += [(freed, *_go_on(homeless, request, one)) for one in found]
        waiting = Put(replace(homeless, task=Task.SCHEDULING))
        units.append((freed, waiting, Add(PendingRequest(request, accepted_at_s=now_s))))
    # Every unit releases the failed host and takes the next step atomically, so that the instance
    # never holds two allocations, and is never without a task.
    counts = True if error.blames_host else None
    return TaskResult(units[0], has_failed=counts, cause=cause, otherwise=tuple(units[1:]))


def _go_on(homeless: Instance, request: Request, alternate: Alternate) -> Unit:
    """Return the unit that starts the next build on an alternate."""
    claim = Claim(request.request_id, (alternate.allocation,))
    place = alternate.placement
    placed = replace(homeless, host=place.host, node=place.node, task=Task.SPAWNING)
    return (Take(claim), Put(placed), *alternate.guards)


def _count(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"


def _retry_of(instance: Instance) -> Request:
    """Return the request that places an instance again, excluding the hosts where it failed."""
    return Request(
        request_id=f"{instance.request_id}.{instance.launch_index}.{len(instance.retried)}",
        instance_uuids=(instance.uuid,),
        flavor=instance.flavor,
        project_id=instance.project_id,
        user_id=instance.user_id,
        image=instance.image,
        availability_zone=instance.requested_zone,
        hints=instance.hints,
        group_uuid=instance.group_uuid,
        retried=instance.retried,
        alternates=tuple(one for one in instance.alternates if one not in instance.retried),
        operation=Operation.RETRY,
    )


async def rebuild(context: HostContext, instance: Instance) -> TaskResult:
    """Rebuild the guest on its host from the instance's image."""
    began_s, name = context.clock.now_s(), "compute_rebuild_instance"
    try:
        await context.driver.destroy(instance.uuid)
        await context.driver.spawn(instance)
        if instance.status is Status.SHUTOFF:
            await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except (BuildError, DriverError) as error:
        text = "The instance could not be rebuilt."
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        broken = end_task(
            instance,
            now_s,
            message=text,
            event=event,
            status=Status.ERROR,
            fault=context.fault(text, error),
        )
        return TaskResult(tuple(broken))
    now_s = context.clock.now_s()
    status = Status.SHUTOFF if instance.status is Status.SHUTOFF else Status.ACTIVE
    event = context.event(name, began_s)
    first = await preserve_creation(context, instance)
    done = end_task(instance, now_s, event=event, status=status, fault=None, launched_at_s=now_s)
    return TaskResult((*first, *done))


async def shelve(context: HostContext, instance: Instance) -> TaskResult:
    """Stop the guest and, if shelved instances are offloaded, store its disks."""
    began_s, name = context.clock.now_s(), "compute_shelve_instance"
    try:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
    except DriverError as error:
        return _stays(context, instance, "The instance could not be shelved.", name, began_s, error)
    if context.offloads:
        try:
            return await _stored(context, instance, name, began_s)
        except DriverError:
            pass  # the instance is shelved nevertheless, and stays on its host
    event, now_s = context.event(name, began_s), context.clock.now_s()
    return TaskResult(
        tuple(end_task(instance, now_s, event=event, status=Status.SHELVED, fault=None))
    )


async def offload(context: HostContext, instance: Instance) -> TaskResult:
    """Store the disks of a shelved guest or, once the ledger has their address, destroy the guest.

    The second step also releases the host.
    """
    began_s, name = context.clock.now_s(), "compute_shelve_offload_instance"
    try:
        if instance.disks is None:
            return await _stored(context, instance, name, began_s)
        if any(guest.instance_uuid == instance.uuid for guest in await context.driver.guests()):
            # The guest may have written to its disks since they were stored. Unchanged disks are
            # not copied again.
            await context.driver.store_disks(instance.uuid)
        await context.driver.destroy(instance.uuid)
    except DriverError as error:
        text = "The shelved instance could not be offloaded from its host."
        return _stays(context, instance, text, name, began_s, error)
    event, now_s = context.event(name, began_s), context.clock.now_s()
    done = end_task(
        instance,
        now_s,
        event=event,
        status=Status.SHELVED_OFFLOADED,
        host=None,
        node=None,
        assignment=None,
        fault=None,
    )
    return TaskResult((Free(instance.uuid), *done))


async def _stored(
    context: HostContext, instance: Instance, name: str, began_s: float
) -> TaskResult:
    """Store the disks and record their address.

    The guest is destroyed only in the next step, `offload`, when the address is in the ledger: a
    crash in between must not lose the only copy.
    """
    disks = await context.driver.store_disks(instance.uuid)
    event, now_s = context.event(name, began_s), context.clock.now_s()
    task = Task.SHELVING_OFFLOADING
    step = continue_task(
        instance, now_s, event=event, status=Status.SHELVED, task=task, disks=disks
    )
    return TaskResult(tuple(step), stored=disks)


async def unshelve(context: HostContext, instance: Instance) -> TaskResult:
    """Start a shelved guest, from its stored disks if any.

    `drop_disks` deletes the stored disks after the ledger has recorded that the guest runs.
    """
    began_s, name = context.clock.now_s(), "compute_unshelve_instance"
    try:
        if instance.disks is not None:
            await context.driver.fetch_disks(instance, instance.disks)
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        text = "The instance could not be started on the host chosen to unshelve it."
        event, now_s = context.event(name, began_s, error), context.clock.now_s()
        fault = context.fault(text, error)
        if instance.status is Status.SHELVED:
            return TaskResult(
                tuple(end_task(instance, now_s, message=text, event=event, fault=fault))
            )
        # The guest is destroyed before the unit is committed: afterwards the instance is on no
        # host, and no agent would look for the half-built guest until the next reconciliation.
        await context.driver.destroy(instance.uuid)
        homeless = end_task(
            instance,
            now_s,
            message=text,
            event=event,
            fault=fault,
            host=None,
            node=None,
            assignment=None,
        )
        cause = cause_of(error) or FailureCause.DRIVER
        unit = (Free(instance.uuid), *homeless)
        return TaskResult(unit, has_failed=cause.blames_host or None, cause=cause)
    event, now_s = context.event(name, began_s), context.clock.now_s()
    first = await preserve_creation(context, instance)
    done = end_task(
        instance, now_s, event=event, status=Status.ACTIVE, fault=None, launched_at_s=now_s
    )
    return TaskResult((*first, *done), has_failed=False)


def has_disks_to_drop(instance: Instance) -> bool:
    """Return whether an instance is active and still has stored disks."""
    is_active = instance.status is Status.ACTIVE and instance.task is None
    return is_active and instance.disks is not None


async def drop_disks(context: HostContext, instance: Instance) -> TaskResult | None:
    """Delete the stored disks of an active instance, whose guest has its own copy.

    Returns:
        The result, or None when there are no stored disks or the driver lacks the feature DISKS.

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
    return TaskResult(
        (Put(fast_replace(instance, disks=None, updated_at_s=context.clock.now_s())),)
    )


def _stays(
    context: HostContext, instance: Instance, text: str, name: str, began_s: float, error: Exception
) -> TaskResult:
    """Return the result that ends a failed task, keeps the status, and records the fault."""
    event, now_s = context.event(name, began_s, error), context.clock.now_s()
    fault = context.fault(text, error)
    return TaskResult(tuple(end_task(instance, now_s, message=text, event=event, fault=fault)))


async def destroy(
    context: HostContext, instance: Instance, migration: Migration | None
) -> TaskResult:
    """Destroy the guest and the stored disks of an instance that is being deleted.

    An instance on no host has only stored disks, so any agent whose driver can delete disks does
    this. An agent whose driver cannot do so leaves the disks to another agent.
    """
    await context.driver.destroy(instance.uuid)
    now_s = context.clock.now_s()
    if instance.disks is not None:
        if DriverFeature.DISKS not in context.driver.verbs:
            return TaskResult(begin_disk_deletion(instance, now_s))
        await context.driver.drop_stored(instance.disks)
    return TaskResult(delete_instance(instance, migration, now_s))


async def preserve_creation(context: HostContext, instance: Instance) -> Unit:
    """Return the unit that stores an instance's creation as an action; empty if none is needed.

    The history derives the creation from the instance's own record, including the time of its first
    launch. The creation must become a stored action before a second launch overwrites that time.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    if instance.launched_at_s is None:
        return ()
    if has_creation(instance, await context.ledger.actions(instance.uuid)):
        return ()
    return (Put(creation_of(instance)),)
