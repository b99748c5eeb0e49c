"""Live migration between two hosts, controlled by the source's libvirtd.

The destination has a waiting domain, blank disks and the guest's folder. The source's libvirtd
transfers the memory and disks, and afterwards undefines its domain. The migration continues if the
agent dies.
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
from berth.adapters.virt.peer_addresses import Networks, check_network, peer_address
from berth.domain.errors import DriverError, UnavailableError
from berth.domain.url_redaction import redact_url
from berth.ports.virt import Power

_SCHEME = "libvirt"
_PEER_SCHEMES = ("qemu", "qemu+tls", "qemu+tcp", "qemu+unix", "qemu+ssh", "qemu+libssh")
# Other parameters of a URI make libvirt start programs, read files of this host, or skip the check
# of a certificate.
_PEER_PARAMETERS = frozenset({"mode", "socket"})
_POLL_S = 0.1
_FLAGS = (
    MigrateFlag.LIVE
    | MigrateFlag.PEER2PEER
    | MigrateFlag.PERSIST_DEST
    | MigrateFlag.UNDEFINE_SOURCE
    | MigrateFlag.ABORT_ON_ERROR
)
_RUNNING = 1
# After this many attempts to abort a cancelled migration, the driver stops waiting for the other
# host.
_PATIENCE = 50
# When libvirtd is unreachable for this many seconds during a migration, the outcome is unknown.
_AWAY_S = 5.0


class MigrationTarget(NamedTuple):
    """The destination of a migration: its name, its address and the files of the guest there."""

    host: str
    uri: str
    """The URI of the destination's libvirtd, for the source's libvirtd."""
    address: str
    files: DestinationFiles


def address_of(
    host: LibvirtHost, uuid: str, image: ImageFile, floating: FloatingCpus = ANYWHERE
) -> str:
    """Return the address of a guest that waits for its migration to this host."""
    boots = image.direct_kernel or image.firmware or image.file
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


def target_of(address: str, uuid: str, networks: Networks = ()) -> MigrationTarget:
    """Parse the address of a waiting guest, on a host in one of the networks.

    Raises:
        DriverError: the address is invalid, belongs to another guest, or is in none of the
            networks.
    """
    host, _, parts = peer_address(address, _SCHEME, networks)
    given = dict(parse_qsl(parts.query))
    missing = {"host", "uri", "dir", "binary", "image"} - given.keys()
    if missing or parts.path != f"/{uuid}":
        raise DriverError(
            f"cannot migrate guest {uuid} to {redact_url(address)[:200]!r}, because that is not an "
            "address of a libvirt driver for this guest; choose a host that also runs the libvirt "
            "driver"
        )
    try:
        peer = urlsplit(given["uri"])
    except ValueError as error:
        reason = (
            f"{redact_url(given['uri'])[:200]!r} is not a URI of a libvirtd; set virt.peer_uri "
            "on the destination host"
        )
        raise DriverError(reason) from error
    # The URI comes from another host, and some schemes and parameters make libvirt start programs.
    if (
        peer.scheme not in _PEER_SCHEMES
        or dict(parse_qsl(peer.query, keep_blank_values=True)).keys() - _PEER_PARAMETERS
    ):
        raise DriverError(
            f"{redact_url(given['uri'])[:200]!r} is not an acceptable URI of the destination's "
            "libvirtd; set "
            f"virt.peer_uri there to a URI with the scheme {', '.join(_PEER_SCHEMES[:-1])} or "
            f"{_PEER_SCHEMES[-1]}, without parameters other than mode and socket"
        )
    check_network(peer.hostname or "", networks)
    initrd = given.get("initrd", "")
    files = DestinationFiles(
        Path(given["dir"]),
        Path(given["image"]),
        Path(initrd) if initrd else None,
        given["binary"],
        given.get("cpus", ""),
    )
    return MigrationTarget(given["host"], given["uri"], host, files)


class LibvirtMigration:
    """One live migration away from this host.

    Args:
        connection: calls libvirtd.
        known: the guest's record.
        networks: the networks that must contain the destination's address; empty allows any.
    """

    def __init__(
        self, connection: LibvirtConnection, known: GuestRecord, networks: Networks = ()
    ) -> None:
        self._connection = connection
        self._networks = networks
        self._known = known
        self._is_cancelled = False
        self._is_given_up = asyncio.Event()
        self._is_over = asyncio.Event()

    async def cancel(self) -> None:
        """Cancel the migration, unless it is already too late, and wait for its end.

        Raises:
            DriverError: libvirtd rejected the call or cannot be reached.
        """
        self._is_cancelled = True
        for _ in range(_PATIENCE):
            await self._abort()
            if await self._ends_in(_POLL_S):
                return
        # After this many attempts, the destination's libvirtd is assumed not to answer. If there is
        # still a job to abort but the guest runs here, QEMU has given up the migration, so the
        # answer need not be awaited.
        if await self._abort() and await self._connection.on(self._known.uuid, _runs):
            self._is_given_up.set()
        await self._is_over.wait()

    async def run(self, address: str) -> None:
        """Migrate the guest, and return once libvirt no longer has it on this host.

        A migration that an earlier agent began is followed to its end.

        Raises:
            DriverError: the migration failed or was cancelled.
            UnavailableError: libvirtd is unreachable, so the outcome is unknown.
        """
        try:
            if await self._is_under_way():
                if await self._has_left():
                    return
                reason = "a migration that was under way has failed; libvirtd's log says why"
                raise DriverError(reason)
            if self._known.cells or self._known.devices:
                raise DriverError(
                    "the guest has NUMA cells or PCI devices of this host and cannot be migrated "
                    "live; use a cold migration"
                )
            target = target_of(address, self._known.uuid, self._networks)
            if self._is_cancelled:
                raise DriverError("the migration was cancelled")
            await self._begin(target)
        finally:
            self._is_over.set()

    async def _begin(self, target: MigrationTarget) -> None:
        """Start the migration in libvirt, and wait for its end or its abandonment."""

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
            raise DriverError(
                "the migration was cancelled, and the destination's libvirtd has not answered "
                "since; check libvirtd there"
            )
        try:
            await moving
        except LibvirtUnreachableError:
            # Either the connection was lost and libvirtd continues on its own, or libvirtd could
            # not reach the libvirtd of the destination.
            if not await self._has_left():
                raise

    async def _abort(self) -> bool:
        """Abort the migration; return whether there was a job to abort."""
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
        """Wait for the end of a migration; return whether the guest has left.

        Raises:
            UnavailableError: libvirtd has been unreachable for 5 s, and may still continue.
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
                # If the driver wrongly reported that the guest stays, the guest would run twice.
                if time.monotonic() > give_up_s:
                    reason = f"cannot determine whether guest {uuid} has moved: {error}"
                    raise UnavailableError(reason) from error
            await asyncio.sleep(_POLL_S)


async def abort_job(connection: LibvirtConnection, uuid: str) -> bool:
    """Abort libvirt's job on a guest; return whether there was one to abort.

    Raises:
        DriverError: libvirtd rejected the call or cannot be reached.
    """

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
