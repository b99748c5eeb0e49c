"""The QEMU driver; see the port `VirtDriver`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
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
from berth.adapters.virt.machine_facts import Linux
from berth.adapters.virt.qemu import migration
from berth.adapters.virt.qemu.builder import QemuBuilder
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.adapters.virt.qemu.diagnostics import diagnostics_of
from berth.adapters.virt.qemu.disk_backup import back_up_disk
from berth.adapters.virt.qemu.guest_registry import QemuGuestRegistry
from berth.adapters.virt.qemu.machine import ARRIVED, Machine
from berth.adapters.virt.qemu.spec import SpecNotWrittenError
from berth.adapters.virt.refusals import IS_TARGET, NO_VNC
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

_LIVE = (Power.RUNNING, Power.PAUSED)
_VERBS = frozenset(DriverFeature) - {DriverFeature.RESIZE_LIVE}


class QemuDriver:
    """Runs each guest in its own QEMU process, which outlives the agent.

    Once a driver is closed or its process has ended, another driver on the same folder finds all
    guests again. Two drivers must not use a folder simultaneously, because QEMU's control socket
    serves only one client.
    """

    def __init__(
        self,
        host: QemuHost,
        images: Images,
        clock: Clock,
        stock: InventorySettings,
    ) -> None:
        """Create a driver, without contacting any guest.

        Args:
            host: the host's settings.
            images: the host's image files.
            clock: provides the time.
            stock: the operator's settings for the host's inventory.
        """
        self._host = host
        self._events = GuestEventHub()
        self._registry = QemuGuestRegistry(host, clock, self._on_event)
        reserved_gb = host.storage_reserved_gb
        self._images = ServerImages(host.storage_dir, host.name, images, reserved_gb)
        self._builder = QemuBuilder(host, self._images, clock)
        self._storage = SharedDiskStorage(host.storage_dir, host.name, host.move_networks)
        self._stock = stock
        self._clock = clock
        # The lock of each guest, which disappears when no operation holds or awaits it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._moves: dict[str, migration.QemuMigration] = {}
        self._arrivals: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Disconnect from the guests, which keep running."""
        for arrival in self._arrivals:
            arrival.cancel()
        await asyncio.gather(*self._arrivals, return_exceptions=True)
        await self._registry.close()

    @property
    def verbs(self) -> frozenset[DriverFeature]:
        """See `VirtDriver.verbs`. The result has all features except `RESIZE_LIVE`."""
        return _VERBS

    async def report(self) -> HostReport:
        """See `VirtDriver.report`."""
        guests = len(await self._registry.machines())
        hypervisor = await self._builder.hypervisor()
        return await asyncio.to_thread(report_of, self._host.name, self._stock, hypervisor, guests)

    async def guests(self) -> Sequence[Guest]:
        """See `VirtDriver.guests`. Orphans are running guests without a readable folder."""
        orphans = await self._registry.orphans()
        found = [
            Guest(uuid, Power.RUNNING, "the driver has no record of it", is_orphan=True)
            for uuid in orphans
        ]
        machines = await self._registry.machines()
        for guest in await asyncio.gather(*(self._describe(machine) for machine in machines)):
            found += [] if guest is None else [guest]
        return sorted(found, key=lambda guest: guest.instance_uuid)

    async def spawn(self, instance: Instance) -> None:
        """See `VirtDriver.spawn`."""
        async with self._lock(instance.uuid):
            machine = await self._registry.find(instance.uuid)
            try:
                if machine is None:
                    await self._build(instance)
                    return
                await self._start(machine, rescue_image_of(instance))
            except BuildError:
                raise
            except (DriverError, OSError) as error:
                raise BuildError(str(error)) from error

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """See `VirtDriver.stop`. The guest's process also ends."""
        async with self._lock(instance_uuid):
            machine = await self._registry.find(instance_uuid)
            if machine is None:
                return
            if machine.spec.waits:
                raise DriverError(f"cannot stop guest {instance_uuid}: {IS_TARGET}")
            if (await machine.power())[0] is Power.RUNNING:
                await machine.press(grace_s)
            # The state is recorded before the process ends: if the agent died in between, the guest
            # would otherwise count as crashed and be restarted.
            if machine.spec.power is not Power.STOPPED:
                machine.set_power(Power.STOPPED)
            await machine.quit()
            machine.folder.memory.unlink(missing_ok=True)
            await self._builder.withdraw(machine)

    async def reset(self, instance_uuid: str) -> None:
        """See `VirtDriver.reset`."""
        async with self._locked_guest(instance_uuid, Power.RUNNING) as machine:
            await machine.execute("system_reset")

    async def pause(self, instance_uuid: str) -> None:
        """See `VirtDriver.pause`."""
        async with self._locked_guest(instance_uuid, *_LIVE) as machine:
            await machine.execute("stop")
            machine.record(power=Power.PAUSED, reason="")

    async def unpause(self, instance_uuid: str) -> None:
        """See `VirtDriver.unpause`."""
        async with self._locked_guest(instance_uuid, *_LIVE) as machine:
            await machine.execute("cont")
            machine.record(power=Power.RUNNING, reason="")

    async def suspend(self, instance_uuid: str) -> None:
        """See `VirtDriver.suspend`. The memory is saved to a file in the guest's folder."""
        async with self._locked_guest(instance_uuid, *_LIVE, Power.SUSPENDED) as machine:
            power, _ = await machine.power()
            if power is Power.SUSPENDED:
                return
            try:
                await machine.save_memory()
            except DriverError:
                if power is Power.RUNNING:
                    await machine.execute("cont")
                raise
            await machine.end_saving()

    async def resume(self, instance_uuid: str) -> None:
        """See `VirtDriver.resume`."""
        async with self._locked_guest(instance_uuid, Power.RUNNING, Power.SUSPENDED) as machine:
            if machine.spec.power is Power.SUSPENDED:
                await self._builder.start(machine)

    async def destroy(self, instance_uuid: str) -> None:
        """See `VirtDriver.destroy`. This also destroys an orphan."""
        async with self._lock(instance_uuid):
            machine = await self._registry.find(instance_uuid)
            if machine is None:
                await self._registry.end_orphan(instance_uuid)
                return
            await self._destroy(machine)

    async def resize(self, instance: Instance) -> bool:
        """See `VirtDriver.resize`. Only a stopped or crashed guest is resized immediately."""
        async with self._locked_guest(instance.uuid) as machine:
            machine.record(wanted=GuestSize.of(instance.flavor))
            if (await machine.power())[0] in (Power.STOPPED, Power.CRASHED):
                # A disk must not be resized while another host reads it.
                await self._builder.withdraw(machine)
                await self._builder.settle_size(machine)
            return machine.spec.size == machine.spec.wanted

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `VirtDriver.console`."""
        machine = await self._registry.get(instance_uuid)
        if machine is None:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        return await asyncio.to_thread(tail, machine.folder.console, bytes_max)

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `VirtDriver.diagnostics`. This also works during a live migration."""
        # A live migration holds the guest's lock for its whole duration. The queries only read, and
        # QEMU answers them during a migration, so they do not wait for the lock.
        if self._lock(instance_uuid).locked():
            machine = await self._registry.get(instance_uuid)
            if machine is None or not await machine.is_running():
                raise DriverError(f"guest {instance_uuid} is being changed; it must be running")
            return await diagnostics_of(machine)
        async with self._locked_guest(instance_uuid, Power.RUNNING) as machine:
            return await diagnostics_of(machine)

    async def open_vnc(self, instance_uuid: str) -> ByteStream:
        """See `VirtDriver.open_vnc`. This also works during a live migration."""
        # The guest's lock is not taken, because a live migration holds it for its whole duration.
        machine = await self._registry.get(instance_uuid)
        if machine is None:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
        power, _ = await machine.power()
        if machine.spec.waits or power not in _LIVE:
            raise DriverError(f"guest {instance_uuid} is {power}; it must be running or paused")
        if not machine.spec.has_vnc:
            raise UnsupportedFeatureError(NO_VNC)
        return SocketStream(await machine.open_vnc())

    async def uptime(self) -> str:
        """See `VirtDriver.uptime`."""
        return await asyncio.to_thread(Linux().uptime)

    async def take_in(self, instance: Instance) -> str:
        """See `VirtDriver.take_in`. A QEMU process waits for the guest's memory and disks."""
        async with self._lock(instance.uuid):
            machine = await self._registry.find(instance.uuid)
            if machine is not None:
                if not machine.spec.waits:
                    raise BuildError(
                        f"cannot receive guest {instance.uuid} by live migration, because it "
                        "already exists on this host"
                    )
                if machine.spec.address:
                    return machine.spec.address
                await self._destroy(machine)  # an agent died before QEMU listened
            return await self._build(instance, waits=True)

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """See `VirtDriver.hand_over`."""
        has_left = False
        try:
            async with self._locked_guest(instance_uuid, *_LIVE) as machine:
                move = migration.QemuMigration(machine, self._clock, self._host.move_networks)
                self._moves[instance_uuid] = move
                try:
                    await move.run(address)
                    has_left = True
                finally:
                    del self._moves[instance_uuid]
                await self._destroy(machine)
        except MigrationError:
            raise
        except (DriverError, OSError) as error:
            if has_left:
                # A MigrationError would say that the guest stays here, and the destination would
                # destroy the guest that has arrived there.
                reason = f"guest {instance_uuid} has moved, but is not yet removed here: {error}"
                raise UnavailableError(reason) from error
            raise MigrationError(str(error)) from error

    async def cancel_hand_over(self, instance_uuid: str) -> None:
        """See `VirtDriver.cancel_hand_over`."""
        if (move := self._moves.get(instance_uuid)) is not None:
            await move.cancel()

    async def offer_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.offer_disks`. QEMU's storage daemon exports the disks read-only."""
        async with self._locked_guest(instance_uuid, Power.STOPPED) as machine:
            spec = machine.spec
            if not nbd_export.is_offered(machine.folder, spec.disks, spec.address):
                await nbd_export.withdraw(machine.folder)
                # The export is recorded before the daemon starts, because after a crash the next
                # start of the guest must look for the daemon and end it.
                machine.record(address=nbd_export.BEGUN)
                move_address = self._host.move_address
                address = await nbd_export.offer(machine.folder, spec.disks, move_address)
                machine.record(address=address)
            return machine.spec.address

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """See `VirtDriver.fetch_disks`."""
        async with self._lock(instance.uuid):
            if await self._registry.find(instance.uuid) is None:
                await self._build(instance, disks_at=self._storage.sources(address))

    async def store_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.store_disks`."""
        async with self._locked_guest(instance_uuid, Power.STOPPED) as machine:
            return await self._storage.store(machine.folder, instance_uuid, machine.spec.disks)

    async def drop_stored(self, address: str) -> None:
        """See `VirtDriver.drop_stored`."""
        is_image = address.startswith(IMAGE_ADDRESS)
        await (self._images if is_image else self._storage).drop(address)

    async def store_image(self, instance_uuid: str, image_id: str) -> ImageSize:
        """See `VirtDriver.store_image`. A running guest is not interrupted."""
        async with self._locked_guest(instance_uuid) as machine:

            async def copy(target: Path) -> None:
                # A guest without a process has nothing that could change its disk meanwhile.
                if await machine.status():
                    await back_up_disk(machine, ROOT, target, self._clock)
                else:
                    await disks.copy(str(machine.folder.disk(ROOT)), target)

            if ROOT not in machine.spec.disks:
                raise DriverError(f"guest {instance_uuid} has no root disk to make an image of")
            disk = machine.folder.disk(ROOT)
            return await self._images.store(image_id, machine.spec.image_id, disk, copy)

    async def leftovers(self, image: str = "") -> Sequence[OrphanFiles]:
        """See `VirtDriver.leftovers`. Leftover folders have neither a spec nor a process."""
        if image:
            return await self._images.leftovers_at(image)
        known = {machine.spec.uuid for machine in await self._registry.machines()}
        running = await self._registry.orphans()
        found = await asyncio.to_thread(leftover_folders, self._host.state_dir, {*known, *running})
        return [*found, *await self._storage.mine(), *await self._images.leftovers()]

    def events(self) -> AsyncIterator[GuestEvent]:
        """See `VirtDriver.events`."""
        return self._events.subscribe()

    def _on_event(self, event: GuestEvent) -> None:
        self._events.publish(event)
        if event.reason == ARRIVED:
            arrival = asyncio.create_task(self._resume_arrived(event.instance_uuid))
            self._arrivals.add(arrival)
            arrival.add_done_callback(self._arrivals.discard)

    async def _resume_arrived(self, instance_uuid: str) -> None:
        """Continue a guest that has just arrived, without waiting for the next listing."""
        async with self._lock(instance_uuid):
            with suppress(DriverError):  # the next listing tries again
                await self._registry.find(instance_uuid)

    async def _describe(self, machine: Machine) -> Guest | None:
        """Return the state of a guest, or None when it is being created or is gone.

        While an operation holds the guest's lock, this is the last recorded state: the operation's
        commands must not interleave with others.
        """
        uuid, lock = machine.spec.uuid, self._lock(machine.spec.uuid)
        if lock.locked():
            power, reason = machine.spec.power, machine.spec.reason
        else:
            async with lock:
                if not machine.spec.is_built:
                    with suppress(DriverError):  # the next listing tries again
                        await self._registry.find(uuid)
                    return None
                reason = await self._registry.settle(machine)
                power = machine.spec.power
                if not reason:
                    power, reason = await machine.power()
        if uuid not in self._registry or not machine.spec.is_built:
            return None
        return Guest(uuid, power, reason, waits=machine.spec.waits)

    async def _build(
        self,
        instance: Instance,
        *,
        waits: bool = False,
        disks_at: dict[str, str] | None = None,
    ) -> str:
        """Create a guest; return the address of its live migration, or an empty string.

        Raises:
            BuildError: the guest could not be created; nothing of it remains.
        """
        # An orphan may be this guest: a second process on the same disks would corrupt them.
        if instance.uuid in await self._registry.orphans():
            raise BuildError(
                f"cannot create guest {instance.uuid}: a guest of which the driver has no record "
                "already runs here with this uuid; destroy it first"
            )
        try:
            machine = self._registry.add(self._builder.spec_of(instance))
        except (DriverError, OSError) as error:
            raise BuildError(str(error)) from error
        try:
            return await self._builder.build(machine, instance, waits=waits, disks_at=disks_at)
        except BaseException as error:
            # This also applies to a cancelled build: a half-built guest would block the next one.
            await self._destroy(machine)
            if isinstance(error, DriverError | OSError):
                raise BuildError(str(error)) from error
            raise

    async def _start(self, machine: Machine, rescue_image: str) -> None:
        if machine.spec.waits:
            raise BuildError(f"cannot start guest {machine.spec.uuid}: {IS_TARGET}")
        if (await machine.power())[0] not in _LIVE:
            await machine.quit()
            await self._builder.start(machine, rescue_image)

    async def _destroy(self, machine: Machine) -> None:
        # The removal is recorded first, so that after a crash the next agent completes it. On a
        # full disk this fails, but the removal itself makes room.
        try:
            machine.record(is_built=False)
        except SpecNotWrittenError:
            machine.spec = msgspec.structs.replace(machine.spec, is_built=False)
        await self._registry.remove(machine)

    def _lock(self, instance_uuid: str) -> asyncio.Lock:
        lock = self._locks.get(instance_uuid)
        if lock is None:
            lock = self._locks[instance_uuid] = asyncio.Lock()
        return lock

    @asynccontextmanager
    async def _locked_guest(self, instance_uuid: str, *powers: Power) -> AsyncGenerator[Machine]:
        """Yield a guest with its lock held.

        Raises:
            DriverError: the guest does not exist, waits for a live migration, or has none of the
                given power states; or the operating system reported an error within the context.
        """
        async with self._lock(instance_uuid):
            machine = await self._registry.find(instance_uuid)
            if machine is None:
                raise DriverError(f"guest {instance_uuid} does not exist on host {self._host.name}")
            if machine.spec.waits:
                raise DriverError(f"cannot change guest {instance_uuid}: {IS_TARGET}")
            power, reason = await machine.power()
            if powers and power not in powers:
                why = f" ({reason})" if reason else ""
                wanted = " or ".join(powers)
                raise DriverError(f"guest {instance_uuid} is {power}{why}; it must be {wanted}")
            with os_errors_as_driver_errors():
                yield machine
