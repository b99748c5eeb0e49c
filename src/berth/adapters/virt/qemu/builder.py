"""The builder of QEMU guests, which creates their disks, applies sizes and starts them."""

import os

from berth.adapters.virt import guest_disks, nbd_export
from berth.adapters.virt.accelerator import Accelerator, accelerator_of, version_of
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.images import (
    ImageFile,
    ImageFormat,
    Images,
    bootable_image,
    image_of,
)
from berth.adapters.virt.inventory import Hypervisor
from berth.adapters.virt.qemu import migration
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.spec import GuestSpec
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.compute.rescue import rescue_image_of
from berth.domain.errors import DriverError
from berth.ports.clock import Clock
from berth.ports.virt import Power

_LOADING = ("inmigrate", "restore-vm")


class QemuBuilder:
    """Creates and starts the guests of one host.

    Args:
        host: the host's settings.
        images: the host's image files.
        clock: provides the time.
    """

    def __init__(self, host: QemuHost, images: Images, clock: Clock) -> None:
        self._host = host
        self._images = images
        self._clock = clock
        self._accelerator: Accelerator | None = None

    async def accelerator(self) -> Accelerator:
        """Return the accelerator of new guests, which is determined at the first call."""
        if self._accelerator is None:
            self._accelerator = await accelerator_of(self._host)
        return self._accelerator

    async def hypervisor(self) -> Hypervisor:
        """Return the hypervisor, for the host's report.

        Raises:
            DriverError: the version of QEMU cannot be determined.
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
        """Return the spec of a new guest, without disks and not running.

        Raises:
            BuildError: the instance has no image, or this host has no bootable file for the image.
        """
        image = image_of(instance, self._images)
        size = GuestSize.of(instance.flavor)
        return GuestSpec(
            instance.uuid,
            image.boots_with or image.image_id,
            self._host.machine,
            size,
            size,
            power=Power.STOPPED,
            needs_image=image.is_needed_to_start,
        )

    async def build(
        self,
        machine: Machine,
        instance: Instance,
        *,
        waits: bool = False,
        disks_at: dict[str, str] | None = None,
    ) -> str:
        """Create the disks of a guest, and start it unless its disks are copied.

        Args:
            machine: the guest, whose folder has only its spec.
            instance: the guest's instance.
            waits: whether the guest is the target of a live migration, which fills its disks.
            disks_at: addresses to copy the disks from, by name; then the guest is not started.

        Returns:
            The address of the live migration, or an empty string.

        Raises:
            BuildError, DriverError, OSError: the guest could not be created; the caller cleans up.
        """
        image = image_of(instance, self._images)
        if disks_at is not None:
            names = await guest_disks.copy_disks(machine.folder, disks_at)
            # The size is recorded as zero, so that `settle_size` grows the disks as needed.
            machine.record(disks=names, size=GuestSize(0, 0))
            await self.settle_size(machine)
            machine.record(is_built=True)
            return ""
        size = machine.spec.size
        names = await guest_disks.make_disks(machine.folder, image, size, is_blank=waits)
        names += await guest_disks.make_config_drive(machine.folder, instance, is_blank=waits)
        # From here on the guest counts as built. If the agent dies before this, the next agent
        # deletes the guest; if it dies later, the repeated task finds the guest and starts it.
        machine.record(disks=names, waits=waits, is_built=True)
        if not waits:
            await self.start(machine, rescue_image_of(instance))
            return ""
        await machine.start(image, await self.accelerator())
        # The address is recorded, so that a repeated call returns it.
        address = await migration.listen_for_guest(machine, self._host.move_address)
        machine.record(power=Power.RUNNING, address=address)
        return address

    async def start(self, machine: Machine, rescue_image: str = "") -> None:
        """Start a guest without a process, from its saved memory if it is suspended.

        Args:
            machine: the guest.
            rescue_image: the id of the image from which the guest boots if it is rescued; empty to
                boot from its own disks. A suspended guest resumes whatever it had booted.

        Raises:
            BuildError: the host has no file for an image that the guest needs.
            DriverError: the guest could not be started.
        """
        # The export ends first, since the guest must not write while another host reads the disks.
        await self.withdraw(machine)
        if machine.spec.power is Power.SUSPENDED:
            await self._wake(machine, self._image(machine.spec))
        else:
            await self._settle_rescue(machine, rescue_image)
            await self.settle_size(machine)
            await machine.start(self._image(machine.spec), await self.accelerator())
        machine.set_power(Power.RUNNING)

    async def withdraw(self, machine: Machine) -> None:
        """End the export of a guest's disks.

        Raises:
            DriverError: the exporting process does not end, or the spec cannot be written.
        """
        if machine.spec.address:
            await nbd_export.withdraw(machine.folder)
            machine.record(address="")

    async def _settle_rescue(self, machine: Machine, rescue_image: str) -> None:
        """Create or delete the rescue disk of a guest without a process.

        Raises:
            BuildError: the host has no file for the rescue image.
            DriverError: qemu-img failed.
        """
        if machine.spec.rescue_image == rescue_image:
            if not rescue_image:
                # An agent may have died between clearing the record and deleting the disk.
                guest_disks.remove_rescue_disk(machine.folder)
            return
        # The record is cleared before the disk is deleted, and set after the disk is created, so a
        # recorded disk is always complete, even after a crash of the agent.
        machine.record(rescue_image="")
        guest_disks.remove_rescue_disk(machine.folder)
        if rescue_image:
            image = bootable_image(rescue_image, self._images)
            await guest_disks.make_rescue_disk(machine.folder, image)
            machine.record(rescue_image=rescue_image)

    async def settle_size(self, machine: Machine) -> None:
        """Apply the wanted size to a guest without a process.

        Raises:
            DriverError: qemu-img failed, or the spec cannot be written.
        """
        spec = machine.spec
        if spec.size == spec.wanted:
            return
        names = await guest_disks.fit_disks(machine.folder, spec.disks, spec.wanted)
        machine.record(size=spec.wanted, disks=names)

    async def _wake(self, machine: Machine, image: ImageFile) -> None:
        try:
            memory = os.open(machine.folder.memory, os.O_RDONLY)
        except OSError as error:
            raise DriverError(
                f"cannot read {machine.folder.memory}, the saved memory of guest "
                f"{machine.spec.uuid} ({error.strerror}); check the file, or stop the guest"
            ) from error
        try:
            # The accelerator must be the one with which the guest was suspended, because QEMU
            # reports no error when it loads the memory with another one.
            known = machine.spec.accelerator
            accelerator = Accelerator(known) if known else await self.accelerator()
            await machine.start(image, accelerator, memory=memory)
            await _loaded(machine)
            # The state is recorded before the guest continues: from then on the saved memory no
            # longer matches the disks and must never be loaded again.
            machine.record(power=Power.RUNNING)
            machine.folder.memory.unlink(missing_ok=True)
            await machine.execute("cont")
        except BaseException:
            await machine.quit()
            raise
        finally:
            os.close(memory)

    def _image(self, spec: GuestSpec) -> ImageFile:
        """Return the image from which a guest boots, or a placeholder if its root disk suffices.

        Raises:
            BuildError: the host has no file for the image, and the guest needs it.
        """
        if spec.rescue_image:
            return bootable_image(spec.rescue_image, self._images)
        image = self._images.get(spec.image_id)
        if image is not None:
            return image
        if spec.needs_image or guest_disks.ROOT not in spec.disks:
            reason = f"this host has no file for image {spec.image_id!r}; check virt.images"
            raise BuildError(reason, cause=FailureCause.IMAGE)
        return ImageFile(spec.image_id, self._host.state_dir, ImageFormat.QCOW2)


async def _loaded(machine: Machine) -> None:
    """Wait until QEMU has loaded a guest's memory.

    Raises:
        DriverError: QEMU ended before that.
    """
    if not await machine.wait_for(_LOADING):
        why = machine.folder.last_error() or "QEMU has ended"
        raise DriverError(f"cannot load the saved memory of guest {machine.spec.uuid}: {why}")
