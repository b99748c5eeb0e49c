"""Live migration between two libvirtds, the one speaking to the other.

The target has a description that waits, blank disks and the folder; the source's libvirtd has the
guest's memory and disks follow, takes the description there away when it has left, and goes on
with that when the agent dies.
"""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from berth.adapters.virt.images import ImageFile
from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.binding import Domain, ErrorCode, MigrateFlag
from berth.adapters.virt.libvirt.connection import (
    LibvirtConnection,
    is_missing_domain,
    none_if_refused,
    retrieve_outcome,
)
from berth.adapters.virt.libvirt.domain_xml import DestinationFiles, moved_xml
from berth.adapters.virt.libvirt.errors import LibvirtRefusedError, LibvirtUnreachableError
from berth.adapters.virt.libvirt.guest_registry import has_job
from berth.adapters.virt.libvirt.hardware import ANYWHERE, FloatingCpus, number_list
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.domain.errors import DriverError, UnavailableError
from berth.ports.virt import Power

_SCHEME = "libvirt"
_PEER_SCHEMES = ("qemu", "qemu+tls", "qemu+tcp", "qemu+unix", "qemu+ssh", "qemu+libssh")
_POLL_S = 0.1
_FLAGS = (
    MigrateFlag.LIVE
    | MigrateFlag.PEER2PEER
    | MigrateFlag.PERSIST_DEST
    | MigrateFlag.UNDEFINE_SOURCE
    | MigrateFlag.ABORT_ON_ERROR
)
_RUNNING = 1
# How often a cancelled migration is looked at, before nobody waits for the other host.
_PATIENCE = 50
# How long libvirtd may be away in the midst of a migration before the turn is given up.
_AWAY_S = 5.0


class MigrationTarget(NamedTuple):
    """Where a guest moves to."""

    host: str
    uri: str
    """Of the libvirtd there, for the one here."""
    address: str
    files: DestinationFiles


def address_of(
    host: LibvirtHost, uuid: str, image: ImageFile, floating: FloatingCpus = ANYWHERE
) -> str:
    """Return the address of a guest that waits here."""
    boots = image.direct_kernel or image.file
    given = {
        "host": host.name,
        "uri": host.peer_uri or f"qemu+tls://{_bracketed(host.move_address)}/system",
        "dir": str(host.state_dir),
        "binary": host.binary,
        "image": str(boots.absolute()),
        "initrd": "" if image.initrd is None else str(image.initrd.absolute()),
        "cpus": number_list(floating.everywhere),
    }
    return f"{_SCHEME}://{_bracketed(host.move_address)}/{uuid}?{urlencode(given)}"


def target_of(address: str, uuid: str) -> MigrationTarget:
    """Read an address.

    Raises:
        DriverError: it is none, or of another guest.
    """
    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    missing = {"host", "uri", "dir", "binary", "image"} - given.keys()
    if parts.scheme != _SCHEME or not parts.hostname or missing or parts.path != f"/{uuid}":
        raise DriverError(f"{address[:200]!r} is no address of a libvirt driver for guest {uuid}")
    peer = urlsplit(given["uri"])
    # Others may name programs to start.
    if (
        peer.scheme not in _PEER_SCHEMES
        or {"command", "netcat"} & dict(parse_qsl(peer.query)).keys()
    ):
        raise DriverError(f"{given['uri'][:200]!r} is no address of a libvirtd to move guests to")
    initrd = given.get("initrd", "")
    files = DestinationFiles(
        Path(given["dir"]),
        Path(given["image"]),
        Path(initrd) if initrd else None,
        given["binary"],
        given.get("cpus", ""),
    )
    return MigrationTarget(given["host"], given["uri"], parts.hostname, files)


class LibvirtMigration:
    """One live migration away from here."""

    def __init__(self, connection: LibvirtConnection, known: GuestRecord) -> None:
        self._connection = connection
        self._known = known
        self._is_cancelled = False
        self._is_given_up = asyncio.Event()
        self._is_over = asyncio.Event()

    async def cancel(self) -> None:
        """Have it fail, if it is not too late for that."""
        self._is_cancelled = True
        for _ in range(_PATIENCE):
            await self._abort()
            if await self._ends_in(_POLL_S):
                return
        # The other host's libvirtd owes an answer. QEMU has given up, if the guest still runs.
        if await self._abort() and await self._connection.on(self._known.uuid, _runs):
            self._is_given_up.set()
        await self._is_over.wait()

    async def run(self, address: str) -> None:
        """Move the guest; afterwards libvirt does not know it here any more.

        One that was under way when its agent died is followed to its end.

        Raises:
            DriverError: it goes on here.
        """
        try:
            if await self._is_under_way():
                if await self._has_left():
                    return
                reason = "a migration that was under way has failed; libvirtd's log says why"
                raise DriverError(reason)
            if self._known.cells or self._known.devices:
                raise DriverError("it has NUMA cells or PCI devices of this host; move it cold")
            target = target_of(address, self._known.uuid)
            if self._is_cancelled:
                raise DriverError("it was cancelled")
            await self._begin(target)
        finally:
            self._is_over.set()

    async def _begin(self, target: MigrationTarget) -> None:
        """Have libvirt move the guest, and wait until it has, or nobody waits any more."""

        def move(domain: Domain) -> None:
            self._move(domain, target)

        moving = asyncio.ensure_future(self._connection.on(self._known.uuid, move, is_long=True))
        moving.add_done_callback(retrieve_outcome)
        giving_up = asyncio.ensure_future(self._is_given_up.wait())
        try:
            await asyncio.wait({moving, giving_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving_up.cancel()
        if not moving.done():
            raise DriverError("it was cancelled; the other host's libvirtd has not answered since")
        try:
            await moving
        except LibvirtUnreachableError:
            # libvirtd goes on with it without us, or could not reach the other host's.
            if not await self._has_left():
                raise

    async def _abort(self) -> bool:
        """Have libvirt give it up, and tell whether there was something to give up."""
        return await abort_job(self._connection, self._known.uuid)

    async def _ends_in(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._is_over.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def _move(self, domain: Domain, target: MigrationTarget) -> None:
        known = msgspec.structs.replace(
            self._known, host=target.host, address="", waits=False, power=Power.RUNNING
        )
        live = domain.XMLDesc(binding.XML_MIGRATABLE)
        later = domain.XMLDesc(binding.XML_MIGRATABLE | binding.XML_INACTIVE)
        parameters: dict[str, object] = {
            "migrate_uri": f"tcp://{_bracketed(target.address)}",
            "listen_address": target.address,
            "destination_xml": moved_xml(live, target.files, known),
            "persistent_xml": moved_xml(later, target.files, known),
        }
        flags = int(_FLAGS)
        if known.disks:
            parameters["migrate_disks"] = [
                f"vd{letter}" for letter in "abcdefgh"[: len(known.disks)]
            ]
            flags |= MigrateFlag.NON_SHARED_DISK
        domain.migrateToURI3(target.uri, parameters, flags)

    async def _is_under_way(self) -> bool:
        return await self._connection.on(self._known.uuid, has_job)

    async def _has_left(self) -> bool:
        """Wait for the end of a migration that nobody waits for, and tell how it has ended.

        Raises:
            UnavailableError: libvirtd is away for long; it may go on with it.
        """
        uuid, give_up_s = self._known.uuid, time.monotonic() + _AWAY_S
        while True:
            try:
                if not await self._is_under_way():
                    return False
                give_up_s = time.monotonic() + _AWAY_S
            except LibvirtRefusedError as error:
                if is_missing_domain(error):
                    return True
                raise
            except LibvirtUnreachableError as error:
                # Whoever says that it stays may be wrong, and then it would run twice.
                if time.monotonic() > give_up_s:
                    reason = f"nobody can say whether guest {uuid} has moved: {error}"
                    raise UnavailableError(reason) from error
            await asyncio.sleep(_POLL_S)


async def abort_job(connection: LibvirtConnection, uuid: str) -> bool:
    """Have libvirt give up what it is doing with a guest, and tell whether that was something."""

    def give_up(domain: Domain) -> bool:
        if not has_job(domain):
            return False
        return (
            none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.abortJob(), domain)
            is not None
        )

    try:
        return await connection.on(uuid, give_up)
    except LibvirtRefusedError as error:
        if not is_missing_domain(error):
            raise
        return False


def _runs(domain: Domain) -> bool:
    return domain.state()[0] == _RUNNING


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
