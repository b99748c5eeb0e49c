"""The roster: the guests of a host, as libvirt's descriptions and their folders say."""

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
from berth.ports.virt import Power

_NO_JOB = 0
_PASSABLE = 0o711
_PRIVATE = 0o600
_UNFINISHED = ".unfinished"
_LEAVING = ".leaving"
_MARKS = (_UNFINISHED, _LEAVING)


@dataclass(frozen=True, slots=True)
class ObservedGuest:
    """A guest as libvirt has just described it; `record` is None where there is none."""

    uuid: str
    record: GuestRecord | None
    state: int
    reason: int
    is_active: bool
    is_saved: bool
    is_persistent: bool

    @property
    def power(self) -> tuple[Power, str]:
        """What it does, and why if that is known."""
        known = Power.RUNNING if self.record is None else self.record.power
        if self.record is not None and self.record.waits:
            return Power.PAUSED, ""
        power, reason = states.power_of(
            self.state, self.reason, is_saved=self.is_saved, known=known
        )
        told = "" if self.record is None or power is not known else self.record.reason
        return power, reason or told

    @property
    def has_arrived(self) -> bool:
        """It was waited for, and runs here now."""
        waits = self.record is not None and self.record.waits
        return waits and self.is_active and not states.is_moving(self.state, self.reason)


class LibvirtFolder(GuestFolder):
    """The folder of a guest. Its disks are QEMU's, which may be another user's."""

    def make(self) -> None:
        """Make the folder, which holds no guest before it is finished.

        Raises:
            DriverError: there is one, with files of a guest that libvirt knows nothing of.
        """
        make_passable(self.path)
        if any(path.name not in _MARKS for path in self.path.iterdir()):
            reason = "libvirt knows no guest of these files; move them away, or destroy it"
            raise DriverError(f"{self.path}: {reason}")
        self.mark(_UNFINISHED)

    def make_private(self, names: Iterable[str]) -> None:
        """Let nobody else read these disks; libvirt gives them to QEMU's user while it runs."""
        for name in names:
            path = self.disk(name)
            path.touch(mode=_PRIVATE)
            path.chmod(_PRIVATE)

    def finish(self) -> None:
        """Have it hold a guest from now on."""
        (self.path / _UNFINISHED).unlink(missing_ok=True)

    @property
    def is_unfinished(self) -> bool:
        """Its guest is being made, or destroyed; or somebody has died over that."""
        return (self.path / _UNFINISHED).exists()

    @property
    def is_leaving(self) -> bool:
        """Its guest moves; when libvirt does not know it any more it has."""
        return (self.path / _LEAVING).exists()

    def leave(self, *, leaves: bool) -> None:
        """Write down that the guest moves, or that it stays."""
        if leaves:
            self.mark(_LEAVING)
        else:
            (self.path / _LEAVING).unlink(missing_ok=True)

    def begin_end(self) -> None:
        """Have it be cleared away, should nobody come to the end of that."""
        if self.path.is_dir():
            with contextlib.suppress(OSError):  # a full disk has room again when it is gone
                self.mark(_UNFINISHED)

    def mark(self, name: str) -> None:
        """Make a file that says something."""
        (self.path / name).touch(mode=_PRIVATE)

    def remove(self) -> None:
        """Delete it with all that is in it, the marks last."""
        for path in sorted(self.path.glob("*"), key=lambda path: path.name in _MARKS):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


def make_passable(path: Path) -> None:
    """Make a folder, and those above it, that another user gets through; one that is there stays.

    The mode is set when the folder is there, since a unit's umask takes from the one it is made
    with.
    """
    for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
        one.mkdir(exist_ok=True)
        one.chmod(_PASSABLE)


class LibvirtGuestRegistry:
    """Finds guests; what an agent has left half done is cleared away at the first question."""

    def __init__(self, host: LibvirtHost, connection: LibvirtConnection) -> None:
        self._host = host
        self._connection = connection
        self._adopting = asyncio.Lock()
        self._has_adopted = False

    def folder(self, instance_uuid: str) -> LibvirtFolder:
        """Return the folder of a guest, which may not be there."""
        return LibvirtFolder(self._host.state_dir, instance_uuid)

    async def make_folder(self, instance_uuid: str) -> None:
        """Make the folder of a new guest; what is left there of one that has moved goes first.

        Raises:
            DriverError: there are files of a guest that libvirt knows nothing of.
        """
        folder = self.folder(instance_uuid)
        if folder.is_leaving:
            await self.clear(instance_uuid)
        folder.make()

    async def all(self) -> list[ObservedGuest]:
        """Return all guests of this host, and orphans, but none that is being made."""
        await self._adopt()
        found = await self._connection.call(_list)
        mine = [one for one in found if self._is_mine(one)]
        await asyncio.to_thread(self._trim_consoles, mine)
        return mine

    async def find(self, instance_uuid: str) -> ObservedGuest | None:
        """Return a guest that has a record here; None when there is none.

        Nobody else may work on it: what somebody has given up building is cleared away.
        """
        await self._adopt()
        folder = self.folder(instance_uuid)
        if folder.is_unfinished:
            await self.clear(instance_uuid)
        one = await self.lookup(instance_uuid)
        if one is None or one.record is None or not self._is_mine(one) or not one.is_persistent:
            return None
        if one.has_arrived:
            await self.write(_arrived(one.record))
            return await self.lookup(instance_uuid)
        return one

    async def lookup(self, instance_uuid: str) -> ObservedGuest | None:
        """Return what libvirt says of a guest now; None when it does not know it."""
        try:
            return await self._connection.on(instance_uuid, observe)
        except LibvirtRefusedError as error:
            if is_missing_domain(error):
                return None
            raise

    async def is_foreign(self, instance_uuid: str) -> bool:
        """Tell whether a guest is another host's, whose agent uses the same libvirtd."""
        one = await self.lookup(instance_uuid)
        return one is not None and one.record is not None and one.record.host != self._host.name

    async def write(self, changed: GuestRecord) -> None:
        """Change the record of a guest."""
        text = record.to_text(changed)

        def change(domain: Domain) -> None:
            domain.setMetadata(
                binding.ELEMENT, text, record.PREFIX, record.NAMESPACE, binding.CONFIG
            )

        await self._connection.on(changed.uuid, change)

    async def try_to_write(self, changed: GuestRecord) -> bool:
        """Change the record of a guest, and tell whether libvirt was not too busy with it."""
        try:
            await self.write(changed)
        except LibvirtRefusedError as error:
            if error.code != ErrorCode.OPERATION_TIMEOUT:
                raise
            return False
        return True

    async def clear(self, instance_uuid: str) -> None:
        """End a guest, if there is one, and delete all of it."""
        folder = self.folder(instance_uuid)
        folder.begin_end()
        try:
            await self._connection.on(instance_uuid, _end)
        except LibvirtRefusedError as error:
            if not is_missing_domain(error):
                raise
        await nbd_export.withdraw(folder)
        await asyncio.to_thread(folder.remove)

    def _trim_consoles(self, guests: Sequence[ObservedGuest]) -> None:
        """Keep consoles from filling the disk; libvirt and its log daemon append to the files."""
        for one in guests:
            with contextlib.suppress(OSError):  # not this user's, or it has just gone
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
    """Return the folders that have a mark."""
    return sorted({path.parent for mark in _MARKS for path in state_dir.glob(f"*/{mark}")})


def _list(connect: Connect) -> list[ObservedGuest]:
    """Return all that bears our mark; what goes away meanwhile is left out."""
    found: list[ObservedGuest] = []
    for domain in connect.listAllDomains():
        if domain.name().startswith(domain_xml.NAME_PREFIX):
            one = none_if_refused(ErrorCode.NO_DOMAIN, observe, domain)
            found += [] if one is None else [one]
    return [one for one in found if one.record is not None or one.is_active]


def observe(domain: Domain) -> ObservedGuest:
    """Describe a guest."""
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
    """Tell whether libvirt is at work on a guest for long: it moves, or is saved."""
    job = none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.jobInfo(), domain)
    return job is not None and job[0] != _NO_JOB


def _end(domain: Domain) -> None:
    if domain.isActive():
        none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.destroy(), domain)
    if domain.isPersistent():
        domain.undefineFlags(binding.UNDEFINE_ALL)


def _arrived(one: GuestRecord) -> GuestRecord:
    return msgspec.structs.replace(one, waits=False, address="", power=Power.RUNNING)
