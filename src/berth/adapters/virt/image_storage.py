"""Images of servers, in the folder that all hosts share."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from berth.adapters.virt import disks
from berth.adapters.virt.contained_paths import contained_path
from berth.adapters.virt.guest_folder import leftover_of, os_errors_as_driver_errors
from berth.adapters.virt.images import ImageFile, ImageFormat, Images
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import DriverError
from berth.domain.uuids import is_uuid, named_uuid
from berth.ports.virt import IMAGE_ADDRESS, OrphanFiles

_FOLDER: Final = "images"
_DISK: Final = "root.qcow2"
_NEW: Final = ".new"
# The name of the host that has made the image.
_HOST: Final = "host"
# The id of the configured image with the kernel or the firmware that the disk needs.
_BOOTS_WITH: Final = "boots-with"
_TEXT_MAX: Final = 255
# The images of other hosts that a host names as possible leftovers in one pass. Each is a question
# to the control plane, and every host asks about its own images anyway.
_OTHERS_MAX: Final = 4


class ServerImages(Mapping[str, ImageFile]):
    """All images that a host can boot: those of its configuration, and those in the shared folder.

    Each image of a server is a folder with the disk and two small texts. A folder has another name
    until it is complete, so a disk that is found is always whole.

    Args:
        folder: the shared folder, or None if the host has none.
        host: the host's name.
        configured: the images of the host's configuration, which take precedence.
        reserved_gb: the space in GiB that must remain free in the folder when an image is stored.
    """

    def __init__(
        self, folder: Path | None, host: str, configured: Images, reserved_gb: int = 0
    ) -> None:
        # QEMU runs in another folder, so its paths must be absolute.
        self._folder = None if folder is None else folder.absolute()
        self._host = host
        self._configured = configured
        self._reserved_bytes = disks.gigabytes(reserved_gb)
        # The name of the last image of another host that was named as a possible leftover.
        self._last = ""

    def __getitem__(self, image_id: str) -> ImageFile:
        if (known := self._configured.get(image_id)) is not None:
            return known
        found = None
        if self._folder is not None and is_uuid(image_id):
            with suppress(DriverError, OSError):
                found = self._read(image_id, self._of(image_id))
        if found is None:
            raise KeyError(image_id)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._configured)

    def __len__(self) -> int:
        return len(self._configured)

    def _read(self, image_id: str, path: Path) -> ImageFile | None:
        disk = path / _DISK
        if disk.is_symlink() or not disk.is_file():
            return None
        boots_with = _text(path / _BOOTS_WITH)
        base = self._configured.get(boots_with) if boots_with else None
        if base is None:
            return ImageFile(image_id, disk, is_of_server=True)
        is_firmware = base.format is ImageFormat.FIRMWARE
        return ImageFile(
            image_id,
            disk,
            initrd=base.initrd,
            cmdline=base.cmdline,
            kernel=base.direct_kernel,
            firmware=base.file if is_firmware else None,
            is_of_server=True,
            boots_with=boots_with,
        )

    async def store(
        self, image_id: str, booted: str, source: Path, copy: Callable[[Path], Awaitable[None]]
    ) -> ImageSize:
        """Store an image, unless it is stored already, and return its size.

        Args:
            image_id: the id of the new image.
            booted: the id of the image from which the guest was created.
            source: the disk, whose size decides whether there is enough space.
            copy: writes a qcow2 disk to a path.

        Raises:
            DriverError: there is no shared folder or not enough space, or copying failed; nothing
                remains.
        """
        target = self._of(image_id)
        with os_errors_as_driver_errors():
            if not target.is_dir():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                await disks.check_space(source, target.parent, self._reserved_bytes)
                await self._make(image_id, target, booted, copy)
            disk = target / _DISK
            size_bytes = disk.stat().st_blocks * 512
        return ImageSize(size_bytes, await disks.virtual_bytes(str(disk), "qcow2"))

    async def _make(
        self,
        image_id: str,
        target: Path,
        booted: str,
        copy: Callable[[Path], Awaitable[None]],
    ) -> None:
        new = target.with_name(f".{image_id}{_NEW}")
        await disks.end_programs(new)  # those of an agent that has died here
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        try:
            new.mkdir(mode=0o700, parents=True)
            (new / _HOST).write_text(self._host)
            (new / _BOOTS_WITH).write_text(self._needed_with(booted))
            await copy(new / _DISK)
            await asyncio.to_thread(new.replace, target)
        except BaseException:
            # This also applies to a copy that was cancelled, or that filled the storage.
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
            raise

    def _needed_with(self, booted: str) -> str:
        """Return the id of the configured image whose kernel or firmware a copy needs, or ""."""
        image = self.get(booted)
        if image is None:
            return ""
        if image.is_of_server:
            return image.boots_with
        has_own = image.direct_kernel is None and image.format is not ImageFormat.FIRMWARE
        return "" if has_own else image.image_id

    async def drop(self, address: str) -> None:
        """Delete the image at an address (`IMAGE_ADDRESS`), if it exists.

        Raises:
            DriverError: the address is invalid, there is no shared folder, or the image cannot be
                deleted now.
        """
        target = self._of(address.removeprefix(IMAGE_ADDRESS))
        for path in (target, target.with_name(f".{target.name}{_NEW}")):
            await disks.end_programs(path)
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            with os_errors_as_driver_errors():
                if path.exists():
                    raise DriverError(f"cannot delete {path}; check its permissions")

    async def leftovers(self) -> list[OrphanFiles]:
        """Return all images that this host has stored, and some of those of other hosts in turn.

        A host that was removed cannot ask whether its images are still needed, so others do.
        """
        return [] if self._folder is None else await asyncio.to_thread(self._leftovers)

    def _leftovers(self) -> list[OrphanFiles]:
        folder = self._of(_ANY).parent
        if not folder.is_dir():
            return []
        own, others = list[Path](), list[Path]()
        for path in sorted(folder.iterdir()):
            if is_uuid(_id_of(path)) and path.is_dir() and not path.is_symlink():
                (own if _text(path / _HOST) == self._host else others).append(path)
        # A driver that has just started begins at a place of its own, so that many hosts which are
        # restarted at once do not all ask about the same images.
        last = self._last or named_uuid(self._host)
        after = [path for path in others if path.name > last]
        turn = [*after, *others][: min(_OTHERS_MAX, len(others))]
        self._last = turn[-1].name if turn else ""
        return _found([*own, *turn])

    async def leftovers_at(self, address: str) -> list[OrphanFiles]:
        """Return what is stored at an address (`IMAGE_ADDRESS`), in the form of `leftovers`.

        Raises:
            DriverError: the address is invalid, or there is no shared folder.
        """
        target = self._of(address.removeprefix(IMAGE_ADDRESS))
        paths = [target, target.with_name(f".{target.name}{_NEW}")]
        return await asyncio.to_thread(_found, [path for path in paths if path.is_dir()])

    def _of(self, image_id: str) -> Path:
        if self._folder is None:
            raise DriverError(
                "this host has no storage for images; set virt.storage_dir to a folder that all "
                "hosts share"
            )
        # The id may come from another host or from an order, so it must not lead out of the folder.
        if not is_uuid(image_id):
            raise DriverError(f"{image_id[:80]!r} is not the id of a server's image")
        return contained_path(self._folder, _FOLDER, image_id)


_ANY: Final = "00000000-0000-0000-0000-000000000000"


def _found(paths: Sequence[Path]) -> list[OrphanFiles]:
    """Return the folders of images that still exist."""
    found = [leftover_of(path, _id_of(path)) for path in paths]
    return [
        OrphanFiles(
            one.instance_uuid,
            one.since_s,
            one.size_bytes,
            address=f"{IMAGE_ADDRESS}{one.instance_uuid}",
        )
        for one in found
        if one.since_s
    ]


def _id_of(path: Path) -> str:
    return path.name.removeprefix(".").removesuffix(_NEW)


def _text(path: Path) -> str:
    """Return the content of a small file, or an empty string if it cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_TEXT_MAX)
    except (OSError, ValueError):
        return ""
