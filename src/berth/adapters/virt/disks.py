"""Operations with qemu-img on the disks of guests, which are qcow2 files."""

import asyncio
import os
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from berth.adapters.virt import processes
from berth.adapters.virt.guest_folder import os_errors_as_driver_errors
from berth.adapters.virt.images import ImageFile
from berth.adapters.virt.processes import run
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import DriverError

_PROGRAM = "qemu-img"
# A copy that makes no progress for this many seconds is given up, because its source has stopped
# answering. The whole copy has no time limit, because disks may be of any size.
_IDLE_S = 60.0
_END_S = 5.0
EPHEMERAL = "ephemeral"
SWAP = "swap"
# The header of a qcow2 file of version 3. The offset of the backing file's name follows the magic
# and the version; one bit of the incompatible features means an external data file.
_MAGIC: Final = b"QFI\xfb"
_VERSION: Final = 3
_HEADER_BYTES: Final = 104
_FEATURES_AT: Final = 72
_EXTERNAL_DATA: Final = 1 << 2
_BYTES_PER_GB = 1024**3
_BYTES_PER_MB = 1024**2


async def root_bytes(image: ImageFile, root_gb: int) -> int:
    """Return the size of a guest's root disk in bytes, or 0 when it has none.

    Raises:
        BuildError: the image is larger than the flavor's root disk.
        DriverError: qemu-img failed.
    """
    wanted = root_gb * _BYTES_PER_GB
    if not image.is_disk:
        return wanted
    if image.is_of_server:
        await asyncio.to_thread(check_alone, image.file)
    needed = await virtual_bytes(str(image.file), image.format)
    if wanted and wanted < needed:
        reason = (
            f"image {image.image_id!r} needs a root disk of {needed} bytes, but the flavor has "
            f"{root_gb} GiB; use a flavor with a larger root disk"
        )
        raise BuildError(reason, blames_host=False)
    return wanted or needed


async def make_root(path: Path, image: ImageFile, root_gb: int) -> bool:
    """Create the root disk of a guest; return False if the guest has none, and True otherwise.

    A disk image becomes the backing file of the root disk, and the image of a server is copied,
    because it may be deleted while the guest exists. For any other image, the root disk is
    empty, and a guest whose `root_gb` is 0 has none.

    Raises:
        BuildError: see `root_bytes`.
        DriverError: qemu-img failed.
    """
    size_bytes = await root_bytes(image, root_gb)
    if not image.is_disk:
        return await make_blank(path, size_bytes)
    if image.is_of_server:
        await copy(str(image.file), path)
        await grow(path, size_bytes)
        return True
    backing = ["-b", str(image.file.absolute()), "-F", image.format]
    await _write(path, "create", "-q", "-f", "qcow2", *backing, str(path), str(size_bytes))
    return True


async def make_blank(path: Path, size_bytes: int) -> bool:
    """Create an empty disk unless the size is 0; return whether it was created.

    Raises:
        DriverError: qemu-img failed.
    """
    if size_bytes:
        await _write(path, "create", "-q", "-f", "qcow2", str(path), str(size_bytes))
    return bool(size_bytes)


def gigabytes(size_gb: int) -> int:
    """Return a size in GiB as bytes."""
    return size_gb * _BYTES_PER_GB


def rest_bytes(ephemeral_gb: int, swap_mb: int) -> dict[str, int]:
    """Return the sizes in bytes of the ephemeral and swap disks, by name."""
    sizes = {EPHEMERAL: ephemeral_gb * _BYTES_PER_GB, SWAP: swap_mb * _BYTES_PER_MB}
    return {name: size for name, size in sizes.items() if size}


async def end_programs(folder: Path) -> None:
    """End the qemu-img processes that work on files in a folder, such as those of a dead agent.

    A process that a dead agent has forked, but that is not qemu-img yet, also ends.

    Raises:
        DriverError: a process does not end.
    """

    def of_folder(words: Sequence[str]) -> str | None:
        is_program = Path(words[0]).name == _PROGRAM
        return " ".join(words) if is_program and f"{folder}/" in " ".join(words) else None

    named = await asyncio.to_thread(processes.find, of_folder)
    holding = await asyncio.to_thread(processes.holding, folder)
    for process in dict.fromkeys([*named.values(), *holding]):
        process.kill()
        if not await process.wait(_END_S):
            raise DriverError(
                f"process {process.pid}, which writes to {folder}, is still running {_END_S:g} s "
                "after SIGKILL; it may be waiting for a disk that hangs"
            )


async def grow(path: Path, size_bytes: int) -> None:
    """Enlarge a disk to a size; a disk that already has that size or more stays unchanged.

    Raises:
        DriverError: qemu-img failed.
    """
    if size_bytes > await virtual_bytes(str(path), "qcow2"):
        await _write(path, "resize", "-q", "-f", "qcow2", str(path), str(size_bytes))


async def copy(source: str, target: Path, *, source_format: str = "qcow2") -> None:
    """Copy a disk including its backing file, from a file or an NBD address, to a new file.

    Raises:
        DriverError: qemu-img failed, or made no progress for 60 s.
    """
    words = ("-f", source_format, "-O", "qcow2", source, str(target))
    await _write(target, "convert", "-q", *words, idle_s=_IDLE_S)


async def _write(file: Path, *words: str, idle_s: float | None = None) -> None:
    """Run qemu-img on a file in such a way that `end_programs` finds it at any moment.

    Raises:
        DriverError: there is no folder for the file, or qemu-img failed.
    """
    with os_errors_as_driver_errors():
        fd = os.open(file.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        await run(_PROGRAM, *words, idle_s=idle_s, fds=[fd])
    finally:
        os.close(fd)


async def check_space(source: Path, folder: Path, reserved_bytes: int) -> None:
    """Check that a copy of a disk with its backing file fits into a folder.

    Args:
        source: a qcow2 file, which a running guest may use.
        folder: the folder of the copy.
        reserved_bytes: the space that must remain free there.

    Raises:
        DriverError: there is not enough space, or qemu-img failed.
    """
    words = ("-U", "--output=json", "-f", "qcow2", "-O", "qcow2", str(source))
    text = await run(_PROGRAM, "measure", *words)
    needed = msgspec.json.decode(text, type=dict[str, int])["required"]
    with os_errors_as_driver_errors():
        free = (await asyncio.to_thread(shutil.disk_usage, folder)).free
    if free - needed < reserved_bytes:
        raise DriverError(
            f"{folder} has {_mb(free)} MiB free, but a copy of the disk needs up to "
            f"{_mb(needed)} MiB, and {_mb(reserved_bytes)} MiB must remain free "
            "(virt.storage_reserved_gb); delete images or enlarge the storage"
        )


def _mb(size_bytes: int) -> int:
    return size_bytes // _BYTES_PER_MB


def check_alone(path: Path) -> None:
    """Check that a qcow2 file refers to no other file.

    A copy contains what the file refers to. A file that another host has written may refer to any
    file of this host, whose content the copy would disclose to a guest.

    Raises:
        DriverError: the file is a symbolic link, is not qcow2 of version 3, refers to another file,
            or cannot be read.
    """
    if path.is_symlink():
        raise DriverError(
            f"cannot copy {path}, because it is a symbolic link; inspect the host that made it"
        )
    # Only the header is read, because qemu-img would also open the files that it refers to.
    with os_errors_as_driver_errors(), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if header[:4] != _MAGIC or len(header) < _HEADER_BYTES:
        raise DriverError(f"cannot copy {path}, because it is not a qcow2 file of version 3")
    version, backing_at = struct.unpack_from(">IQ", header, 4)
    (incompatible,) = struct.unpack_from(">Q", header, _FEATURES_AT)
    if version < _VERSION or backing_at or incompatible & _EXTERNAL_DATA:
        raise DriverError(
            f"cannot copy {path}, because it refers to another file; inspect the host that wrote it"
        )


async def virtual_bytes(source: str, source_format: str) -> int:
    """Return the size of a disk in bytes, as a guest sees it.

    Raises:
        DriverError: qemu-img failed, or its output contains no size.
    """
    # A running guest may hold the lock on the disk, which -U ignores.
    text = await run(_PROGRAM, "info", "-U", "--output=json", "-f", source_format, source)
    found = msgspec.json.decode(text, type=dict[str, object]).get("virtual-size")
    if not isinstance(found, int):
        raise DriverError(
            f"qemu-img info reported no virtual size for {source}; check that it is a disk"
        )
    return found
