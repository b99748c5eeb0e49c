"""Storage for the disks of shelved guests, in a folder that all hosts share."""

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote

from berth.adapters.virt import disks, nbd_export
from berth.adapters.virt.contained_paths import contained_path
from berth.adapters.virt.guest_folder import GuestFolder, leftover_of, os_errors_as_driver_errors
from berth.adapters.virt.peer_addresses import Networks, peer_address
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.errors import DriverError
from berth.domain.uuids import is_uuid
from berth.ports.virt import OrphanFiles

_SCHEME = "stored"
_OF_HOSTS = ".hosts"
# The name of a file next to stored disks. The file identifies the original disks, so that a
# repeated store recognizes its own copy.
_ORIGIN = "origin"
_ANY = "00000000-0000-0000-0000-000000000000"


class SharedDiskStorage:
    """The shared folder, with the disks of each instance in a subfolder.

    Each host has a further subfolder, with a mark for every instance whose disks it has stored. The
    mark is created before the copy starts, so a host also finds the copies that a crash
    interrupted, and finds only its own.

    Args:
        folder: the shared folder, or None if the host has none.
        host: the host's name.
        networks: the networks of hosts, from whose addresses disks may be fetched.
    """

    def __init__(self, folder: Path | None, host: str, networks: Networks = ()) -> None:
        self._folder = folder
        self._networks = networks
        self._host = quote(host, safe="").replace(".", "%2E")

    async def store(self, folder: GuestFolder, uuid: str, names: Sequence[str]) -> str:
        """Copy the disks of a guest, and return an address that is valid on every host.

        An earlier copy is reused only if it was made from these disks in their current state: an
        earlier attempt may have been abandoned, and the guest may have run since.

        Raises:
            DriverError: there is no shared folder, or copying failed.
            OSError: a file operation failed.
        """
        target = self._of(uuid)
        origin = self._origin(folder, names)
        if not _was_of(target, origin):
            new = self._new(uuid)
            mark = self._mark(uuid)
            mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark.touch()
            # The copy has a temporary name until it is complete, so that an address never leads to
            # an incomplete one.
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
            new.mkdir(mode=0o700, parents=True)
            for name in names:
                await disks.copy(str(folder.disk(name)), new / f"{name}.qcow2")
            (new / _ORIGIN).write_text(origin)
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            await asyncio.to_thread(new.replace, target)
        return f"{_SCHEME}:{uuid}"

    def _origin(self, folder: GuestFolder, names: Sequence[str]) -> str:
        """Return a string that identifies a guest's disks in their current state."""
        found = [self._host]
        for name in names:
            at = folder.disk(name).stat()
            found.append(f"{name} {at.st_ino} {at.st_size} {at.st_mtime_ns}")
        return "\n".join(found)

    async def drop(self, address: str) -> None:
        """Delete stored disks, if they exist.

        Raises:
            DriverError: the address is invalid, there is no shared folder, or the disks cannot be
                deleted now; in the last case `mine` still returns them.
        """
        scheme, _, uuid = address.partition(":")
        if scheme != _SCHEME:
            raise DriverError(
                f"cannot delete disks: {address[:200]!r} is not an address of stored disks"
            )
        # The mark is deleted last, so that an interrupted deletion is found again.
        for path in (self._of(uuid), self._new(uuid)):
            await asyncio.to_thread(_delete, path)
        self._unmark(uuid)

    async def mine(self) -> list[OrphanFiles]:
        """Return the stored disks that this host has written and that still exist."""
        return [] if self._folder is None else await asyncio.to_thread(self._mine)

    def _mine(self) -> list[OrphanFiles]:
        found: list[OrphanFiles] = []
        marks = self._mark(_ANY).parent
        for mark in sorted(marks.iterdir()) if marks.is_dir() else ():
            uuid = mark.name
            if not is_uuid(uuid):
                continue  # another program's file
            paths = [path for path in (self._of(uuid), self._new(uuid)) if path.is_dir()]
            if not paths:
                self._unmark(uuid)  # another host has deleted the disks
                continue
            written = [leftover_of(path, uuid) for path in paths]
            found.append(
                OrphanFiles(
                    uuid,
                    since_s=max(one.since_s for one in written),
                    size_bytes=sum(one.size_bytes for one in written),
                    address=f"{_SCHEME}:{uuid}",
                )
            )
        return found

    def _unmark(self, uuid: str) -> None:
        mark = self._mark(uuid)
        mark.unlink(missing_ok=True)
        for folder in (mark.parent, mark.parent.parent):
            with suppress(OSError):
                folder.rmdir()  # fails while other marks are in it

    def _mark(self, uuid: str) -> Path:
        marks = self._of(uuid).parent
        return contained_path(marks, _OF_HOSTS, self._host, uuid)

    def sources(self, address: str) -> dict[str, str]:
        """Return the files or NBD addresses of the disks at an address, by name.

        Raises:
            BuildError: nothing is stored there, the address is invalid or not in the networks of
                hosts, or the shared folder is missing or cannot be read.
        """
        scheme, _, uuid = address.partition(":")
        if scheme == _SCHEME:
            try:
                folder = self._of(uuid)
                with os_errors_as_driver_errors():
                    is_there, files = folder.is_dir(), sorted(folder.glob("*.qcow2"))
            except DriverError as error:
                raise BuildError(str(error)) from error
            if not is_there:
                reason = f"no disks are stored at {address[:200]!r}; check virt.storage_dir"
                raise BuildError(reason, cause=FailureCause.NETWORK)
            return {path.stem: str(path) for path in files}
        if scheme == nbd_export.SCHEME:
            return self._exports(address)
        raise BuildError(f"cannot fetch disks: {address[:200]!r} is not an address of disks")

    def _exports(self, address: str) -> dict[str, str]:
        if address == nbd_export.NO_DISKS:
            return {}
        try:
            peer = peer_address(address, nbd_export.SCHEME, self._networks)
        except DriverError as error:
            raise BuildError(str(error)) from error
        (names, *_) = parse_qs(peer.parts.query).get("disks", [""])
        found = [name for name in names.split(",") if name]
        return {name: f"{nbd_export.SCHEME}://{peer.location}/{name}" for name in found}

    def _new(self, uuid: str) -> Path:
        """Return the temporary folder of a copy in progress."""
        return self._of(uuid).with_name(f".{uuid}.new")

    def _of(self, uuid: str) -> Path:
        if self._folder is None:
            raise DriverError(
                "this host has no storage for disks; set virt.storage_dir to a shared folder"
            )
        # The uuid may come from an address that another host sent, so it must not lead out of the
        # folder.
        if not is_uuid(uuid):
            raise DriverError(f"cannot find stored disks: {uuid[:80]!r} is not a UUID")
        return contained_path(self._folder, uuid)


def _delete(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with os_errors_as_driver_errors():
        if path.exists():
            raise DriverError(f"cannot delete {path}; check its permissions")


def _was_of(target: Path, origin: str) -> bool:
    try:
        return (target / _ORIGIN).read_text() == origin
    except FileNotFoundError:
        return False
