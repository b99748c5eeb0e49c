"""The driver of a compute host, which runs the guests there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.former_names import former_name

if not TYPE_CHECKING:
    # Type checkers must not see this: they assume that a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Return the object that a former name of this module refers to."""
        return former_name(__name__, name)


IMAGE_ADDRESS: Final = "image:"
"""The start of the addresses of images in the storage; the id of the image follows."""

_AMOUNT_MAX: Final = 2**63 - 1
_TEXT_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class ChildReport:
    """A part of a host with inventories of its own, such as a GPU.

    `name` is unique among the host's children. `parent` is the name of the enclosing child; empty
    for a direct part of the host.
    """

    name: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    traits: frozenset[str] = frozenset()
    parent: str = ""


@dataclass(frozen=True, slots=True)
class HostReport:
    """The description of a host: its record, its root provider and its parts.

    The receiver ignores the provider's `used` and fills in the host's `child_uuids`.
    """

    host: Host
    provider: Provider
    children: tuple[ChildReport, ...] = ()


class Power(StrEnum):
    """The power state of a guest, as its host sees it."""

    RUNNING = "running"
    PAUSED = "paused"
    """The guest's CPUs are stopped; its memory stays on the host."""
    SUSPENDED = "suspended"
    """The guest's memory is saved to disk."""
    STOPPED = "stopped"
    CRASHED = "crashed"
    """The guest ended without a request to stop."""


class DriverFeature(StrEnum):
    """An optional feature of drivers. Every driver supports all operations not listed here."""

    PAUSE = "pause"
    SUSPEND = "suspend"
    RESET = "reset"
    RESIZE_LIVE = "resize_live"
    LIVE_MIGRATION = "live_migration"
    CONSOLE = "console"
    DIAGNOSTICS = "diagnostics"
    VNC = "vnc"
    """Running guests have a screen, a keyboard and a mouse that VNC clients can use."""
    EVENTS = "events"
    DISKS = "disks"
    """Cold migrations and shelving can transfer the disks."""
    IMAGES = "images"
    """Images can be made from the root disks of guests."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest that runs or is defined on a host.

    An orphan (`is_orphan`) bears Berth's mark but has no record on this host; agents report it and
    leave it alone. If `waits` is set, the guest is the target of a live migration that has not
    completed. `reason` explains the power state; it may be empty.
    """

    instance_uuid: str
    power: Power
    reason: str = ""
    is_orphan: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """Files on a host that belong to no guest, or the disks that a host has stored.

    If `address` is empty, the files lie where the instance's guest would have its own; a crash or a
    lost record left them behind, and `destroy` deletes them. Otherwise they are disks that this
    host stored at the address, or an image there (`IMAGE_ADDRESS`), and `drop_stored` deletes them.
    An image has its own id in place of the instance's. `since_s` is the time of the last
    write in Unix seconds; `size_bytes` is the space that the files occupy.
    """

    instance_uuid: str
    since_s: float
    size_bytes: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True)
class GuestEvent:
    """A hint that a guest has changed; the guest list gives the actual state."""

    instance_uuid: str
    power: Power
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """The bytes and requests that a guest has read from and written to one disk since its start.

    `name` is the name of the disk in the guest, such as `vda`. `errors` counts failed requests; it
    is None if the host does not count them.
    """

    name: str
    read_bytes: int
    read_requests: int
    write_bytes: int
    write_requests: int
    errors: int | None = None


@dataclass(frozen=True, slots=True)
class GuestDiagnostics:
    """The resource usage of a running guest, as its host measures it.

    `hypervisor` is the name of the hypervisor, such as `kvm`. `cpu_times_ns` has the CPU time of
    each virtual CPU since the start of the guest, in nanoseconds. Memory is in KiB: `memory_kb` is
    the memory of the guest, `memory_used_kb` the part that the guest may use now, and
    `memory_rss_kb` the part that is resident in the host's memory, or None if that is unknown.
    """

    hypervisor: str
    cpu_times_ns: tuple[int, ...]
    memory_kb: int
    memory_used_kb: int
    memory_rss_kb: int | None = None
    disks: tuple[DiskCounters, ...] = ()

    def __post_init__(self) -> None:
        """Reject amounts outside 0 to 2**63 - 1, and texts of more than 255 characters.

        Raises:
            InvalidInputError: an amount or a text is out of bounds.
        """
        amounts = [*self.cpu_times_ns, self.memory_kb, self.memory_used_kb, self.memory_rss_kb or 0]
        for disk in self.disks:
            amounts += [disk.read_bytes, disk.read_requests, disk.write_bytes, disk.write_requests]
            amounts.append(disk.errors or 0)
        if any(not 0 <= amount <= _AMOUNT_MAX for amount in amounts):
            raise InvalidInputError("diagnostics", f"has an amount outside 0 to {_AMOUNT_MAX}")
        texts = (self.hypervisor, *(disk.name for disk in self.disks))
        if any(len(text) > _TEXT_MAX for text in texts):
            raise InvalidInputError("diagnostics", f"has a text of over {_TEXT_MAX} characters")


class ByteStream(Protocol):
    """A connection that carries bytes in both directions."""

    async def read(self, bytes_max: int) -> bytes:
        """Return the next 1 to `bytes_max` bytes; no bytes at the end of the connection.

        A cancelled call may lose bytes that have arrived. Only one call may wait at a time.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; return once the connection has accepted them.

        Raises:
            DriverError: the connection has ended.
        """
        ...

    def close(self) -> None:
        """End the connection; repeated calls have no effect."""
        ...


class VirtDriver(Protocol):
    """A virtualisation driver. All methods are idempotent.

    Unless documented otherwise, a method raises `DriverError` if the guest does not exist on this
    host or the driver lacks the feature.
    """

    # Agents repeat operations after a crash, and after reports whose outcome they do not know
    # (docs/adr/0004-commands-are-states.md), so every method must be idempotent.
    @property
    def verbs(self) -> frozenset[DriverFeature]:
        """The optional features that the driver supports."""
        ...

    async def report(self) -> HostReport:
        """Return the current description and inventory of the host."""
        ...

    async def guests(self) -> Sequence[Guest]:
        """Return all guests on the host, including stopped ones and orphans, sorted by UUID.

        A guest that waits for a live migration is reported as paused.
        """
        ...

    async def spawn(self, instance: Instance) -> None:
        """Start a guest: a new one, or one that is stopped, crashed or suspended.

        A running guest keeps running, and a paused one stays paused. If the instance is rescued
        (`rescue_image_of`), a new, stopped or crashed guest boots from the rescue image, whose disk
        comes before its own disks; otherwise it boots from its own disks, and the rescue disk is
        deleted.

        Raises:
            BuildError: the guest could not be started. Nothing remains of a guest that did not
                exist before.
        """
        ...

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """Stop a guest and keep its disks; succeed if the guest is stopped or missing already.

        The driver presses the power button every 2 seconds for up to `grace_s` seconds, and powers
        the guest off if it still runs then. If `grace_s` is 0, it is powered off immediately.

        Raises:
            DriverError: the guest is the target of a live migration, or could not be stopped.
        """
        ...

    async def reset(self, instance_uuid: str) -> None:
        """Restart a running guest without its cooperation.

        Raises:
            DriverError: the guest is not running.
        """
        ...

    async def pause(self, instance_uuid: str) -> None:
        """Pause a running guest.

        Raises:
            DriverError: the guest is neither running nor paused.
        """
        ...

    async def unpause(self, instance_uuid: str) -> None:
        """Resume a paused guest.

        Raises:
            DriverError: the guest is neither running nor paused.
        """
        ...

    async def suspend(self, instance_uuid: str) -> None:
        """Save the memory of a guest to disk and stop it.

        Raises:
            DriverError: the guest is neither running, paused nor suspended.
        """
        ...

    async def resume(self, instance_uuid: str) -> None:
        """Resume a suspended guest from its saved memory.

        Raises:
            DriverError: the guest is neither running nor suspended.
        """
        ...

    async def destroy(self, instance_uuid: str) -> None:
        """Power off a guest and delete all its files; succeed if the guest does not exist."""
        ...

    async def resize(self, instance: Instance) -> bool:
        """Give the guest the size of the instance's flavor. Disks other than swap never shrink.

        Returns:
            True if the new size is effective now, False if it becomes effective at the next start.
        """
        ...

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """Return the last `bytes_max` bytes that the guest wrote to its serial console."""
        ...

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Return the resource usage of a running guest.

        Raises:
            DriverError: the guest is not running.
            UnsupportedFeatureError: the driver has no diagnostics.
        """
        ...

    async def open_vnc(self, instance_uuid: str) -> ByteStream:
        """Connect to the VNC server of a running or paused guest, which begins with its version.

        The server (RFC 6143) asks for no password. Several connections to a guest may be open, and
        each ends when the guest stops, is destroyed, or leaves the host.

        Raises:
            DriverError: the guest is neither running nor paused.
            UnsupportedFeatureError: the driver has no VNC, or the guest has run without it since
                its start.
        """
        ...

    async def uptime(self) -> str:
        """Return the line that the program `uptime` prints on the host: time since boot, load."""
        ...

    async def take_in(self, instance: Instance) -> str:
        """Create a waiting guest on this host as the target of a live migration.

        Returns:
            The address for `hand_over` on the source host; repeated calls return the same address.

        Raises:
            BuildError: the guest could not be created; nothing of it remains.
        """
        ...

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """Migrate a running guest to the address that `take_in` returned, without stopping it.

        On return the guest runs there and nothing of it remains here.

        Raises:
            MigrationError: the guest keeps running here.
            UnavailableError: it is currently unknown whether the guest is here or there.
        """
        ...

    async def cancel_hand_over(self, instance_uuid: str) -> None:
        """Abort a `hand_over` in progress; succeed if none is in progress."""
        ...

    async def offer_disks(self, instance_uuid: str) -> str:
        """Serve the disks of a stopped guest to another host.

        The offer ends when the guest is started, stopped again, resized or destroyed.

        Returns:
            The address for `fetch_disks`.

        Raises:
            DriverError: the guest is not stopped, or its disks could not be served.
        """
        ...

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """Create a stopped guest here with the disks that are served or stored at an address.

        If the guest already exists here, nothing changes.

        Raises:
            BuildError: the guest could not be created; nothing of it remains.
        """
        ...

    async def store_disks(self, instance_uuid: str) -> str:
        """Copy the disks of a stopped guest to storage that every host can reach.

        Returns:
            The address for `fetch_disks`; repeated calls return the same address.

        Raises:
            DriverError: no such storage is configured, the guest is not stopped, or copying failed.
        """
        ...

    async def drop_stored(self, address: str) -> None:
        """Delete disks stored by `store_disks`, or an image (`IMAGE_ADDRESS`).

        If they have already been deleted, the method succeeds.
        """
        ...

    async def store_image(self, instance_uuid: str, image_id: str) -> ImageSize:
        """Copy the root disk of a guest, as of one moment, to storage that every host can reach.

        The guest may be running, paused, suspended or stopped, and stays so. Guests on every host
        can then boot from the image. If the image is already stored, nothing changes. When the call
        is cancelled or fails, nothing of the image remains.

        Raises:
            DriverError: no such storage is configured, the guest has no root disk, or copying
                failed.
        """
        ...

    async def leftovers(self, image: str = "") -> Sequence[OrphanFiles]:
        """Return the files that belong to no guest on this host, and all disks that it has stored.

        Of the images of other hosts, each call names the next ones in turn. Another operation may
        be using what is found; the caller must rule that out before deleting any.

        Args:
            image: the address of an image; only what is stored there is then returned.
        """
        ...

    # Hints only shorten delays: agents also list their guests at intervals, so none is essential.
    def events(self) -> AsyncIterator[GuestEvent]:
        """Yield hints of changes from now on; some may be lost."""
        ...
