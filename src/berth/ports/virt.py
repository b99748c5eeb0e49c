"""The driver of a compute host: what starts and stops the instances there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory


@dataclass(frozen=True, slots=True)
class ChildReport:
    """A part of a host with inventories of its own, such as one GPU.

    `name` tells it from the host's other children. `parent` is the name of the child that it is
    a part of; empty when it is a part of the host itself.
    """

    name: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    traits: frozenset[str] = frozenset()
    parent: str = ""


@dataclass(frozen=True, slots=True)
class HostReport:
    """What a host is and has: its record, its root provider (`used` is ignored), its parts.

    The host's `child_uuids` are ignored too: whoever takes the report in fills them in.
    """

    host: Host
    provider: Provider
    children: tuple[ChildReport, ...] = ()


class Power(StrEnum):
    """What a guest is doing, as its host sees it."""

    RUNNING = "running"
    PAUSED = "paused"
    """Its processors stand still, its memory is kept on the host."""
    SUSPENDED = "suspended"
    """Its memory is kept on disk."""
    STOPPED = "stopped"
    CRASHED = "crashed"
    """It ended, and nobody had asked for it."""


class DriverFeature(StrEnum):
    """What a driver may lack; whatever is no part of this every driver can do."""

    PAUSE = "pause"
    SUSPEND = "suspend"
    RESET = "reset"
    RESIZE_LIVE = "resize_live"
    LIVE_MIGRATION = "live_migration"
    CONSOLE = "console"
    EVENTS = "events"
    DISKS = "disks"
    """Moves of stopped guests, and shelving, can carry the disks."""


@dataclass(frozen=True, slots=True)
class Guest:
    """What runs, or could run, for an instance on a host.

    An orphan bears Berth's mark and has no record here; it is reported and never killed. One that
    `waits` is the target of a live migration whose guest has not arrived.
    """

    instance_uuid: str
    power: Power
    reason: str = ""
    is_orphan: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Files that no guest here has: what a crash, or a lost record, leaves behind.

    Without an `address` they are where a guest of the instance would be, and `destroy` deletes
    them. Else they are disks that this host has stored, and `drop_stored` does. `since_s` is when
    they were last written (Unix seconds), `size_bytes` what they take.
    """

    instance_uuid: str
    since_s: float
    size_bytes: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True)
class GuestEvent:
    """A hint that a guest has changed; list the guests to know."""

    instance_uuid: str
    power: Power
    reason: str = ""


class VirtDriver(Protocol):
    """A virtualisation driver. Every method may be repeated and must then do no harm.

    A guest that is not here makes a method raise `DriverError`, unless its docstring says that
    it succeeds. So does a verb that the driver lacks.
    """

    @property
    def verbs(self) -> frozenset[DriverFeature]:
        """What it can do of that which drivers may lack."""
        ...

    async def report(self) -> HostReport:
        """Return the host's present description and inventory."""
        ...

    async def guests(self) -> Sequence[Guest]:
        """Return what is on the host, by uuid: stopped guests and orphans too.

        One that waits for a live migration is paused.
        """
        ...

    async def spawn(self, instance: Instance) -> None:
        """Have a guest run: a new one, or one that is stopped, has crashed or is suspended.

        One that runs goes on; one that is paused stays so.

        Raises:
            BuildError: it could not be started; nothing is left of one that was not there before.
        """
        ...

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """Stop a guest; its disks stay. One that is stopped or not there is a success.

        The power button is pressed every 2 seconds for `grace_s`, then it is cut off. With 0 it
        is cut off at once.
        """
        ...

    async def reset(self, instance_uuid: str) -> None:
        """Start a running guest over without asking it.

        Raises:
            DriverError: it does not run.
        """
        ...

    async def pause(self, instance_uuid: str) -> None:
        """Let a running guest stand still.

        Raises:
            DriverError: it neither runs nor is paused.
        """
        ...

    async def unpause(self, instance_uuid: str) -> None:
        """Let a paused guest go on.

        Raises:
            DriverError: it neither runs nor is paused.
        """
        ...

    async def suspend(self, instance_uuid: str) -> None:
        """Write the memory of a guest to disk and stop it.

        Raises:
            DriverError: it neither runs, nor is paused or suspended.
        """
        ...

    async def resume(self, instance_uuid: str) -> None:
        """Let a suspended guest go on where it was.

        Raises:
            DriverError: it neither runs nor is suspended.
        """
        ...

    async def destroy(self, instance_uuid: str) -> None:
        """Stop a guest at once and free all it had; one that is not there is a success."""
        ...

    async def resize(self, instance: Instance) -> bool:
        """Give the guest the size of the instance's flavor; no disk but swap shrinks.

        Returns:
            True when it has that size now, False when it will have it at its next start.
        """
        ...

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """Return the end of what the guest wrote to its serial console."""
        ...

    async def take_in(self, instance: Instance) -> str:
        """Be the target of a live migration: make a guest that waits.

        Returns:
            The address for `hand_over` on the other host; the same when repeated.

        Raises:
            BuildError: it could not be made; nothing of it is left.
        """
        ...

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """Move a running guest to where `take_in` was called, without stopping it.

        Returns when it runs there and nothing of it is left here.

        Raises:
            MigrationError: it goes on here.
            UnavailableError: it may be here or there, and cannot be asked for now.
        """
        ...

    async def cancel_hand_over(self, instance_uuid: str) -> None:
        """Have a `hand_over` that is going on fail; without one it is a success."""
        ...

    async def offer_disks(self, instance_uuid: str) -> str:
        """Let another host fetch the disks of a stopped guest.

        Until it starts, is to stop again, gets another size, or is destroyed.

        Returns:
            The address for `fetch_disks`.
        """
        ...

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """Make a guest here, stopped, with the disks that an address offers.

        One that is here already is a success.

        Raises:
            BuildError: it could not be made; nothing of it is left.
        """
        ...

    async def store_disks(self, instance_uuid: str) -> str:
        """Copy the disks of a stopped guest to where every host finds them.

        Returns:
            The address for `fetch_disks`; the same when repeated.

        Raises:
            DriverError: no such place is configured.
        """
        ...

    async def drop_stored(self, address: str) -> None:
        """Delete what `store_disks` has stored; it may be gone already."""
        ...

    async def leftovers(self) -> Sequence[OrphanFiles]:
        """Return files that no guest here has, and all disks that this host has stored.

        Somebody may be at work on them; whoever is to delete them makes sure that nobody is.
        """
        ...

    def events(self) -> AsyncIterator[GuestEvent]:
        """Yield hints of changes from now on; some may be missing."""
        ...
