"""Copies of disks of running guests, as of the moment when the copy begins."""

import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Final

from berth.adapters.virt.guest_disks import ROOT
from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.binding import Domain
from berth.adapters.virt.libvirt.connection import LibvirtConnection
from berth.adapters.virt.libvirt.guest_registry import has_job
from berth.adapters.virt.libvirt.migration import abort_job
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.domain.errors import DriverError
from berth.ports.clock import Clock

_POLL_S: Final = 0.05


async def back_up_disk(
    connection: LibvirtConnection, clock: Clock, known: GuestRecord, target: Path
) -> None:
    """Copy the root disk with its backing file to a new qcow2 file while the guest runs.

    The copy has the content of one moment, as in the QEMU driver. When the call is cancelled or
    fails, QEMU has closed the file.

    Args:
        connection: calls libvirtd.
        clock: provides the time between two queries.
        known: a running or paused guest.
        target: the file, which must not exist, and which QEMU's user must be able to create.

    Raises:
        DriverError: the copy failed, or libvirtd does not answer.
    """
    uuid = known.uuid
    await _end(connection, clock, uuid)  # an agent that died may have left a job
    xml = _backup_xml(f"vd{'abcdefgh'[known.disks.index(ROOT)]}", target)
    try:
        await connection.on(uuid, lambda domain: domain.backupBegin(xml, None, 0))
        while await connection.on(uuid, has_job):
            await clock.sleep(_POLL_S)
        has_succeeded = await connection.on(uuid, _has_succeeded)
    except BaseException:
        with suppress(DriverError):
            await _end(connection, clock, uuid)
        raise
    if not has_succeeded:
        reason = f"libvirt could not copy the root disk of guest {uuid} to {target}"
        raise DriverError(f"{reason}; check the free space there")


async def _end(connection: LibvirtConnection, clock: Clock, uuid: str) -> None:
    """Abort the job of a guest, and wait for its end."""
    while await abort_job(connection, uuid):
        await clock.sleep(_POLL_S)


def _has_succeeded(domain: Domain) -> bool:
    # libvirt reports `success` for backups only.
    return domain.jobStats(binding.JOB_COMPLETED).get("success") is True


def _backup_xml(device: str, target: Path) -> str:
    """Return the description of a backup of one disk to a file; libvirt omits all other disks."""
    backup = ET.Element("domainbackup", {"mode": "push"})
    disks = ET.SubElement(backup, "disks")
    disk = ET.SubElement(disks, "disk", {"name": device, "backup": "yes", "type": "file"})
    ET.SubElement(disk, "driver", {"type": "qcow2"})
    ET.SubElement(disk, "target", {"file": str(target)})
    return ET.tostring(backup, encoding="unicode")
