"""The writes that record steps which create or destroy guests: builds, shelves and deletes."""

from dataclasses import replace

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.instance import Instance, Status, Task, creation_of, has_creation
from berth.domain.compute.migration import Migration
from berth.domain.compute.request import Operation, Request, build_retry_id
from berth.domain.compute.step import StepResult
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import Claim
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Free, Put, Take, Unit
from berth.services.gateway.alternates import Alternate
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import continue_task, end_task
from berth.services.servers.teardown import begin_disk_deletion, delete_instance


async def build(context: StepContext, instance: Instance) -> StepWrites:
    """Record a build; retry a failed one on another host while attempts remain."""
    if context.has_failed:
        return await _failed(context, instance)
    built = fast_replace(
        instance,
        status=Status.ACTIVE,
        task=None,
        fault=None,
        launched_at_s=context.now_s,
        updated_at_s=context.now_s,
    )
    return StepWrites((Put(built),), has_failed=False)


async def _failed(context: StepContext, instance: Instance) -> StepWrites:
    """Return the writes that release the allocation and, if attempts remain, retry the build."""
    here = (instance.host or "", instance.node or "")
    retried = (*instance.retried, here)
    tried = "the requested host" if instance.forced else _count(len(retried))
    homeless = replace(
        instance,
        host=None,
        node=None,
        assignment=None,
        retried=retried,
        fault=context.fault(f"The build failed on {tried}.", instance.fault),
        updated_at_s=context.now_s,
    )
    units: list[Unit] = []
    freed, cause = Free(instance.uuid), context.cause or FailureCause.DRIVER
    if instance.forced or len(retried) >= context.attempts_max:
        units.append((freed, Put(replace(homeless, status=Status.ERROR, task=None))))
    else:
        request = _retry_of(homeless)
        # If the request itself is at fault (ADR 0021), it would also fail on the alternates, and
        # other instances may need their capacity.
        if context.alternates is not None and cause is not FailureCause.GUEST:
            found = await context.alternates.of(request, instance.assignment)
            units += [(freed, *_go_on(homeless, request, one)) for one in found]
        waiting = Put(replace(homeless, task=Task.SCHEDULING))
        units.append((freed, waiting, Add(PendingRequest(request, accepted_at_s=context.now_s))))
    # Every unit releases the failed host and takes the next step atomically, so that the instance
    # never holds two allocations, and is never without a task.
    return StepWrites(
        units[0], has_failed=context.blames_host, cause=cause, otherwise=tuple(units[1:])
    )


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
        request_id=build_retry_id(
            instance.request_id, instance.launch_index, len(instance.retried)
        ),
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
        name=instance.name,
        metadata=instance.metadata,
    )


async def rebuild(context: StepContext, instance: Instance) -> StepWrites:
    """Record a rebuild of the guest on its host.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    event, now_s = context.event("compute_rebuild_instance"), context.now_s
    if context.has_failed:
        text = "The instance could not be rebuilt."
        broken = end_task(
            instance,
            now_s,
            message=text,
            event=event,
            status=Status.ERROR,
            fault=context.fault(text),
        )
        return StepWrites(tuple(broken))
    status = Status.SHUTOFF if instance.status is Status.SHUTOFF else Status.ACTIVE
    first = await preserve_creation(context, instance)
    done = end_task(instance, now_s, event=event, status=status, fault=None, launched_at_s=now_s)
    return StepWrites((*first, *done))


async def shelve(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the guest is stopped and, if its disks are stored, their address."""
    name = "compute_shelve_instance"
    if context.has_failed:
        return _stays(context, instance, "The instance could not be shelved.", name)
    if context.outcome.result is StepResult.STORED:
        return _stored(context, instance, name)
    event = context.event(name)
    return StepWrites(
        tuple(end_task(instance, context.now_s, event=event, status=Status.SHELVED, fault=None))
    )


async def offload(context: StepContext, instance: Instance) -> StepWrites:
    """Record the address of a shelved guest's disks or, in the next step, that the guest is gone.

    The second step also releases the host.
    """
    name = "compute_shelve_offload_instance"
    if context.has_failed:
        text = "The shelved instance could not be offloaded from its host."
        return _stays(context, instance, text, name)
    if context.outcome.result is StepResult.STORED:
        return _stored(context, instance, name)
    done = end_task(
        instance,
        context.now_s,
        event=context.event(name),
        status=Status.SHELVED_OFFLOADED,
        host=None,
        node=None,
        assignment=None,
        fault=None,
    )
    return StepWrites((Free(instance.uuid), *done))


def _stored(context: StepContext, instance: Instance, name: str) -> StepWrites:
    """Return the writes that record the address of stored disks.

    The guest is destroyed only in the next step, `offload`, when the address is in the ledger: a
    crash in between must not lose the only copy.
    """
    step = continue_task(
        instance,
        context.now_s,
        event=context.event(name),
        status=Status.SHELVED,
        task=Task.SHELVING_OFFLOADING,
        disks=context.outcome.address,
    )
    return StepWrites(tuple(step))


async def unshelve(context: StepContext, instance: Instance) -> StepWrites:
    """Record that a shelved guest was started, or could not be.

    The agent deletes the stored disks in a step of its own, `drop_disks`, after the ledger has
    recorded that the guest runs.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    event, now_s = context.event("compute_unshelve_instance"), context.now_s
    if not context.has_failed:
        first = await preserve_creation(context, instance)
        done = end_task(
            instance, now_s, event=event, status=Status.ACTIVE, fault=None, launched_at_s=now_s
        )
        return StepWrites((*first, *done), has_failed=False)
    text = "The instance could not be started on the host chosen to unshelve it."
    fault = context.fault(text)
    if instance.status is Status.SHELVED:
        return StepWrites(tuple(end_task(instance, now_s, message=text, event=event, fault=fault)))
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
    cause = context.cause or FailureCause.DRIVER
    unit = (Free(instance.uuid), *homeless)
    return StepWrites(unit, has_failed=cause.blames_host or None, cause=cause)


async def drop_disks(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the stored disks of an active instance are deleted."""
    return StepWrites((Put(fast_replace(instance, disks=None, updated_at_s=context.now_s)),))


def _stays(context: StepContext, instance: Instance, text: str, name: str) -> StepWrites:
    """Return the writes that end a failed task, keep the status, and record the fault."""
    event, fault = context.event(name), context.fault(text)
    return StepWrites(
        tuple(end_task(instance, context.now_s, message=text, event=event, fault=fault))
    )


def destroy(context: StepContext, instance: Instance, migration: Migration | None) -> StepWrites:
    """Record that the guest of an instance that is being deleted is destroyed.

    Stored disks that the host could not delete are left to another agent.
    """
    if context.outcome.result is StepResult.DISKS_LEFT:
        return StepWrites(begin_disk_deletion(instance, context.now_s))
    return StepWrites(delete_instance(instance, migration, context.now_s))


async def preserve_creation(context: StepContext, instance: Instance) -> Unit:
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
