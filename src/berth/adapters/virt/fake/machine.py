"""Fake machines: what stays when an agent dies, and how machines reach each other."""

import asyncio
from dataclasses import dataclass
from weakref import WeakValueDictionary

from berth.adapters.virt.guest_events import GuestEventHub
from berth.domain.compute.flavor import Flavor
from berth.ports.virt import GuestEvent, Power


@dataclass(slots=True)
class FakeGuest:
    """One guest: its size, its life, and what is on its disks.

    `boots` counts its starts. One that `hangs` does not hear the power button. One that `waits`
    is the target of a live migration. Other hosts may fetch the disks when they are `offered`.
    """

    flavor: Flavor
    wanted: Flavor
    """The size that it is to have from its next start on."""
    power: Power = Power.RUNNING
    reason: str = ""
    boots: int = 1
    disk: str = ""
    hangs: bool = False
    waits: bool = False
    offered: bool = False
    is_orphan: bool = False


class FakeMachine:
    """A machine that goes on when the driver, and the process that it stands for, is gone."""

    __slots__ = ("__weakref__", "events", "files", "guests", "moves", "name", "stored")

    def __init__(self, name: str) -> None:
        self.name = name
        self.guests: dict[str, FakeGuest] = {}
        self.files: dict[str, float] | None = None
        """Files without a guest, by instance, with the Unix time at which they were written."""
        self.stored: dict[str, float] | None = None
        """When disks were stored from here, by instance."""
        self.moves: dict[str, asyncio.Task[None]] = {}
        """Live migrations away from here that are going on."""
        self.events = GuestEventHub()

    def set_power(self, instance_uuid: str, power: Power, reason: str = "") -> None:
        """Have a guest do something else, and tell those who follow."""
        guest = self.guests[instance_uuid]
        guest.power, guest.reason = power, reason
        self.events.publish(GuestEvent(instance_uuid, power, reason))

    def start(self, instance_uuid: str) -> None:
        """Have a guest start from its disks, with the size that it is to have."""
        guest = self.guests[instance_uuid]
        guest.flavor, guest.hangs, guest.offered = guest.wanted, False, False
        guest.boots += 1
        self.set_power(instance_uuid, Power.RUNNING)


class FakeNetwork:
    """Where fake machines find each other, by address, and what all of them can read."""

    def __init__(self) -> None:
        self.machines: WeakValueDictionary[str, FakeMachine] = WeakValueDictionary()
        self.stored: dict[str, str] = {}
        """What is on disks that are stored, by address."""
