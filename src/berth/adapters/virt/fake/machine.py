"""Fake machines, which outlive their agents."""

import asyncio
from dataclasses import dataclass

from berth.adapters.virt.guest_events import GuestEventHub
from berth.domain.compute.flavor import Flavor
from berth.ports.virt import GuestEvent, Power


@dataclass(slots=True)
class FakeGuest:
    """One guest: its size, power state and disk content.

    `boots` counts its starts. A guest that `hangs` ignores the power button. A guest that `waits`
    is the target of a live migration. Other hosts can fetch its disks while they are `offered`.
    """

    flavor: Flavor
    wanted: Flavor
    """The size from the next start on."""
    power: Power = Power.RUNNING
    reason: str = ""
    boots: int = 1
    disk: str = ""
    hangs: bool = False
    waits: bool = False
    offered: bool = False
    is_orphan: bool = False
    started_s: float = 0.0
    """The Unix time of its last start on this machine."""
    rescue_image: str = ""
    """The image from which a rescued guest has booted; empty for a guest on its own disks."""


class FakeMachine:
    """The part of a fake host that survives its driver, as guests survive a dead agent."""

    # Slots save memory: a fake fleet has many machines in one process.
    __slots__ = ("__weakref__", "events", "files", "guests", "moves", "name", "stored")

    def __init__(self, name: str) -> None:
        self.name = name
        self.guests: dict[str, FakeGuest] = {}
        self.files: dict[str, float] | None = None
        """Files without a guest, by instance, with the Unix time of the last write."""
        self.stored: dict[str, float] | None = None
        """The Unix time at which this machine stored disks, by instance."""
        self.moves: dict[str, asyncio.Task[None]] = {}
        """The live migrations in progress away from this machine, by instance."""
        self.events = GuestEventHub()

    def set_power(self, instance_uuid: str, power: Power, reason: str = "") -> None:
        """Change the power state of a guest, and publish the event."""
        guest = self.guests[instance_uuid]
        guest.power, guest.reason = power, reason
        self.events.publish(GuestEvent(instance_uuid, power, reason))

    def start(self, instance_uuid: str) -> None:
        """Start a guest from its disks, with its wanted size."""
        guest = self.guests[instance_uuid]
        guest.flavor, guest.hangs, guest.offered = guest.wanted, False, False
        guest.boots += 1
        self.set_power(instance_uuid, Power.RUNNING)
