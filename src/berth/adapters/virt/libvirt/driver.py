"""The libvirt driver; see the port `VirtDriver`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from berth.adapters.virt import disks, nbd_export
from berth.adapters.virt.disk_storage import SharedDiskStorage
from berth.adapters.virt.guest_disks import ROOT, GuestSize
from berth.adapters.virt.guest_events import GuestEventHub
from berth.adapters.virt.guest_folder import leftover_folders, os_errors_as_driver_errors, tail
from berth.adapters.virt.image_storage import ServerImages
from berth.adapters.virt.images import Images
from berth.adapters.virt.inventory import InventorySettings, report_of
from berth.adapters.virt.libvirt import binding, hardware, states
from berth.adapters.virt.libvirt.builder import LibvirtBuilder
from berth.adapters.virt.libvirt.connection import LibvirtConnection
from berth.adapters.virt.libvirt.disk_backup import back_up_disk
from berth.adapters.virt.libvirt.guest_registry import LibvirtGuestRegistry, ObservedGuest
from berth.adapters.virt.libvirt.host import LibvirtHost, hypervisor_of
from berth.adapters.virt.libvirt.migration import LibvirtMigration, abort_job
from berth.adapters.virt.libvirt.power_off import force_off, press_power_button
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.adapters.virt.libvirt.states import diagnostics_of, vnc_socket_of
from berth.adapters.virt.machine_facts import Linux
from berth.adapters.virt.refusals import IS_RESCUED, IS_TARGET, NO_VNC
from berth.adapters.virt.vnc_socket import SocketStream
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.compute.rescue import rescue_image_of
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import (
    DriverError,
    MigrationError,
    UnavailableError,
    UnsupportedFeatureError,
)
from berth.ports.clock import Clock
from berth.ports.virt import (
    IMAGE_ADDRESS,
    ByteStream,
    DriverFeature,
    Guest,
    GuestDiagnostics,
    GuestEvent,
    HostReport,
    OrphanFiles,
    Power,
)

_T = TypeVar("_T")
_LIVE = (Power.RUNNING, Power.PAUSED)
_VERBS = frozenset(DriverFeature) - {DriverFeature.RESIZE_LIVE}
_changed = msgspec.structs.replace


class LibvirtDriver:
    """Runs each guest as a persistent domain of libvirtd, with the driver's record as metadata.

    libvirtd and the guests outlive the agent, and the guests outlive libvirtd. The next driver of
    the same host finds all guests.
    """

    def __init__(
        self, host: LibvirtHost, images: Images, clock: Clock, stock: InventorySettings
    ) -> None:
        """Create a driver, without connecting to libvirtd.

        Args:
            host: the host's settings.
            images: the host's image files.
            clock: provides the time.
            stock: the operator's settings for the host's inventory.
        """
        self._host = host
        self._events = GuestEventHub()
        self._connection = LibvirtConnection(
            host.uri, host.calls_max, self._events.publish, self._on_return
        )
        self._registry = LibvirtGuestRegistry(host, self._connection)
        reserved_gb = host.storage_reserved_gb
        self._images = ServerImages(host.storage_dir, host.name, images, reserved_gb)
        self._builder = LibvirtBuilder(host, self._images, self._connection, self._registry)
        self._storage = SharedDiskStorage(host.storage_dir, host.name, host.move_networks)
        self._stock = stock
        self._clock = clock
        # The lock of each guest, which disappears when no operation holds or awaits it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._moves: dict[str, LibvirtMigration] = {}
        self._telling: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Disconnect from libvirtd; the guests keep running."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})
        await self._connection.close()

    @property
    def verbs(self) -> frozenset[DriverFeature]:
        """See `VirtDriver.verbs`. The result has all features except `RESIZE_LIVE`."""
        return _VERBS

    async def report(self) -> HostReport:
        """See `VirtDriver.report`."""
        accelerator = await self._builder.accelerator()
        hypervisor = await self._connection.call(
            lambda connect: hypervisor_of(connect, self._host, accelerator)
        )
        guests = len(await self._registry.all())
        return await asyncio.to_thread(report_of, self._host.name, self._stock, hypervisor, guests)

    async def guests(self) -> Sequence[Guest]:
        """See `VirtDriver.guests`."""
        found = [await self._with_recorded_end(one) for one in await self._registry.all()]
        guests = [_guest_of(one) for one in found if one is not None]
        return sorted(guests, key=lambda guest: guest.instance_uuid)

    async def spawn(self, instance: Instance) -> None:
        """See `VirtDriver.spawn`."""
        async with self._lock(instance.uuid):
            try:
                seen = await self._registry.find(instance.uuid)
                if seen is not None:
                    await self._start(seen, rescue_image_of(instance))
                    return
                made = await self._build(instance)
                await self._start_new(made, rescue_image_of(instance))
            except BuildError:
                raise
            except (DriverError, OSError) as error:
                raise BuildError(str(error)) from error

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """See `VirtDriver.stop`."""
        async with self._lock(instance_uuid):
            seen = await self._registry.find(instance_uuid)
            if seen is None or seen.record is None:
                return
            if seen.record.waits:
                raise DriverError(f"cannot stop guest {instance_uuid}: {IS_TARGET}")
            known = await self._builder.withdraw(seen.record)
            is_free, is_written = True, known.power is Power.STOPPED
            stopped = _changed(known, power=Power.STOPPED, reason="")
            if seen.power[0] is Power.RUNNING:
                is_free = await press_power_button(
                    self._connection, self._clock, instance_uuid, grace_s
                )
            # The state is recorded before the guest is off: if the agent and libvirtd died in
            # between, the guest would otherwise count as crashed. While QEMU hangs, libvirt cannot
            # change the record, which is then written afterwards.
            if is_free and not is_written:
                is_written = await self._registry.try_to_write(stopped)
            await self._connection.on(instance_uuid, force_off)
            if not is_written:
                await self._registry.write(stopped)
            self._events.publish(GuestEvent(instance_uuid, Power.STOPPED))

    async def reset(self, instance_uuid: str) -> None:
        """See `VirtDriver.reset`."""
        async with self._locked_guest(instance_uuid, Power.RUNNING):
            await self._connection.on(instance_uuid, lambda domain: domain.reset())

    async def pause(self, instance_uuid: str) -> None:
        """See `VirtDriver.pause`."""
        async with self._locked_guest(instance_uuid, *_LIVE):
            await self._connection.on(instance_uuid, lambda domain: domain.suspend())

    async def unpause(self, instance_uuid: str) -> None:
        """See `VirtDriver.unpause`."""
        async with self._locked_guest(instance_uuid, *_LIVE) as (seen, _):
            if seen.power[0] is Power.PAUSED:
                await self._connection.on(instance_uuid, lambda domain: domain.resume())

    async def suspend(self, instance_uuid: str) -> None:
        """See `VirtDriver.suspend`."""
        async with self._locked_guest(instance_uuid, *_LIVE, Power.SUSPENDED) as (seen, _):
            if seen.power[0] is not Power.SUSPENDED:
                await self._connection.on(
                    instance_uuid, lambda domain: domain.managedSave(binding.SAVE_RUNNING)
                )

    async def resume(self, instance_uuid: str) -> None:
        """See `VirtDriver.resume`."""
        async with self._locked_guest(instance_uuid, Power.RUNNING, Power.SUSPENDED) as (
            seen,
            known,
        ):
            if seen.power[0] is Power.SUSPENDED:
                await self._builder.start(seen, known)

    async def destroy(self, instance_uuid: str) -> None:
        """See `VirtDriver.destroy`. This also destroys an orphan, but no guest of another host."""
        async with self._lock(instance_uuid):
            await self._registry.find(instance_uuid)
            if not await self._registry.is_foreign(instance_uuid):
                await self._registry.clear(instance_uuid)

    async def resize(self, instance: Instance) -> bool:
        """See `VirtDriver.resize`. Only a stopped or crashed guest is resized immediately."""
        async with self._locked_guest(instance.uuid) as (seen, known):
            cells = hardware.check_hardware(instance)
            hardware.check_devices(instance, known)
            changed = _changed(known, wanted=GuestSize.of(instance.flavor), cells=cells)
            await self._registry.write(changed)
            if seen.power[0] in (Power.STOPPED, Power.CRASHED):
                changed = await self._builder.settle_size(await self._builder.withdraw(changed))
            return changed.size == changed.wanted

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `VirtDriver.console`."""
        if await self._registry.lookup(instance_uuid) is None:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        folder = self._registry.folder(instance_uuid)
        return await asyncio.to_thread(tail, folder.console, bytes_max)

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `VirtDriver.diagnostics`. This also works during a live migration."""
        # The guest's lock is not taken, because a live migration holds it for its whole duration.
        seen = await self._registry.lookup(instance_uuid)
        if seen is None or seen.record is None or seen.record.host != self._host.name:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        power, _ = seen.power
        if power is not Power.RUNNING:
            raise DriverError(f"guest {instance_uuid} is {power}; it must be running")
        return await self._connection.on(instance_uuid, diagnostics_of)

    async def open_vnc(self, instance_uuid: str) -> ByteStream:
        """See `VirtDriver.open_vnc`. This also works during a live migration."""
        # The guest's lock is not taken, because a live migration holds it for its whole duration.
        seen = await self._registry.lookup(instance_uuid)
        if seen is None or seen.record is None or seen.record.host != self._host.name:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        power, _ = seen.power
        if seen.record.waits or power not in (Power.RUNNING, Power.PAUSED):
            raise DriverError(f"guest {instance_uuid} is {power}; it must be running or paused")
        connected = await self._connection.on(instance_uuid, vnc_socket_of)
        if connected is None:
            raise UnsupportedFeatureError(NO_VNC)
        return SocketStream(connected)

    async def uptime(self) -> str:
        """See `VirtDriver.uptime`."""
        return await asyncio.to_thread(Linux().uptime)

    async def take_in(self, instance: Instance) -> str:
        """See `VirtDriver.take_in`. The guest is a domain without a process, with blank disks."""
        async with self._lock(instance.uuid):
            seen = await self._registry.find(instance.uuid)
            if seen is None:
                hardware.check_movable(instance)
                return (await self._build(instance, waits=True)).address
            if seen.record is None or not seen.record.waits:
                raise BuildError(
                    f"cannot receive guest {instance.uuid} by live migration, because it already "
                    "exists on this host"
                )
            return seen.record.address

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """See `VirtDriver.hand_over`.

        A MigrationError makes the destination destroy its guest. It is raised only when libvirt
        confirms that the guest is still here, or when no migration has begun.
        """
        folder = self._registry.folder(instance_uuid)
        async with self._lock(instance_uuid):
            # An earlier agent may have begun this migration; then the guest may already have left.
            has_begun = folder.is_leaving
            try:
                _, known = await self._known(instance_uuid, *_LIVE)
                has_begun = True
                await self._move(known, address)
            except (DriverError, OSError) as error:
                if await self._is_here(instance_uuid) or not has_begun:
                    reason = f"guest {instance_uuid} stays on this host: {error}"
                    raise MigrationError(reason) from error
            try:
                await self._registry.clear(instance_uuid)
            except (DriverError, OSError) as error:
                reason = f"guest {instance_uuid} has moved, but is not yet removed here: {error}"
                raise UnavailableError(reason) from error

    async def _move(self, known: GuestRecord, address: str) -> None:
        if known.rescue_image:
            raise DriverError(f"cannot move guest {known.uuid}: {IS_RESCUED}")
        folder, move = (
            self._registry.folder(known.uuid),
            LibvirtMigration(self._connection, known, self._host.move_networks),
        )
        self._moves[known.uuid] = move
        try:
            # The mark survives the agent. If the domain is gone when the next agent starts, the
            # guest has left, and that agent deletes the folder.
            folder.leave(leaves=True)
            await move.run(address)
        except DriverError:
            if await self._is_here(known.uuid):
                folder.leave(leaves=False)
            raise
        finally:
            del self._moves[known.uuid]

    async def _is_here(self, instance_uuid: str) -> bool:
        """Return whether a guest that was to be migrated is still here.

        Raises:
            UnavailableError: libvirtd does not answer. It controls the migration and may have
                completed it, so silence does not mean failure.
        """
        try:
            return await self._registry.lookup(instance_uuid) is not None
        except DriverError as error:
            reason = f"cannot determine whether guest {instance_uuid} has moved: {error}"
            raise UnavailableError(reason) from error

    async def cancel_hand_over(self, instance_uuid: str) -> None:
        """See `VirtDriver.cancel_hand_over`. An earlier agent may have started the migration."""
        move = self._moves.get(instance_uuid)
        await (abort_job(self._connection, instance_uuid) if move is None else move.cancel())

    async def offer_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.offer_disks`. QEMU's storage daemon exports the disks read-only."""
        async with self._locked_guest(instance_uuid, Power.STOPPED) as (_, known):
            folder = self._registry.folder(instance_uuid)
            if nbd_export.is_offered(folder, known.disks, known.address):
                return known.address
            await nbd_export.withdraw(folder)
            # The export is recorded before the daemon starts, because after a crash the next start
            # of the guest must look for the daemon and end it.
            await self._registry.write(_changed(known, address=nbd_export.BEGUN))
            address = await nbd_export.offer(folder, known.disks, self._host.move_address)
            await self._registry.write(_changed(known, address=address))
            return address

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """See `VirtDriver.fetch_disks`."""
        async with self._lock(instance.uuid):
            if await self._find_to_build(instance.uuid) is None:
                await self._build(instance, disks_at=self._storage.sources(address))

    async def store_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.store_disks`."""
        async with self._locked_guest(instance_uuid, Power.STOPPED) as (_, known):
            folder = self._registry.folder(instance_uuid)
            return await self._storage.store(folder, instance_uuid, known.disks)

    async def drop_stored(self, address: str) -> None:
        """See `VirtDriver.drop_stored`."""
        is_image = address.startswith(IMAGE_ADDRESS)
        await (self._images if is_image else self._storage).drop(address)

    async def store_image(self, instance_uuid: str, image_id: str) -> ImageSize:
        """See `VirtDriver.store_image`. A running guest is not interrupted."""
        async with self._locked_guest(instance_uuid) as (seen, known):
            if ROOT not in known.disks:
                raise DriverError(f"guest {instance_uuid} has no root disk to make an image of")
            folder = self._registry.folder(instance_uuid)

            async def copy(target: Path) -> None:
                if seen.power[0] not in _LIVE:
                    await disks.copy(str(folder.disk(ROOT)), target)
                    return
                # libvirt's QEMU may lack access to the storage, but can always write to the guest's
                # folder.
                own = folder.disk("image")
                own.unlink(missing_ok=True)  # an agent that died may have left a part of it
                reserved_bytes = disks.gigabytes(self._host.storage_reserved_gb)
                await disks.check_space(folder.disk(ROOT), folder.path, reserved_bytes)
                try:
                    await back_up_disk(self._connection, self._clock, known, own)
                    await disks.copy(str(own), target)
                finally:
                    own.unlink(missing_ok=True)

            return await self._images.store(image_id, known.image_id, folder.disk(ROOT), copy)

    async def leftovers(self, image: str = "") -> Sequence[OrphanFiles]:
        """See `VirtDriver.leftovers`. Leftover folders have no domain."""
        if image:
            return await self._images.leftovers_at(image)
        known = {one.uuid for one in await self._registry.all()}
        found = await asyncio.to_thread(leftover_folders, self._host.state_dir, known)
        return [*found, *await self._storage.mine(), *await self._images.leftovers()]

    def events(self) -> AsyncIterator[GuestEvent]:
        """See `VirtDriver.events`."""
        return self._events.subscribe()

    def _on_return(self) -> None:
        """Publish the state of all guests, since libvirtd sent no events while it was down."""

        async def tell() -> None:
            try:
                found = await self.guests()
            except DriverError:
                return  # libvirtd is down again; its next return triggers `_on_return`
            for guest in found:
                self._events.publish(GuestEvent(guest.instance_uuid, guest.power, guest.reason))

        self._telling = asyncio.ensure_future(tell())

    async def _with_recorded_end(self, seen: ObservedGuest) -> ObservedGuest | None:
        """Record a regular shutdown or an arrival, and return the guest; None if it is gone.

        libvirtd forgets the reason for a shutdown when it restarts.
        """
        lock = self._lock(seen.uuid)
        # The operation that holds the lock records the state itself.
        if lock.locked() or seen.record is None:
            return seen
        is_off = seen.record.power is Power.RUNNING and seen.power[0] is Power.STOPPED
        if not is_off and not seen.has_arrived:
            return seen
        async with lock:
            now = await self._registry.find(seen.uuid)
            if now is not None and now.record is not None and now.power[0] is Power.STOPPED:
                power, reason = now.power
                await self._registry.write(_changed(now.record, power=power, reason=reason))
            return now

    async def _find_to_build(self, instance_uuid: str) -> ObservedGuest | None:
        """Return the guest that is to be built, or None if it does not exist yet.

        Raises:
            BuildError: libvirtd does not answer.
        """
        try:
            return await self._registry.find(instance_uuid)
        except DriverError as error:
            raise BuildError(str(error)) from error

    async def _build(
        self,
        instance: Instance,
        *,
        waits: bool = False,
        disks_at: dict[str, str] | None = None,
    ) -> GuestRecord:
        """Create a guest without starting it, and return its record.

        Raises:
            BuildError: the guest could not be created; nothing of it remains.
        """
        try:
            # An orphan may be this guest: a second domain on the same disks would corrupt them.
            if await self._registry.lookup(instance.uuid) is not None:
                raise BuildError(
                    f"cannot create guest {instance.uuid}: a domain of which the driver has no "
                    "record already exists here with this uuid; destroy the domain first"
                )
            await self._registry.make_folder(instance.uuid)
        except (DriverError, OSError) as error:
            raise BuildError(str(error)) from error
        return await self._clear_on_failure(
            instance.uuid, lambda: self._builder.build(instance, waits=waits, disks_at=disks_at)
        )

    async def _start_new(self, made: GuestRecord, rescue_image: str) -> None:
        seen = await self._registry.lookup(made.uuid)
        if seen is not None:
            await self._clear_on_failure(
                made.uuid, lambda: self._builder.start(seen, made, rescue_image)
            )

    async def _clear_on_failure(self, instance_uuid: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run one step of a build; if it fails, remove the whole guest.

        Raises:
            BuildError: the step failed.
        """
        try:
            return await work()
        except BaseException as error:
            # This also applies to a cancelled build: a half-built guest would block the next one.
            await self._registry.clear(instance_uuid)
            if isinstance(error, DriverError | OSError):
                raise BuildError(str(error)) from error
            raise

    async def _start(self, seen: ObservedGuest, rescue_image: str) -> None:
        if seen.record is None or seen.record.waits:
            raise BuildError(f"cannot start guest {seen.uuid}: {IS_TARGET}")
        if seen.power[0] not in _LIVE:
            await self._builder.start(seen, seen.record, rescue_image)

    def _lock(self, instance_uuid: str) -> asyncio.Lock:
        return self._locks.setdefault(instance_uuid, asyncio.Lock())

    @asynccontextmanager
    async def _locked_guest(
        self, instance_uuid: str, *powers: Power
    ) -> AsyncGenerator[tuple[ObservedGuest, GuestRecord]]:
        """Yield a guest and its record with its lock held.

        Raises:
            DriverError: see `_known`; or the operating system reported an error within the context.
        """
        async with self._lock(instance_uuid):
            known = await self._known(instance_uuid, *powers)
            with os_errors_as_driver_errors():
                yield known

    async def _known(self, instance_uuid: str, *powers: Power) -> tuple[ObservedGuest, GuestRecord]:
        """Return a guest and its record; the caller holds the guest's lock.

        Raises:
            DriverError: the guest does not exist, waits for a live migration, or has none of the
                given power states.
        """
        seen = await self._registry.find(instance_uuid)
        if seen is None or seen.record is None:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        if seen.record.waits:
            raise DriverError(f"cannot change guest {instance_uuid}: {IS_TARGET}")
        power, reason = seen.power
        if powers and power not in powers:
            why = f" ({reason})" if reason else ""
            wanted = " or ".join(powers)
            raise DriverError(f"guest {instance_uuid} is {power}{why}; it must be {wanted}")
        return seen, seen.record


def _guest_of(seen: ObservedGuest) -> Guest:
    """Convert an observed guest to the port's type."""
    if seen.record is None or not seen.is_persistent:
        power = states.power_of(seen.state, seen.reason, is_saved=False, known=Power.RUNNING)[0]
        return Guest(seen.uuid, power, "the driver has no record of it", is_orphan=True)
    power, reason = seen.power
    return Guest(seen.uuid, power, reason, waits=seen.record.waits)
