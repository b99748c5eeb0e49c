"""Deletion of leftovers: files and stored disks on a host that belong to no guest there."""

from typing import Final, NamedTuple

from berth.agent.executor.host_context import HostContext
from berth.domain.compute.step import LeftoverUse
from berth.ports.virt import IMAGE_ADDRESS, OrphanFiles

FILES: Final = "orphan_files"
DISKS: Final = "orphan_disks"


class HostFinding(NamedTuple):
    """A difference between a host and the ledger, and whether it was repaired."""

    code: str
    text: str
    is_repaired: bool = True


async def clear_leftover(context: HostContext, leftover: OrphanFiles) -> HostFinding | None:
    """Delete a leftover that is no longer needed, or report one whose use is unclear.

    The caller must run nothing else for the instance meanwhile.

    Returns:
        The finding, or None when the leftover may be needed, or has changed meanwhile.

    Raises:
        DriverError: the leftover could not be deleted.
        UnavailableError: the control plane cannot be reached.
    """
    uuid, address = leftover.instance_uuid, leftover.address
    is_image = address.startswith(IMAGE_ADDRESS)
    # A shared folder may contain the images of the whole cloud, so only this one is read again.
    if leftover not in await context.driver.leftovers(address if is_image else ""):
        return None  # it has been changed or deleted since the comparison
    # The control plane is asked only after the files have been listed. A host begins to store disks
    # only when the task is in the ledger, so the verdict covers every store that has begun.
    verdict = await context.gateway.judge_leftover(context.host, uuid, address=address)
    if verdict.use is LeftoverUse.NEEDED:
        return None
    what = _written("an image" if is_image else "the disks" if address else "files", leftover)
    if verdict.use is LeftoverUse.UNCLEAR:
        where = f"are stored at {address}" if address else "are on this host"
        text = f"{what} {where}, but {verdict.reason}"
        return HostFinding(DISKS if address else FILES, text, is_repaired=False)
    if address:
        await context.driver.drop_stored(address)
        if is_image:
            await context.gateway.report_image_cleared(context.host, uuid)
            text = f"{what} was stored but {verdict.reason}; it was deleted"
            return HostFinding(DISKS, text)
        return HostFinding(DISKS, f"{what} were stored but {verdict.reason}; they were deleted")
    await context.driver.destroy(uuid)
    return HostFinding(FILES, f"{what} were on this host, but {verdict.reason}; they were deleted")


def _written(what: str, leftover: OrphanFiles) -> str:
    size_mb = leftover.size_bytes // 1024**2
    if leftover.address.startswith(IMAGE_ADDRESS):
        return f"{what} with the id {leftover.instance_uuid} ({size_mb:,} MiB)"
    return f"{what} of instance {leftover.instance_uuid} ({size_mb:,} MiB)"
