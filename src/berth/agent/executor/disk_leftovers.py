"""Cleanup of leftovers: files and stored disks on a host that belong to no guest there.

A leftover is deleted when the ledger shows that it is not needed. Files are not needed if the
instance was deleted, or is not on this host and has neither a task nor a move that involves this
host. Stored disks are not needed if the instance was deleted, or has neither an address of stored
disks nor a task that stores or fetches them.

Leftovers of an unknown instance, and files of an instance on this very host, are left to the
operator, since they may be the only copy.
"""

from typing import Final, NamedTuple

from berth.agent.executor.host_context import HostContext
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration
from berth.ports.virt import OrphanFiles

LEFTOVER_AGE_S: Final = 600.0
"""Files are ignored if they or their instance changed within this many seconds.

A task may be working on them.
"""

FILES: Final = "orphan_files"
DISKS: Final = "orphan_disks"

_STORING: Final = frozenset({Task.SHELVING, Task.SHELVING_OFFLOADING, Task.UNSHELVING})


class HostFinding(NamedTuple):
    """A difference between a host and the ledger, and whether it was repaired."""

    code: str
    text: str
    is_repaired: bool = True


async def clear_leftover(context: HostContext, leftover: OrphanFiles) -> HostFinding | None:
    """Delete a leftover that is certainly no longer needed, or report one for the operator.

    The caller must run nothing else for the instance meanwhile.

    Returns:
        The finding, or None when the leftover may be needed, or has changed meanwhile.

    Raises:
        DriverError: the leftover could not be deleted.
        UnavailableError: the ledger cannot be reached.
    """
    if not any(one == leftover for one in await context.driver.leftovers()):
        return None  # it has been changed or deleted since the comparison
    # The ledger is read after the files: a host begins to store disks only when the task is in the
    # ledger, so a store that has begun is seen here.
    instance = await context.ledger.get(Instance, leftover.instance_uuid)
    now_s = context.clock.now_s()
    if instance is not None and now_s - instance.updated_at_s <= LEFTOVER_AGE_S:
        return None
    if leftover.address:
        return await _clear_stored(context, leftover, instance)
    return await _clear_files(context, leftover, instance)


async def _clear_stored(
    context: HostContext, leftover: OrphanFiles, instance: Instance | None
) -> HostFinding | None:
    what = _written("the disks", leftover)
    if instance is None:
        text = f"{what} are stored at {leftover.address}, but the instance is unknown; inspect them"
        return HostFinding(DISKS, text, is_repaired=False)
    is_wanted = instance.disks is not None or instance.task in _STORING
    if is_wanted and instance.status is not Status.DELETED:
        return None
    await context.driver.drop_stored(leftover.address)
    return HostFinding(DISKS, f"{what} were stored but no longer needed; they were deleted")


async def _clear_files(
    context: HostContext, leftover: OrphanFiles, instance: Instance | None
) -> HostFinding | None:
    what = _written("files", leftover)
    if instance is None:
        text = f"{what} are on this host, but the instance is unknown; inspect them"
        return HostFinding(FILES, text, is_repaired=False)
    if instance.status is not Status.DELETED:
        if instance.host == context.host:
            text = f"{what} are on this host, but the driver's record of the guest is lost"
            return HostFinding(FILES, text, is_repaired=False)
        move = instance.migration_uuid
        migration = None if move is None else await context.ledger.get(Migration, move)
        if instance.task is not None or (migration and migration.concerns(context.host)):
            return None
    await context.driver.destroy(instance.uuid)
    where = "deleted" if instance.status is Status.DELETED else f"on {instance.host or 'no host'}"
    return HostFinding(
        FILES, f"{what} were on this host, but the instance is {where}; they were deleted"
    )


def _written(what: str, leftover: OrphanFiles) -> str:
    size_mb = leftover.size_bytes // 1024**2
    return f"{what} of instance {leftover.instance_uuid} ({size_mb:,} MiB)"
