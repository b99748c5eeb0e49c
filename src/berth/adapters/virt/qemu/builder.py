"""Building guests: their disks, and their start with the size that they are to have."""

import os

from berth.adapters.virt import guest_disks, nbd_export
from berth.adapters.virt.accelerator import Accelerator, accelerator_of, version_of
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.images import ImageFile, ImageFormat, Images, image_of
from berth.adapters.virt.inventory import Hypervisor
from berth.adapters.virt.qemu import migration
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.spec import GuestSpec
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.clock import Clock
from berth.ports.virt import Power

_LOADING = ("inmigrate", "restore-vm")


class QemuBuilder:
    """Makes and starts guests of one host."""

    def __init__(self, host: QemuHost, images: Images, clock: Clock) -> None:
        self._host = host
        self._images = images
        self._clock = clock
        self._accelerator: Accelerator | None = None

    async def accelerator(self) -> Accelerator:
        """Return what the guests run on; it is found out once."""
        if self._accelerator is None:
            self._accelerator = await accelerator_of(self._host)
        return self._accelerator

    async def hypervisor(self) -> Hypervisor:
        """Return what runs the guests, for reports.

        Raises:
            DriverError: QEMU does not say its version.
        """
        is_kvm = await self.accelerator() is Accelerator.KVM
        kinds = ("qemu", "kvm") if is_kvm else ("qemu",)
        return Hypervisor(
            type="QEMU",
            version=await version_of(self._host.binary),
            supported_instances=tuple(("x86_64", kind, "hvm") for kind in kinds),
            sees_the_cpu=is_kvm and self._host.cpu_model in ("", "host"),
        )

    def spec_of(self, instance: Instance) -> GuestSpec:
        """Return the spec of a new guest, which has no disks yet and does not run.

        Raises:
            BuildError: the instance has no image that this host has a file of.
        """
        image = image_of(instance, self._images)
        size = GuestSize.of(instance.flavor)
        return GuestSpec(
            instance.uuid,
            image.image_id,
            self._host.machine,
            size,
            size,
            power=Power.STOPPED,
            needs_image=not image.is_disk or image.direct_kernel is not None,
        )

    async def build(
        self,
        machine: Machine,
        instance: Instance,
        *,
        waits: bool = False,
        disks_at: dict[str, str] | None = None,
    ) -> str:
        """Make the disks of a guest, and start it.

        Args:
            machine: the guest, with a folder that has nothing in it.
            instance: what it is for.
            waits: it is the target of a live migration: what its disks hold is yet to come.
            disks_at: copy the disks from here, by name, and do not start it.

        Returns:
            Where the live migration arrives, when it waits for one.

        Raises:
            BuildError, DriverError: it could not be made; something of it may be left.
        """
        image = image_of(instance, self._images)
        if disks_at is not None:
            names = await guest_disks.copy_disks(machine.folder, disks_at)
            machine.record(disks=names, size=GuestSize(0, 0))
            await self.settle_size(machine)
            machine.record(is_built=True)
            return ""
        size = machine.spec.size
        names = await guest_disks.make_disks(machine.folder, image, size, is_blank=waits)
        machine.record(disks=names, waits=waits, is_built=True)
        if not waits:
            await self.start(machine)
            return ""
        await machine.start(image, await self.accelerator())
        address = await migration.listen_for_guest(machine, self._host.move_address)
        machine.record(power=Power.RUNNING, address=address)
        return address

    async def start(self, machine: Machine) -> None:
        """Start a guest that has no process, from its memory when that is kept.

        Raises:
            DriverError: it could not be started; it is as it was.
        """
        await self.withdraw(machine)
        image = self._image(machine.spec)
        if machine.spec.power is Power.SUSPENDED:
            await self._wake(machine, image)
        else:
            await self.settle_size(machine)
            await machine.start(image, await self.accelerator())
        machine.set_power(Power.RUNNING)

    async def withdraw(self, machine: Machine) -> None:
        """Offer the disks of a guest no more.

        Raises:
            DriverError: whoever offers them cannot be ended.
        """
        if machine.spec.address:
            await nbd_export.withdraw(machine.folder)
            machine.record(address="")

    async def settle_size(self, machine: Machine) -> None:
        """Give a guest without a process the size that it is to have."""
        spec = machine.spec
        if spec.size == spec.wanted:
            return
        names = await guest_disks.fit_disks(machine.folder, spec.disks, spec.wanted)
        machine.record(size=spec.wanted, disks=names)

    async def _wake(self, machine: Machine, image: ImageFile) -> None:
        try:
            memory = os.open(machine.folder.memory, os.O_RDONLY)
        except OSError as error:
            raise DriverError(f"the memory of {machine.spec.uuid} cannot be read") from error
        try:
            # On what it was suspended on: its memory says nothing of that, and would be read.
            known = machine.spec.accelerator
            accelerator = Accelerator(known) if known else await self.accelerator()
            await machine.start(image, accelerator, memory=memory)
            await _loaded(machine)
            # Before it goes on: from then on its memory no longer goes with its disks.
            machine.record(power=Power.RUNNING)
            machine.folder.memory.unlink(missing_ok=True)
            await machine.execute("cont")
        except BaseException:
            await machine.quit()
            raise
        finally:
            os.close(memory)

    def _image(self, spec: GuestSpec) -> ImageFile:
        """Return what a guest boots; one that boots its own disk no longer needs the image."""
        image = self._images.get(spec.image_id)
        if image is not None:
            return image
        if spec.needs_image or guest_disks.ROOT not in spec.disks:
            reason = f"this host has no file of image {spec.image_id!r}"
            raise BuildError(reason, cause=FailureCause.IMAGE)
        return ImageFile(spec.image_id, self._host.state_dir, ImageFormat.QCOW2)


async def _loaded(machine: Machine) -> None:
    """Wait until QEMU has read a guest's memory.

    Raises:
        DriverError: it has ended over that.
    """
    if not await machine.wait_for(_LOADING):
        told = machine.folder.last_error() or "QEMU has ended"
        raise DriverError(f"the memory of {machine.spec.uuid} was not read: {told}")
