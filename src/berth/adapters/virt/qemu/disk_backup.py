"""Copies of disks of guests whose QEMU process runs, as of the moment when the copy begins."""

from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from berth.adapters.virt import disks
from berth.adapters.virt.qemu.machine import Machine
from berth.domain.errors import DriverError
from berth.ports.clock import Clock

_JOB: Final = "image"
_NODE: Final = "image"
_POLL_S: Final = 0.02
_END_LOOKS: Final = 50


async def back_up_disk(machine: Machine, name: str, target: Path, clock: Clock) -> None:
    """Copy a disk with its backing file to a new qcow2 file while the guest runs.

    QEMU saves each cluster that the guest overwrites before its turn has come, so the copy has the
    content of one moment. When the call is cancelled or fails, QEMU has closed the file.

    Args:
        machine: a guest with a process.
        name: the name of the disk.
        target: the file, which must not exist.
        clock: provides the time between two queries.

    Raises:
        DriverError: the copy failed, or QEMU does not answer.
    """
    await _end(machine, clock)  # an agent that died may have left a job
    size_bytes = await disks.virtual_bytes(str(machine.folder.disk(name)), "qcow2")
    await disks.make_blank(target, size_bytes)
    file = {"driver": "file", "filename": str(target)}
    try:
        opened = {"driver": "qcow2", "node-name": _NODE, "file": file}
        await machine.execute("blockdev-add", opened)
        # A job without this would vanish at its end, whether it has succeeded or failed. With it,
        # only a successful one waits in the status "pending".
        job = {"job-id": _JOB, "device": name, "target": _NODE, "sync": "full"}
        await machine.execute("blockdev-backup", {**job, "auto-finalize": False})
        while (status := await _status(machine)) != "pending":
            if not status:
                reason = f"QEMU could not copy the disk {name} of guest {machine.spec.uuid}"
                raise DriverError(f"{reason} to {target}; check the free space there")
            await clock.sleep(_POLL_S)
        await machine.execute("job-finalize", {"id": _JOB})
    finally:
        await _end(machine, clock)


async def end_earlier_backup(machine: Machine, clock: Clock) -> bool:
    """Cancel the copy that an agent which has died has left in a running guest.

    Without this, QEMU would go on writing to the file of an image that may have been deleted.

    Returns:
        Whether there is no copy any more; False if QEMU takes more than a second to end it.

    Raises:
        QmpError: QEMU does not answer.
    """
    for _ in range(_END_LOOKS):
        if not await _cancelled(machine):
            return True
        await clock.sleep(_POLL_S)
    return False


async def _end(machine: Machine, clock: Clock) -> None:
    """Cancel the job unless it is complete, wait for its end, and close the file."""
    while await _cancelled(machine):
        await clock.sleep(_POLL_S)


async def _cancelled(machine: Machine) -> bool:
    """Cancel the job if there is one, else close the file; return whether there still was a job."""
    status = await _status(machine)
    if status and status != "concluded":
        with suppress(DriverError):  # the job may end by itself at this moment
            await machine.execute("job-cancel", {"id": _JOB})
    if not status:
        with suppress(DriverError):  # the file may never have been opened
            await machine.execute("blockdev-del", {"node-name": _NODE})
    return bool(status)


async def _status(machine: Machine) -> str:
    """Return the status of the job, or an empty string if there is none."""
    jobs = cast("list[dict[str, str]]", await machine.execute("query-jobs"))
    return next((job["status"] for job in jobs if job["id"] == _JOB), "")
