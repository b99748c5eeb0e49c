"""The guests of a host, found through libvirt's domains and the guests' folders."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from berth.adapters.virt import nbd_export
from berth.adapters.virt.guest_folder import GuestFolder, claim_state_dir
from berth.adapters.virt.libvirt import binding, domain_xml, record, states
from berth.adapters.virt.libvirt.binding import Connect, Domain, ErrorCode
from berth.adapters.virt.libvirt.connection import (
    LibvirtConnection,
    is_missing_domain,
    none_if_refused,
)
from berth.adapters.virt.libvirt.errors import LibvirtRefusedError
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.domain.errors import DriverError
from berth.domain.uuids import is_uuid
from berth.ports.virt import Power

_NO_JOB = 0
_PASSABLE = 0o711
_PRIVATE = 0o600
_UNFINISHED = ".unfinished"
_LEAVING = ".leaving"
_MARKS = (_UNFINISHED, _LEAVING)


@dataclass(frozen=True, slots=True)
class ObservedGuest:
    """The state of a guest as libvirt reports it; `record` is None if its domain has none."""

    uuid: str
    record: GuestRecord | None
    state: int
    reason: int
    is_active: bool
    is_saved: bool
    is_persistent: bool

    @property
    def power(self) -> tuple[Power, str]:
        """The power state and its reason, which may be empty."""
        known = Power.RUNNING if self.record is None else self.record.power
        if self.record is not None and self.record.waits:
            return Power.PAUSED, ""
        power, reason = states.power_of(
            self.state, self.reason, is_saved=self.is_saved, known=known
        )
        recorded = "" if self.record is None or power is not known else self.record.reason
        return power, reason or recorded

    @property
    def has_arrived(self) -> bool:
        """Whether the guest was the target of a live migration and now runs here."""
        waits = self.record is not None and self.record.waits
        return waits and self.is_active and not states.is_moving(self.state, self.reason)


class LibvirtFolder(GuestFolder):
    """The folder of a libvirt guest. QEMU may run as another user, who then owns the disks."""

    def make(self) -> None:
        """Create the folder with the mark `.unfinished`, which `finish` removes.

        Raises:
            DriverError: the folder contains files of a guest that libvirt does not know.
        """
        make_passable(self.path)
        if any(path.name not in _MARKS for path in self.path.iterdir()):
            reason = "files of a guest without a domain; move them away, or destroy the guest"
            raise DriverError(f"{self.path} contains {reason}")
        self.mark(_UNFINISHED)

    def make_private(self, names: Iterable[str]) -> None:
        """Make these disks accessible to their owner only, and create missing ones as empty files.

        While the guest runs, libvirt makes QEMU's user their owner.
        """
        for name in names:
            path = self.disk(name)
            path.touch(mode=_PRIVATE)
            path.chmod(_PRIVATE)

    def finish(self) -> None:
        """Remove the mark of an unfinished guest."""
        (self.path / _UNFINISHED).unlink(missing_ok=True)

    @property
    def is_unfinished(self) -> bool:
        """Whether the guest is being built or destroyed, or was when an agent died."""
        return (self.path / _UNFINISHED).exists()

    @property
    def is_leaving(self) -> bool:
        """Whether the guest is migrating away; it has left once libvirt no longer knows it."""
        return (self.path / _LEAVING).exists()

    def leave(self, *, leaves: bool) -> None:
        """Set or remove the mark that the guest is migrating away."""
        if leaves:
            self.mark(_LEAVING)
        else:
            (self.path / _LEAVING).unlink(missing_ok=True)

    def begin_end(self) -> None:
        """Mark the folder, if any, as unfinished, so that an interrupted removal is completed."""
        if self.path.is_dir():
            with contextlib.suppress(OSError):  # a full disk, on which the removal makes room
                self.mark(_UNFINISHED)

    def mark(self, name: str) -> None:
        """Create an empty file as a mark."""
        (self.path / name).touch(mode=_PRIVATE)

    def remove(self) -> None:
        """Delete the folder, the marks last, so that an interrupted removal is completed."""
        for path in sorted(self.path.glob("*"), key=lambda path: path.name in _MARKS):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


def make_passable(path: Path) -> None:
    """Create a folder and its missing parents with a mode that lets QEMU's user traverse them.

    The mode is set after the creation, since the umask of the agent restricts the mode of a new
    folder.
    """
    for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
        one.mkdir(exist_ok=True)
        one.chmod(_PASSABLE)


class LibvirtGuestRegistry:
    """Finds guests, and removes those that an agent left unfinished when it died.

    The methods raise DriverError if a guest's uuid is invalid, and if libvirtd rejects a call or
    cannot be reached.

    Args:
        host: the host's settings.
        connection: calls libvirtd.
    """

    def __init__(self, host: LibvirtHost, connection: LibvirtConnection) -> None:
        self._host = host
        self._connection = connection
        self._adopting = asyncio.Lock()
        self._has_adopted = False

    def folder(self, instance_uuid: str) -> LibvirtFolder:
        """Return the folder of a guest, which need not exist."""
        return LibvirtFolder(self._host.state_dir, instance_uuid)

    async def make_folder(self, instance_uuid: str) -> None:
        """Create the folder of a new guest, and delete the remains of one that has moved away.

        Raises:
            DriverError: the folder contains files of a guest that libvirt does not know, or the
                remains cannot be deleted.
        """
        folder = self.folder(instance_uuid)
        if folder.is_leaving:
            await self.clear(instance_uuid)
        folder.make()

    async def all(self) -> list[ObservedGuest]:
        """Return all guests of this host and all orphans, except those with unfinished folders."""
        await self._adopt()
        found = await self._connection.call(_list)
        own = [one for one in found if self._is_mine(one)]
        await asyncio.to_thread(self._trim_consoles, own)
        return own

    async def find(self, instance_uuid: str) -> ObservedGuest | None:
        """Return a guest of this host, or None if it has no persistent domain or no record.

        The caller must hold the guest's lock, since this removes the remains of an unfinished build
        or removal.
        """
        await self._adopt()
        folder = self.folder(instance_uuid)
        if folder.is_unfinished:
            await self.clear(instance_uuid)
        one = await self.lookup(instance_uuid)
        if one is None or one.record is None or not self._is_mine(one) or not one.is_persistent:
            return None
        # A migration completes without the agent, so the record is updated at the next access.
        if one.has_arrived:
            await self.write(_arrived(one.record))
            return await self.lookup(instance_uuid)
        return one

    async def lookup(self, instance_uuid: str) -> ObservedGuest | None:
        """Return the current state of a guest, or None when libvirt does not know it."""
        try:
            return await self._connection.on(instance_uuid, observe)
        except LibvirtRefusedError as error:
            if is_missing_domain(error):
                return None
            raise

    async def is_foreign(self, instance_uuid: str) -> bool:
        """Return whether a guest belongs to another host whose agent uses the same libvirtd."""
        one = await self.lookup(instance_uuid)
        return one is not None and one.record is not None and one.record.host != self._host.name

    async def write(self, changed: GuestRecord) -> None:
        """Write the record of a guest to its domain's metadata."""
        text = record.to_text(changed)

        def change(domain: Domain) -> None:
            domain.setMetadata(
                binding.ELEMENT, text, record.PREFIX, record.NAMESPACE, binding.CONFIG
            )

        await self._connection.on(changed.uuid, change)

    async def try_to_write(self, changed: GuestRecord) -> bool:
        """Write the record of a guest; return False if libvirt is busy with the domain."""
        try:
            await self.write(changed)
        except LibvirtRefusedError as error:
            if error.code != ErrorCode.OPERATION_TIMEOUT:
                raise
            return False
        return True

    async def clear(self, instance_uuid: str) -> None:
        """Power off a guest, if it exists, and delete its domain and folder."""
        folder = self.folder(instance_uuid)
        folder.begin_end()
        try:
            await self._connection.on(instance_uuid, _end)
        except LibvirtRefusedError as error:
            if not is_missing_domain(error):
                raise
        # The daemon that exports the disks does not belong to libvirt, so it is ended separately.
        await nbd_export.withdraw(folder)
        await asyncio.to_thread(folder.remove)

    def _trim_consoles(self, guests: Sequence[ObservedGuest]) -> None:
        """Truncate long console logs, to which libvirt's log daemon only appends."""
        for one in guests:
            with contextlib.suppress(OSError):  # owned by another user, or just deleted
                self.folder(one.uuid).trim_console()

    def _is_mine(self, one: ObservedGuest) -> bool:
        if self.folder(one.uuid).is_unfinished:
            return False
        return one.record is None or one.record.host == self._host.name

    async def _adopt(self) -> None:
        async with self._adopting:
            if self._has_adopted:
                return
            state_dir = self._host.state_dir
            make_passable(state_dir)
            claim_state_dir(state_dir, self._host.name)
            for path in await asyncio.to_thread(_marked, state_dir):
                folder = self.folder(path.name)
                if folder.is_unfinished or await self.lookup(path.name) is None:
                    await self.clear(path.name)
            self._has_adopted = True


def _marked(state_dir: Path) -> list[Path]:
    """Return the folders of guests with a mark."""
    found = {path.parent for mark in _MARKS for path in state_dir.glob(f"*/{mark}")}
    return sorted(path for path in found if is_uuid(path.name))


def _list(connect: Connect) -> list[ObservedGuest]:
    """Return the domains with Berth's name prefix that have a record or are active."""
    found: list[ObservedGuest] = []
    for domain in connect.listAllDomains():
        if domain.name().startswith(domain_xml.NAME_PREFIX):
            one = none_if_refused(ErrorCode.NO_DOMAIN, observe, domain)
            found += [] if one is None else [one]
    # A domain that is off and has no record is ignored, since nothing says which host it belongs
    # to.
    return [one for one in found if one.record is not None or one.is_active]


def observe(domain: Domain) -> ObservedGuest:
    """Return the state of a guest, given its domain."""
    is_persistent = bool(domain.isPersistent())
    flags = binding.CONFIG if is_persistent else 0
    text = none_if_refused(
        ErrorCode.NO_DOMAIN_METADATA,
        lambda one: one.metadata(binding.ELEMENT, record.NAMESPACE, flags),
        domain,
    )
    state, reason = domain.state()
    return ObservedGuest(
        domain.UUIDString(),
        record.of_text(text or ""),
        state,
        reason,
        is_active=bool(domain.isActive()),
        is_saved=bool(domain.hasManagedSaveImage()),
        is_persistent=is_persistent,
    )


def has_job(domain: Domain) -> bool:
    """Return whether libvirt runs a job on a domain: a migration or a save."""
    job = none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.jobInfo(), domain)
    return job is not None and job[0] != _NO_JOB


def _end(domain: Domain) -> None:
    if domain.isActive():
        none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.destroy(), domain)
    if domain.isPersistent():
        domain.undefineFlags(binding.UNDEFINE_ALL)


def _arrived(one: GuestRecord) -> GuestRecord:
    return msgspec.structs.replace(one, waits=False, address="", power=Power.RUNNING)
