"""The network between the fake machines of several processes: a folder that they share."""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from berth.adapters.virt.fake.machine import FakeGuest, FakeMachine
from berth.adapters.virt.fake.network import FakeImage, FakeNetwork, not_waiting
from berth.domain.errors import DriverError, InvalidInputError
from berth.ports.virt import IMAGE_ADDRESS, OrphanFiles, Power

T = TypeVar("T")

_SCHEME: Final = "fake+folder:///"
_WAITING: Final = "migrate"
_ARRIVED: Final = "arrived"
_DISKS: Final = "disks"
_IMAGE: Final = "image"
_MODE: Final = 0o700
# Addresses come from other hosts, so neither part of a path may be `..` or contain a slash.
_FOLDER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KEY: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_MOVE_ADDRESS: Final = re.compile(
    rf"{re.escape(_SCHEME)}hosts/({_FOLDER.pattern})/{_WAITING}-({_KEY.pattern})\.json"
)
_DISK_ADDRESS: Final = re.compile(
    rf"{re.escape(_SCHEME)}(?:hosts/{_FOLDER.pattern}/{_DISKS}|stored/disks)-{_KEY.pattern}\.json"
)
_STORED_ADDRESS: Final = re.compile(rf"{re.escape(_SCHEME)}stored/disks-{_KEY.pattern}\.json")


class _Waiting(msgspec.Struct, frozen=True):
    """A guest that waits for a live migration; the name of the file says which and where."""


class _Arrived(msgspec.Struct, frozen=True):
    """A guest that has been handed over."""

    power: Power
    boots: int
    disk: str


class _Disk(msgspec.Struct, frozen=True):
    """The content of a disk, with the host that has offered or stored it."""

    host: str
    disk: str
    at_s: float = 0.0


class FolderNetwork(FakeNetwork):
    """Connects fake machines whose processes share a folder.

    Each waiting guest, arrived guest, offered disk and stored disk is a small JSON file, and an
    address names the file. All writes are atomic. The announcements of a process outlive it until
    `clear` deletes them when the host starts again. `clear` never deletes stored disks. All methods
    for guests raise DriverError if a file cannot be read, written or deleted.

    Args:
        folder: the shared folder, which is created if necessary.

    Raises:
        InvalidInputError: the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        try:
            for name in ("hosts", "stored"):
                (folder / name).mkdir(parents=True, exist_ok=True, mode=_MODE)
        except OSError as error:
            reason = f"cannot create {folder} ({error.strerror}); name a folder that agents can use"
            raise InvalidInputError("virt.fake_network_dir", reason) from error

    def clear(self, host: str) -> None:
        """Delete the announcements of an earlier process for a host, whose guests ended with it.

        Raises:
            InvalidInputError: a file cannot be deleted.
        """
        try:
            for path in (self._folder / _home_of(host)).glob("*.json*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            reason = (
                f"cannot delete the files of host {host!r} in {self._folder} ({error.strerror}); "
                "check the folder's permissions, or delete them yourself"
            )
            raise InvalidInputError("virt.fake_network_dir", reason) from error

    def take_in(self, machine: FakeMachine, instance_uuid: str) -> str:
        """See `FakeNetwork.take_in`."""
        name = _name(_home_of(machine.name), _WAITING, instance_uuid)
        self._write(name, _Waiting())
        return f"{_SCHEME}{name}"

    def receive(self, machine: FakeMachine) -> None:
        """See `FakeNetwork.receive`."""
        home = _home_of(machine.name)
        for uuid in [uuid for uuid, guest in machine.guests.items() if guest.waits]:
            name = _name(home, _ARRIVED, uuid)
            arrived = self._read(name, _Arrived)
            if arrived is None:
                continue
            guest = machine.guests[uuid]
            guest.boots, guest.disk, guest.waits = arrived.boots, arrived.disk, False
            machine.set_power(uuid, arrived.power)
            self._remove(name)
            # `take_in` may have repeated the announcement at the moment of the arrival.
            self._remove(_name(home, _WAITING, uuid))

    def hand_over(self, instance_uuid: str, guest: FakeGuest, address: str) -> None:
        """See `FakeNetwork.hand_over`."""
        found = _MOVE_ADDRESS.fullmatch(address)
        if found is None or found[2] != instance_uuid:
            raise not_waiting(address)
        home = f"hosts/{found[1]}"
        # Several processes may try to remove the announcement, for example the target, which then
        # gives up the guest. The one that succeeds decides where the guest is.
        if not self._remove(_name(home, _WAITING, instance_uuid)):
            raise not_waiting(address)
        arrived = _Arrived(guest.power, guest.boots, guest.disk)
        self._write(_name(home, _ARRIVED, instance_uuid), arrived)

    def offer(self, machine: FakeMachine, instance_uuid: str) -> str:
        """See `FakeNetwork.offer`."""
        name = _name(_home_of(machine.name), _DISKS, instance_uuid)
        self._write(name, _Disk(machine.name, machine.guests[instance_uuid].disk))
        return f"{_SCHEME}{name}"

    def withdraw(self, machine: FakeMachine, instance_uuid: str) -> None:
        """See `FakeNetwork.withdraw`."""
        self._remove(_name(_home_of(machine.name), _DISKS, instance_uuid))

    def disk_at(self, address: str) -> str | None:
        """See `FakeNetwork.disk_at`."""
        if _DISK_ADDRESS.fullmatch(address) is None:
            return None
        found = self._read(address.removeprefix(_SCHEME), _Disk)
        return None if found is None else found.disk

    def store(self, machine: FakeMachine, instance_uuid: str, at_s: float) -> str:
        """See `FakeNetwork.store`."""
        name = _name("stored", "disks", instance_uuid)
        self._write(name, _Disk(machine.name, machine.guests[instance_uuid].disk, at_s))
        return f"{_SCHEME}{name}"

    def stored_by(self, machine: FakeMachine) -> Sequence[OrphanFiles]:
        """See `FakeNetwork.stored_by`. Disks that an earlier process has stored are among them."""
        found: list[OrphanFiles] = []
        for path in sorted((self._folder / "stored").glob("disks-*.json")):
            name = f"stored/{path.name}"
            disk = self._read(name, _Disk)
            if disk is not None and disk.host == machine.name:
                uuid = path.stem.removeprefix("disks-")
                found.append(OrphanFiles(uuid, disk.at_s, address=f"{_SCHEME}{name}"))
        return found

    def drop(self, address: str) -> None:
        """See `FakeNetwork.drop`. An address of another kind is ignored."""
        if _STORED_ADDRESS.fullmatch(address) is not None:
            self._remove(address.removeprefix(_SCHEME))

    def store_image(self, machine: FakeMachine, image_id: str, disk: str, at_s: float) -> None:
        """See `FakeNetwork.store_image`."""
        if self.image(image_id) is None:
            self._write(_name("stored", _IMAGE, image_id), FakeImage(disk, machine.name, at_s))

    def image(self, image_id: str) -> FakeImage | None:
        """See `FakeNetwork.image`."""
        # Guests may also boot from images with ids that are not valid file names.
        if _KEY.fullmatch(image_id) is None:
            return None
        return self._read(_name("stored", _IMAGE, image_id), FakeImage)

    def images_by(self, machine: FakeMachine) -> Sequence[OrphanFiles]:
        """See `FakeNetwork.images_by`."""
        found: list[OrphanFiles] = []
        for path in sorted((self._folder / "stored").glob(f"{_IMAGE}-*.json")):
            image_id = path.stem.removeprefix(f"{_IMAGE}-")
            image = self.image(image_id)
            if image is not None and image.host == machine.name:
                found.append(
                    OrphanFiles(image_id, image.at_s, address=f"{IMAGE_ADDRESS}{image_id}")
                )
        return found

    def drop_image(self, image_id: str) -> None:
        """See `FakeNetwork.drop_image`."""
        self._remove(_name("stored", _IMAGE, image_id))

    def forget(self, machine: FakeMachine, instance_uuid: str) -> None:
        """See `FakeNetwork.forget`."""
        home = _home_of(machine.name)
        for kind in (_WAITING, _ARRIVED, _DISKS):
            self._remove(_name(home, kind, instance_uuid))

    def _read(self, name: str, kind: type[T]) -> T | None:
        """Return the content of a file, or None if there is no such file.

        Raises:
            DriverError: the file cannot be read.
        """
        path = self._folder / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise DriverError(f"cannot read {path} ({error}); check the file") from error

    def _write(self, name: str, content: msgspec.Struct | FakeImage) -> None:
        """Write a file so that it appears complete.

        Raises:
            DriverError: the file cannot be written.
        """
        path = self._folder / name
        part = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(exist_ok=True, mode=_MODE)
            part.write_bytes(msgspec.json.encode(content))
            part.replace(path)
        except OSError as error:
            raise DriverError(
                f"cannot write {path} ({error.strerror}); check the folder's permissions"
            ) from error

    def _remove(self, name: str) -> bool:
        """Delete a file and return whether it existed.

        Raises:
            DriverError: the file cannot be deleted.
        """
        path = self._folder / name
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise DriverError(
                f"cannot delete {path} ({error.strerror}); check the folder's permissions"
            ) from error
        return True


def _home_of(host: str) -> str:
    """Return the folder of a host: its name, or a digest if it is not a valid file name."""
    if _FOLDER.fullmatch(host) is None:
        host = hashlib.sha256(host.encode(errors="surrogatepass")).hexdigest()
    return f"hosts/{host}"


def _name(folder: str, kind: str, instance_uuid: str) -> str:
    """Return the path of a file in the shared folder.

    Raises:
        DriverError: the uuid cannot be part of a file name.
    """
    if _KEY.fullmatch(instance_uuid) is None:
        raise DriverError(f"{instance_uuid!r} is not the UUID of an instance")
    return f"{folder}/{kind}-{instance_uuid}.json"
