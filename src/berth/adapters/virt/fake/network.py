"""The network between the fake machines of one process."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit
from weakref import WeakValueDictionary

from berth.adapters.virt.fake.machine import FakeGuest, FakeMachine
from berth.domain.errors import DriverError
from berth.ports.virt import IMAGE_ADDRESS, OrphanFiles

_STORED = "fake+stored:///"


def not_waiting(address: str) -> DriverError:
    """Return the error of a live migration to an address where no guest waits."""
    return DriverError(f"no guest waits for a live migration at {address!r}")


class FakeImage(NamedTuple):
    """An image in the shared storage, with its content, the host that made it, and its time."""

    disk: str
    host: str
    at_s: float


class FakeNetwork:
    """Connects the fake machines of a process: live migrations, disks, and the shared storage.

    Each method takes effect in one step. See `FolderNetwork` for machines of several processes.
    """

    def __init__(self) -> None:
        # The references are weak, so that the shared default network keeps no machines of earlier
        # tests alive.
        self.machines: WeakValueDictionary[str, FakeMachine] = WeakValueDictionary()
        self.stored: dict[str, str] = {}
        """The content of stored disks, by address."""
        self.images: dict[str, FakeImage] = {}

    def take_in(self, machine: FakeMachine, instance_uuid: str) -> str:
        """Announce a guest that waits for a live migration, and return the address."""
        return self._show("migrate", machine, instance_uuid)

    def receive(self, machine: FakeMachine) -> None:
        """Complete the live migrations that have reached a machine since the last call."""

    def hand_over(self, instance_uuid: str, guest: FakeGuest, address: str) -> None:
        """Let the guest that waits at an address continue as a running or paused guest.

        The caller removes the guest from the source in the same step.

        Raises:
            DriverError: no guest waits there.
        """
        target = self.machines.get(address)
        arrived = target.guests.get(instance_uuid) if target is not None else None
        if target is None or arrived is None or not arrived.waits:
            raise not_waiting(address)
        arrived.boots, arrived.disk, arrived.waits = guest.boots, guest.disk, False
        target.set_power(instance_uuid, guest.power)
        del self.machines[address]

    def offer(self, machine: FakeMachine, instance_uuid: str) -> str:
        """Offer the disk of a guest to other machines, and return the address."""
        return self._show("disks", machine, instance_uuid)

    def withdraw(self, machine: FakeMachine, instance_uuid: str) -> None:
        """Withdraw the offer of a guest's disk, if there is one."""
        self.machines.pop(_address("disks", machine, instance_uuid), None)

    def disk_at(self, address: str) -> str | None:
        """Return the content of the disk that is offered or stored at an address, or None."""
        disk = self.stored.get(address)
        if disk is None and (source := self.machines.get(address)) is not None:
            there = source.guests.get(urlsplit(address).path.strip("/"))
            disk = there.disk if there is not None and there.offered else None
        return disk

    def store(self, machine: FakeMachine, instance_uuid: str, at_s: float) -> str:
        """Copy the disk of a guest to the shared storage, and return the address."""
        address = f"{_STORED}{instance_uuid}"
        self.stored[address] = machine.guests[instance_uuid].disk
        if machine.stored is None:
            machine.stored = {}
        machine.stored.setdefault(instance_uuid, at_s)
        return address

    def stored_by(self, machine: FakeMachine) -> Sequence[OrphanFiles]:
        """Return the disks in the shared storage that a machine has put there."""
        stored = machine.stored or {}
        for uuid in [uuid for uuid in stored if f"{_STORED}{uuid}" not in self.stored]:
            del stored[uuid]
        found = sorted(stored.items())
        return [OrphanFiles(uuid, at_s, address=f"{_STORED}{uuid}") for uuid, at_s in found]

    def drop(self, address: str) -> None:
        """Delete the stored disk at an address, if there is one."""
        self.stored.pop(address, None)

    def store_image(self, machine: FakeMachine, image_id: str, disk: str, at_s: float) -> None:
        """Put an image into the shared storage, unless it is there.

        Args:
            machine: the machine that makes the image.
            image_id: the id of the image.
            disk: the content of the image.
            at_s: Unix seconds.
        """
        self.images.setdefault(image_id, FakeImage(disk, machine.name, at_s))

    def image(self, image_id: str) -> FakeImage | None:
        """Return an image in the shared storage, or None if there is no such image."""
        return self.images.get(image_id)

    def images_by(self, machine: FakeMachine) -> Sequence[OrphanFiles]:
        """Return the images that a machine has put into the shared storage."""
        found = sorted(self.images.items())
        return [
            OrphanFiles(uuid, one.at_s, address=f"{IMAGE_ADDRESS}{uuid}")
            for uuid, one in found
            if one.host == machine.name
        ]

    def drop_image(self, image_id: str) -> None:
        """Delete an image from the shared storage, if it is there."""
        self.images.pop(image_id, None)

    def forget(self, machine: FakeMachine, instance_uuid: str) -> None:
        """End all offers and announcements of a guest."""
        self.withdraw(machine, instance_uuid)
        self.machines.pop(_address("migrate", machine, instance_uuid), None)

    def _show(self, scheme: str, machine: FakeMachine, instance_uuid: str) -> str:
        address = _address(scheme, machine, instance_uuid)
        self.machines[address] = machine
        return address


def _address(scheme: str, machine: FakeMachine, instance_uuid: str) -> str:
    return f"fake+{scheme}://{quote(machine.name, safe='')}/{instance_uuid}"
