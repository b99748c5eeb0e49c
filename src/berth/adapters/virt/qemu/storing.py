"""Storing the disks of shelved guests in a folder that all hosts share."""

import asyncio
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from berth.adapters.virt import disks
from berth.adapters.virt.qemu import offering
from berth.adapters.virt.qemu.spec import Folder, Spec
from berth.domain.errors import BuildError, DriverError

_SCHEME = "stored"


class Storage:
    """The folder; None when there is none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def store(self, folder: Folder, spec: Spec) -> str:
        """Copy the disks of a guest, and return an address that every host understands.

        Raises:
            DriverError: there is no such folder, or copying failed.
        """
        target = self._of(spec.uuid)
        if not target.exists():
            new = self._new(spec.uuid)
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
            new.mkdir(mode=0o700, parents=True)
            for name in spec.disks:
                await disks.copy(str(folder.disk(name)), new / f"{name}.qcow2")
            await asyncio.to_thread(new.replace, target)
        return f"{_SCHEME}:{spec.uuid}"

    async def drop(self, address: str) -> None:
        """Delete stored disks; they may be gone already."""
        parts = urlsplit(address)
        if parts.scheme != _SCHEME:
            raise DriverError(f"{address[:200]!r} is no address of stored disks")
        for path in (self._of(parts.path), self._new(parts.path)):
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    def sources(self, address: str) -> dict[str, str]:
        """Return where the disks of an address can be copied from, by name.

        Raises:
            BuildError: nothing is there, or it is no such address.
        """
        parts = urlsplit(address)
        if parts.scheme == _SCHEME:
            try:
                folder = self._of(parts.path)
            except DriverError as error:
                raise BuildError(str(error)) from error
            if not folder.is_dir():
                raise BuildError(f"nothing is stored at {address[:200]!r}")
            return {path.stem: str(path) for path in sorted(folder.glob("*.qcow2"))}
        if parts.scheme == offering.SCHEME:
            (names, *_) = parse_qs(parts.query).get("disks", [""])
            found = [name for name in names.split(",") if name]
            return {name: f"{parts.scheme}://{parts.netloc}/{name}" for name in found}
        raise BuildError(f"{address[:200]!r} is no address that disks can be fetched from")

    def _new(self, uuid: str) -> Path:
        """Return where disks are copied to before all of them are there."""
        return self._of(uuid).with_name(f".{uuid}.new")

    def _of(self, uuid: str) -> Path:
        if self._folder is None:
            raise DriverError("no storage_dir is set, so there is no place to store disks")
        if not uuid or "/" in uuid or uuid.startswith("."):
            raise DriverError(f"{uuid[:80]!r} is no uuid of stored disks")
        return self._folder / uuid
