"""Disks of guests, as qcow2 files that qemu-img makes."""

from pathlib import Path

import msgspec

from berth.adapters.virt.images import ImageFile
from berth.adapters.virt.processes import run
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import DriverError

_PROGRAM = "qemu-img"
_IDLE_S = 60.0
"""A copy that does nothing for so long has lost whoever offers the disk."""
EPHEMERAL = "ephemeral"
SWAP = "swap"
_BYTES_PER_GB = 1024**3
_BYTES_PER_MB = 1024**2


async def root_bytes(image: ImageFile, root_gb: int) -> int:
    """Return how large the root disk of a guest is; 0 when it has none.

    Raises:
        BuildError: the image is larger than the disk that the flavor asks for.
        DriverError: qemu-img failed.
    """
    wanted = root_gb * _BYTES_PER_GB
    if not image.is_disk:
        return wanted
    needed = await virtual_bytes(str(image.file), image.format)
    if wanted and wanted < needed:
        reason = f"image {image.image_id!r} needs {needed} bytes, the flavor has {root_gb} GiB"
        raise BuildError(reason, blames_host=False)
    return wanted or needed


async def make_root(path: Path, image: ImageFile, root_gb: int) -> bool:
    """Make the root disk, on top of the image's file, and tell whether there is one.

    Raises:
        BuildError: see `root_bytes`.
        DriverError: qemu-img failed.
    """
    size_bytes = await root_bytes(image, root_gb)
    if not image.is_disk:
        return await make_blank(path, size_bytes)
    backing = ["-b", str(image.file.absolute()), "-F", image.format]
    await run(_PROGRAM, "create", "-q", "-f", "qcow2", *backing, str(path), str(size_bytes))
    return True


async def make_blank(path: Path, size_bytes: int) -> bool:
    """Make an empty disk and tell whether there is one: not with a size of 0."""
    if size_bytes:
        await run(_PROGRAM, "create", "-q", "-f", "qcow2", str(path), str(size_bytes))
    return bool(size_bytes)


def gigabytes(size_gb: int) -> int:
    """Return a size of so many GiB in bytes."""
    return size_gb * _BYTES_PER_GB


def rest_bytes(ephemeral_gb: int, swap_mb: int) -> dict[str, int]:
    """Return the sizes of the disks beside the root disk, by name."""
    sizes = {EPHEMERAL: ephemeral_gb * _BYTES_PER_GB, SWAP: swap_mb * _BYTES_PER_MB}
    return {name: size for name, size in sizes.items() if size}


async def grow(path: Path, size_bytes: int) -> None:
    """Make a disk larger; one that is as large already stays as it is."""
    if size_bytes > await virtual_bytes(str(path), "qcow2"):
        await run(_PROGRAM, "resize", "-q", "-f", "qcow2", str(path), str(size_bytes))


async def copy(source: str, target: Path, *, source_format: str = "qcow2") -> None:
    """Copy a disk, with what it rests on, from a file or an NBD address into a new file."""
    words = ("-f", source_format, "-O", "qcow2", source, str(target))
    await run(_PROGRAM, "convert", "-q", *words, idle_s=_IDLE_S)


async def virtual_bytes(source: str, source_format: str) -> int:
    """Return how large a guest finds a disk."""
    text = await run(_PROGRAM, "info", "-U", "--output=json", "-f", source_format, source)
    found = msgspec.json.decode(text, type=dict[str, object])["virtual-size"]
    if not isinstance(found, int):
        raise DriverError(f"qemu-img does not say how large {source} is")
    return found
