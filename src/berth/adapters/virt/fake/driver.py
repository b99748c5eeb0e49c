"""The driver of a fake host; see the port `VirtDriver`."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from berth.adapters.virt.fake.host import FakeHost, report_of
from berth.adapters.virt.fake.machine import FakeGuest, FakeMachine
from berth.adapters.virt.fake.network import FakeNetwork
from berth.adapters.virt.fake.vnc import FakeVnc
from berth.adapters.virt.machine_facts import uptime_text
from berth.adapters.virt.refusals import IS_RESCUED, IS_TARGET
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.compute.rescue import rescue_image_of
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import DriverError, MigrationError, UnsupportedFeatureError
from berth.ports.clock import Clock
from berth.ports.virt import (
    IMAGE_ADDRESS,
    ByteStream,
    DiskCounters,
    DriverFeature,
    Guest,
    GuestDiagnostics,
    GuestEvent,
    HostReport,
    OrphanFiles,
    Power,
)

_ALL = frozenset(DriverFeature)
_WAITS = "waits for a live migration"
_NETWORK: Final = FakeNetwork()
_LIVE = (Power.RUNNING, Power.PAUSED)
# In its diagnostics, a fake guest reads `_BOOT_BYTES` when it starts, then writes one request of
# `_REQUEST_BYTES` to each disk per second, and uses `_CPU_SHARE` of each CPU.
_BOOT_BYTES: Final = 64 * 1024 * 1024
_REQUEST_BYTES: Final = 4096
_CPU_SHARE: Final = 0.05


class FakeDriver:
    """Keeps guests in memory; see the port `VirtDriver`.

    The guests belong to a `FakeMachine`, which can be given to the next driver of the same host, as
    real guests outlive a dead agent. The guests disappear with the process.

    Args:
        fake: the host's description.
        clock: provides the time.
        machine: the guests of an earlier driver of the same host; None for a host without guests.
        network: the network of the fake machines.
    """

    def __init__(
        self,
        fake: FakeHost,
        clock: Clock,
        machine: FakeMachine | None = None,
        network: FakeNetwork = _NETWORK,
    ) -> None:
        self._fake = fake
        self._clock = clock
        self._network = network
        self._calls = 0
        self._began_s = clock.now_s()
        self.machine = machine or FakeMachine(fake.name)

    @property
    def verbs(self) -> frozenset[DriverFeature]:
        """See `VirtDriver.verbs`. The result has all features except those in `FakeHost.lacks`."""
        return _ALL - self._fake.lacks

    async def report(self) -> HostReport:
        """See `VirtDriver.report`."""
        return report_of(self._fake)

    async def guests(self) -> Sequence[Guest]:
        """See `VirtDriver.guests`."""
        await self._act("guests")
        self._network.receive(self.machine)
        found = sorted(self.machine.guests.items())
        return [Guest(uuid, one.power, one.reason, one.is_orphan, one.waits) for uuid, one in found]

    async def running(self) -> Sequence[str]:
        """Return the uuids of the running guests; a shortcut for tests."""
        found = self.machine.guests.items()
        return sorted(uuid for uuid, one in found if one.power is Power.RUNNING)

    async def spawn(self, instance: Instance) -> None:
        """See `VirtDriver.spawn`. The build time of the host passes first."""
        self._network.receive(self.machine)
        guest = self.machine.guests.get(instance.uuid)
        if guest is not None and guest.is_orphan:
            raise BuildError(
                f"cannot create guest {instance.uuid}: a guest of which the driver has no record "
                "already runs here with this uuid; destroy it first"
            )
        if guest is not None and guest.power in _LIVE:
            return
        try:
            if self._fake.spawn_s:
                await self._clock.sleep(self._fake.spawn_s)
            await self._act("spawn")
        except DriverError as error:
            raise BuildError(str(error)) from error
        if self._fake.fails:
            raise BuildError(f"the fake host {self._fake.name} is set to fail")
        # The guest is read again, since it may have been destroyed or stopped meanwhile.
        guest = self.machine.guests.get(instance.uuid)
        if guest is None:
            disk = self._disk_of(instance)
            self._make(instance, Power.RUNNING).disk = disk
        elif guest.power is Power.SUSPENDED:
            self.machine.set_power(instance.uuid, Power.RUNNING)
        elif guest.power not in _LIVE:
            guest.rescue_image = rescue_image_of(instance)
            self._start(instance.uuid)

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """See `VirtDriver.stop`. A guest that hangs stops only after the grace period."""
        self._network.receive(self.machine)
        guest = self.machine.guests.get(instance_uuid)
        if guest is None or guest.is_orphan:
            return
        self._withdraw(instance_uuid)
        if guest.power is Power.STOPPED:
            return
        if guest.waits:
            raise DriverError(f"cannot stop guest {instance_uuid}: {IS_TARGET}")
        await self._act("stop")
        if guest.hangs and guest.power is Power.RUNNING and grace_s:
            await self._clock.sleep(grace_s)
        self._set(instance_uuid, Power.STOPPED)

    async def reset(self, instance_uuid: str) -> None:
        """See `VirtDriver.reset`."""
        await self._begin(DriverFeature.RESET, instance_uuid, Power.RUNNING)
        self._start(instance_uuid)

    async def pause(self, instance_uuid: str) -> None:
        """See `VirtDriver.pause`."""
        await self._begin(DriverFeature.PAUSE, instance_uuid, *_LIVE)
        self._set(instance_uuid, Power.PAUSED)

    async def unpause(self, instance_uuid: str) -> None:
        """See `VirtDriver.unpause`."""
        await self._begin(DriverFeature.PAUSE, instance_uuid, *_LIVE, act="unpause")
        self._set(instance_uuid, Power.RUNNING)

    async def suspend(self, instance_uuid: str) -> None:
        """See `VirtDriver.suspend`."""
        await self._begin(DriverFeature.SUSPEND, instance_uuid, *_LIVE, Power.SUSPENDED)
        self._set(instance_uuid, Power.SUSPENDED)

    async def resume(self, instance_uuid: str) -> None:
        """See `VirtDriver.resume`."""
        states = (Power.RUNNING, Power.SUSPENDED)
        await self._begin(DriverFeature.SUSPEND, instance_uuid, *states, act="resume")
        self._set(instance_uuid, Power.RUNNING)

    async def destroy(self, instance_uuid: str) -> None:
        """See `VirtDriver.destroy`."""
        await self._act("destroy")
        self._network.forget(self.machine, instance_uuid)
        self.machine.guests.pop(instance_uuid, None)
        if self.machine.files is not None:
            self.machine.files.pop(instance_uuid, None)

    async def resize(self, instance: Instance) -> bool:
        """See `VirtDriver.resize`."""
        await self._act("resize")
        guest = self._guest(instance.uuid)
        guest.wanted = instance.flavor
        self._withdraw(instance.uuid)
        if guest.power not in (*_LIVE, Power.SUSPENDED) or DriverFeature.RESIZE_LIVE in self.verbs:
            guest.flavor = instance.flavor
        return guest.flavor == instance.flavor

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `VirtDriver.console`. The log has a line like the stub guest's for each start."""
        guest = await self._begin(DriverFeature.CONSOLE, instance_uuid)
        line = (
            f"BERTH-GUEST ready uuid={instance_uuid} "
            f"cpus={guest.flavor.vcpus:04x} mib={guest.flavor.memory_mb:08x}\r\n"
        )
        lines = min(guest.boots, bytes_max // len(line) + 1)
        return (line * lines)[-bytes_max:] if bytes_max else ""

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `VirtDriver.diagnostics`. The figures grow with the time since the guest's start."""
        guest = await self._begin(DriverFeature.DIAGNOSTICS, instance_uuid, Power.RUNNING)
        up_s = max(self._clock.now_s() - guest.started_s, 0.0) if guest.started_s else 0.0
        flavor = guest.flavor
        sizes = (flavor.root_gb, flavor.ephemeral_gb, flavor.swap_mb)
        disks = tuple(
            DiskCounters(
                f"vd{letter}",
                read_bytes=_BOOT_BYTES * (letter == "a"),
                read_requests=_BOOT_BYTES // _REQUEST_BYTES * (letter == "a"),
                write_bytes=int(up_s) * _REQUEST_BYTES,
                write_requests=int(up_s),
                errors=0,
            )
            for letter, _ in zip("abc", filter(None, sizes), strict=False)
        )
        memory_kb = flavor.memory_mb * 1024
        return GuestDiagnostics(
            hypervisor="fake",
            cpu_times_ns=(int(up_s * _CPU_SHARE * 1e9),) * flavor.vcpus,
            memory_kb=memory_kb,
            memory_used_kb=memory_kb,
            memory_rss_kb=memory_kb // 2,
            disks=disks,
        )

    async def open_vnc(self, instance_uuid: str) -> ByteStream:
        """See `VirtDriver.open_vnc`. The screen is black."""
        guest = await self._begin(DriverFeature.VNC, instance_uuid, *_LIVE, act="open_vnc")
        boots = guest.boots

        def is_alive() -> bool:
            is_here = self.machine.guests.get(instance_uuid) is guest
            return is_here and guest.power in _LIVE and guest.boots == boots

        return FakeVnc(instance_uuid, is_alive)

    async def uptime(self) -> str:
        """See `VirtDriver.uptime`. The host booted when the driver was created."""
        await self._act("uptime")
        now_s = self._clock.now_s()
        load = ("0.00", "0.00", "0.00")
        return uptime_text(time.localtime(now_s), now_s - self._began_s, users=0, load=load)

    async def take_in(self, instance: Instance) -> str:
        """See `VirtDriver.take_in`."""
        self._check(DriverFeature.LIVE_MIGRATION)
        try:
            await self._act("take_in")
        except DriverError as error:
            raise BuildError(str(error)) from error
        self._network.receive(self.machine)
        guest = self.machine.guests.get(instance.uuid)
        if guest is not None and not guest.waits:
            raise BuildError(
                f"cannot receive guest {instance.uuid} by live migration, because it already "
                "exists on this host"
            )
        try:
            address = self._network.take_in(self.machine, instance.uuid)
        except DriverError as error:
            raise BuildError(str(error)) from error
        if guest is None:
            self._make(instance, Power.PAUSED, _WAITS).waits = True
        return address

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """See `VirtDriver.hand_over`."""
        try:
            self._check(DriverFeature.LIVE_MIGRATION)
            guest = self._movable_guest(instance_uuid)
            await self._travel(instance_uuid)
            await self._act("hand_over", delays=False)
            self._network.hand_over(instance_uuid, guest, address)
        except DriverError as error:
            reason = f"guest {instance_uuid} stays on {self._fake.name}: {error}"
            raise MigrationError(reason) from error
        # Nothing is awaited after the arrival, so the guest leaves and arrives in one step.
        del self.machine.guests[instance_uuid]

    async def cancel_hand_over(self, instance_uuid: str) -> None:
        """See `VirtDriver.cancel_hand_over`."""
        if (move := self.machine.moves.get(instance_uuid)) is not None:
            move.cancel()

    async def offer_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.offer_disks`."""
        guest = await self._begin(
            DriverFeature.DISKS, instance_uuid, Power.STOPPED, act="offer_disks"
        )
        guest.offered = True
        return self._network.offer(self.machine, instance_uuid)

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """See `VirtDriver.fetch_disks`."""
        try:
            self._check(DriverFeature.DISKS)
            await self._act("fetch_disks")
            disk = self._network.disk_at(address)
        except DriverError as error:
            raise BuildError(str(error)) from error
        if instance.uuid in self.machine.guests:
            return
        if disk is None:
            raise BuildError(
                f"cannot fetch disks from {address}: none are offered there",
                cause=FailureCause.NETWORK,
            )
        guest = self._make(instance, Power.STOPPED)
        guest.disk, guest.boots = disk, 0  # `_make` counts as a start, but this guest is off

    async def store_disks(self, instance_uuid: str) -> str:
        """See `VirtDriver.store_disks`. The network has the shared storage."""
        await self._begin(DriverFeature.DISKS, instance_uuid, Power.STOPPED, act="store_disks")
        return self._network.store(self.machine, instance_uuid, self._clock.now_s())

    async def drop_stored(self, address: str) -> None:
        """See `VirtDriver.drop_stored`."""
        await self._act("drop_stored")
        if address.startswith(IMAGE_ADDRESS):
            self._network.drop_image(address.removeprefix(IMAGE_ADDRESS))
        else:
            self._network.drop(address)

    async def store_image(self, instance_uuid: str, image_id: str) -> ImageSize:
        """See `VirtDriver.store_image`. The image is as large as the flavor's root disk."""
        guest = await self._begin(DriverFeature.IMAGES, instance_uuid, act="store_image")
        self._network.store_image(self.machine, image_id, guest.disk, self._clock.now_s())
        virtual_bytes = guest.flavor.root_gb * 1024**3
        return ImageSize(virtual_bytes // 8, virtual_bytes)

    async def leftovers(self, image: str = "") -> Sequence[OrphanFiles]:
        """See `VirtDriver.leftovers`. Only tests leave files without a guest."""
        machine, network = self.machine, self._network
        if image:
            return [one for one in network.images_by(machine) if one.address == image]
        files = sorted((self.machine.files or {}).items())
        found = [OrphanFiles(uuid, at_s) for uuid, at_s in files]
        return [*found, *network.stored_by(machine), *network.images_by(machine)]

    def events(self) -> AsyncIterator[GuestEvent]:
        """See `VirtDriver.events`."""
        return self.machine.events.subscribe()

    def _disk_of(self, instance: Instance) -> str:
        """Return the content of the root disk of a new guest; all unknown images are empty."""
        image = None if instance.image is None else self._network.image(instance.image.image_id)
        return "" if image is None else image.disk

    def _make(self, instance: Instance, power: Power, reason: str = "") -> FakeGuest:
        guest = FakeGuest(instance.flavor, instance.flavor, power, reason)
        guest.started_s = self._clock.now_s()
        guest.rescue_image = rescue_image_of(instance)
        self.machine.guests[instance.uuid] = guest
        self.machine.set_power(instance.uuid, power, reason)
        return guest

    def _start(self, instance_uuid: str) -> None:
        """Start a guest from its disks, which other hosts can no longer fetch then."""
        self._withdraw(instance_uuid)
        self.machine.start(instance_uuid)
        self.machine.guests[instance_uuid].started_s = self._clock.now_s()

    def _withdraw(self, instance_uuid: str) -> None:
        """End the offer of a guest's disks, if there is one."""
        self.machine.guests[instance_uuid].offered = False
        self._network.withdraw(self.machine, instance_uuid)

    def _set(self, instance_uuid: str, power: Power) -> None:
        """Change the power state of a guest, if it still exists and has a different one."""
        guest = self.machine.guests.get(instance_uuid)
        if guest is not None and guest.power is not power:
            self.machine.set_power(instance_uuid, power)

    async def _begin(
        self, verb: DriverFeature, instance_uuid: str, *powers: Power, act: str = ""
    ) -> FakeGuest:
        """Wait for the delay of an operation on a guest, and return the guest.

        Raises:
            DriverError: the guest does not permit the operation before or after the delay, or the
                driver does not support it.
        """
        self._check(verb)
        self._guest(instance_uuid, *powers)
        # The guest is checked again after the delay, during which it may change.
        await self._act(act or verb)
        return self._guest(instance_uuid, *powers)

    def _check(self, verb: DriverFeature) -> None:
        if verb not in self.verbs:
            text = f"the driver of {self._fake.name} does not support {verb}"
            raise UnsupportedFeatureError(text)

    def _guest(self, instance_uuid: str, *powers: Power) -> FakeGuest:
        self._network.receive(self.machine)
        guest = self.machine.guests.get(instance_uuid)
        if guest is None or guest.is_orphan:
            raise DriverError(f"guest {instance_uuid} does not exist on host {self._fake.name}")
        if powers and guest.waits:
            raise DriverError(f"cannot change guest {instance_uuid}: {IS_TARGET}")
        if powers and guest.power not in powers:
            wanted = " or ".join(powers)
            raise DriverError(f"guest {instance_uuid} is {guest.power}; it must be {wanted}")
        return guest

    def _movable_guest(self, instance_uuid: str) -> FakeGuest:
        guest = self._guest(instance_uuid, *_LIVE)
        if guest.rescue_image:
            raise DriverError(f"cannot move guest {instance_uuid}: {IS_RESCUED}")
        return guest

    async def _act(self, name: str, *, delays: bool = True) -> None:
        """Wait for a method's injected delay, and raise its injected fault."""
        faults = self._fake.faults
        if delays and (delay_s := faults.delay_s.get(name, 0.0)):
            await self._clock.sleep(delay_s)
        self._calls += 1
        if faults.strikes(name, self._fake.name, self._calls):
            raise DriverError(f"the fake host {self._fake.name} is set to fail at {name}")

    async def _travel(self, instance_uuid: str) -> None:
        """Wait for the duration of a live migration, which can be cancelled meanwhile.

        Raises:
            DriverError: the migration was cancelled, or the guest no longer runs.
        """
        delay_s = self._fake.faults.delay_s.get("hand_over", 0.0)
        if not delay_s:
            return
        move = asyncio.ensure_future(self._clock.sleep(delay_s))
        self.machine.moves[instance_uuid] = move
        try:
            await asyncio.wait({move})
        finally:
            del self.machine.moves[instance_uuid]
            is_cancelled = move.cancelled() or move.cancel()
        if is_cancelled:
            raise DriverError("the migration was cancelled")
        self._guest(instance_uuid, *_LIVE)
