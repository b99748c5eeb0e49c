"""The disks that a guest has: which ones, and in which order it sees them."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from berth.adapters.virt import disks, nbd_export
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.images import ImageFile
from berth.domain.compute.flavor import Flavor

ROOT = "root"
_DISKS = (ROOT, disks.EPHEMERAL, disks.SWAP)


class GuestSize(msgspec.Struct, frozen=True):
    """How large a guest is."""

    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0

    @classmethod
    def of(cls, flavor: Flavor) -> "GuestSize":
        """Return the size that a flavor asks for."""
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
    """Make the disks of a new guest, and return their names.

    Args:
        folder: of the guest.
        image: what the root disk begins as, if it is a disk.
        size: how large they are.
        is_blank: what they hold is yet to come, so the root disk is as large and empty.

    Raises:
        BuildError: the image is larger than the disk that the flavor asks for.
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


async def copy_disks(folder: GuestFolder, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Copy the disks of a guest from elsewhere, by name, and return their names.

    Raises:
        DriverError: qemu-img failed.
    """
    for name, source in sources.items():
        is_nbd = urlsplit(source).scheme == nbd_export.SCHEME
        source_format = "raw" if is_nbd else "qcow2"
        await disks.copy(source, folder.disk(name), source_format=source_format)
    return tuple(name for name in _DISKS if name in sources)


async def fit_disks(
    folder: GuestFolder, names: tuple[str, ...], size: GuestSize
) -> tuple[str, ...]:
    """Give a guest that is off the disks of its size, and return their names.

    They grow, and those that are missing are made. Swap, on which nothing is worth keeping, is
    made smaller or taken away, too; no other disk is.

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
    """Make a disk of a size, or make the one that is here as large; `keeps` what is on it."""
    if not is_here or (not keeps and size_bytes < await disks.virtual_bytes(str(path), "qcow2")):
        await disks.make_blank(path, size_bytes)
    else:
        await disks.grow(path, size_bytes)
