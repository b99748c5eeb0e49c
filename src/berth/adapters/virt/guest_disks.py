"""The size of a guest, and operations on all its disks."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from berth.adapters.virt import disks, nbd_export
from berth.adapters.virt.config_drive import CONFIG, config_drive_of
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.images import ImageFile
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError

ROOT = "root"
RESCUE = "rescue"
"""The disk from which a rescued guest boots; it never leaves the host."""
_DISKS = (ROOT, disks.EPHEMERAL, disks.SWAP, CONFIG)


class GuestSize(msgspec.Struct, frozen=True):
    """The size of a guest, as its driver records it."""

    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0

    @classmethod
    def of(cls, flavor: Flavor) -> "GuestSize":
        """Return the size that a flavor specifies, with at least 1 vCPU and 1 MiB of memory."""
        return cls(
            max(1, flavor.vcpus),
            max(1, flavor.memory_mb),
            flavor.root_gb,
            flavor.ephemeral_gb,
            flavor.swap_mb,
        )


async def make_disks(
    folder: GuestFolder, image: ImageFile, size: GuestSize, *, is_blank: bool
) -> tuple[str, ...]:
    """Create the disks of a new guest, and return their names.

    Args:
        folder: the guest's folder.
        image: the initial content of the root disk, if the image is a disk.
        size: the guest's size.
        is_blank: make the root disk empty, since a live migration will fill it.

    Raises:
        BuildError: the image is larger than the flavor's root disk.
        DriverError: qemu-img failed.
    """
    made: list[str] = []
    if is_blank:
        root_bytes = await disks.root_bytes(image, size.root_gb)
        has_root = await disks.make_blank(folder.disk(ROOT), root_bytes)
    else:
        has_root = await disks.make_root(folder.disk(ROOT), image, size.root_gb)
    if has_root:
        made.append(ROOT)
    for name, size_bytes in disks.rest_bytes(size.ephemeral_gb, size.swap_mb).items():
        await disks.make_blank(folder.disk(name), size_bytes)
        made.append(name)
    return tuple(made)


async def make_config_drive(
    folder: GuestFolder, instance: Instance, *, is_blank: bool
) -> tuple[str, ...]:
    """Create the config drive of a guest that has one, and return the names of the created disks.

    Args:
        folder: the guest's folder.
        instance: the guest's instance.
        is_blank: whether the drive stays empty, because a live migration will fill it.

    Raises:
        BuildError: the content is too large for a config drive.
        DriverError: qemu-img failed.
    """
    content = config_drive_of(instance)
    if content is None:
        return ()
    if is_blank:
        await disks.make_blank(folder.disk(CONFIG), len(content))
        return (CONFIG,)
    raw = folder.path / "config.iso"
    # The file may contain secrets of the guest, so only this user may read it.
    await asyncio.to_thread(_write_private, raw, content)
    try:
        await disks.copy(str(raw), folder.disk(CONFIG), source_format="raw")
    finally:
        raw.unlink(missing_ok=True)
    return (CONFIG,)


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


async def make_rescue_disk(folder: GuestFolder, image: ImageFile) -> bool:
    """Create the disk from which a rescued guest boots, as large as the image.

    It replaces the disk of an earlier rescue. Returns False, and creates no disk, if the image is
    not a disk image.

    Raises:
        DriverError: qemu-img failed.
    """
    remove_rescue_disk(folder)
    return image.is_disk and await disks.make_root(folder.disk(RESCUE), image, 0)


def remove_rescue_disk(folder: GuestFolder) -> None:
    """Delete the rescue disk of a guest, if it has one."""
    folder.disk(RESCUE).unlink(missing_ok=True)


def disks_at_start(disks: tuple[str, ...], rescue_image: str, image: ImageFile) -> tuple[str, ...]:
    """Return the names of a guest's disks in the order in which the guest sees them.

    Args:
        disks: the guest's own disks.
        rescue_image: the id of the rescue image; empty if the guest boots from its own disks.
        image: the image from which the guest boots; only a disk image has a rescue disk.
    """
    if not rescue_image or not image.is_disk:
        return disks
    return (*disks, RESCUE) if image.rescues_in_place else (RESCUE, *disks)


async def copy_disks(folder: GuestFolder, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Copy the disks of a guest from files or NBD addresses, and return their names.

    Raises:
        DriverError: guests have no disk of that name, a file is not a self-contained qcow2 disk, or
            qemu-img failed.
    """
    # Names and files may come from another host. An unknown name could be a path that leads out of
    # this folder.
    if strange := sorted(sources.keys() - set(_DISKS)):
        raise DriverError(f"cannot fetch {strange[0][:80]!r}, because guests have no such disk")
    for name, source in sources.items():
        # An NBD server shows the guest's view of a disk; a stored file is qcow2.
        is_nbd = urlsplit(source).scheme == nbd_export.SCHEME
        source_format = "raw" if is_nbd else "qcow2"
        if not is_nbd:
            await asyncio.to_thread(disks.check_alone, Path(source))
        await disks.copy(source, folder.disk(name), source_format=source_format)
    return tuple(name for name in _DISKS if name in sources)


async def fit_disks(
    folder: GuestFolder, names: tuple[str, ...], size: GuestSize
) -> tuple[str, ...]:
    """Resize the disks of a guest that is off, and return the names of its disks.

    Disks grow, and missing ones are created. Only swap, whose content need not be kept, shrinks or
    disappears.

    Raises:
        DriverError: qemu-img failed.
    """
    if ROOT in names and size.root_gb:
        await disks.grow(folder.disk(ROOT), disks.gigabytes(size.root_gb))
    wanted = disks.rest_bytes(size.ephemeral_gb, size.swap_mb)
    for name, size_bytes in wanted.items():
        await _fit(folder.disk(name), size_bytes, is_here=name in names, keeps=name != disks.SWAP)
    kept = [name for name in names if name != disks.SWAP or name in wanted]
    if disks.SWAP not in wanted:
        folder.disk(disks.SWAP).unlink(missing_ok=True)
    return tuple(name for name in _DISKS if name in kept or name in wanted)


async def _fit(path: Path, size_bytes: int, *, is_here: bool, keeps: bool) -> None:
    """Create a disk or enlarge the existing one.

    Unless `keeps` is set, a disk that is too large is replaced by an empty one of the right size.
    """
    if not is_here or (not keeps and size_bytes < await disks.virtual_bytes(str(path), "qcow2")):
        await disks.make_blank(path, size_bytes)
    else:
        await disks.grow(path, size_bytes)
