"""The builder of libvirt guests, which creates their disks and domains, and starts them."""

import asyncio
from collections.abc import Mapping

import msgspec

from berth.adapters.virt import guest_disks, nbd_export
from berth.adapters.virt.accelerator import Accelerator, accelerator_of
from berth.adapters.virt.config_drive import CONFIG
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.images import (
    ImageFile,
    ImageFormat,
    Images,
    bootable_image,
    image_of,
)
from berth.adapters.virt.libvirt import migration
from berth.adapters.virt.libvirt.binding import Connect, Domain
from berth.adapters.virt.libvirt.connection import LibvirtConnection
from berth.adapters.virt.libvirt.domain_xml import domain_xml
from berth.adapters.virt.libvirt.guest_registry import LibvirtGuestRegistry, ObservedGuest
from berth.adapters.virt.libvirt.hardware import (
    FloatingCpus,
    check_hardware,
    floating_cpus_of,
    free_devices,
)
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import HAS_CONFIG_DRIVE, Instance
from berth.ports.virt import Power

_changed = msgspec.structs.replace


class LibvirtBuilder:
    """Creates and starts the guests of one host.

    Args:
        host: the host's settings.
        images: the host's image files.
        connection: calls libvirtd.
        registry: finds guests and their folders.
    """

    def __init__(
        self,
        host: LibvirtHost,
        images: Images,
        connection: LibvirtConnection,
        registry: LibvirtGuestRegistry,
    ) -> None:
        self._host = host
        self._images = images
        self._connection = connection
        self._registry = registry
        self._accelerator: Accelerator | None = None
        self._choosing = asyncio.Lock()

    async def accelerator(self) -> Accelerator:
        """Return the accelerator of new guests, which is determined at the first call.

        libvirt cannot determine it, since it offers KVM wherever the device node exists.
        """
        if self._accelerator is None:
            self._accelerator = await accelerator_of(self._host)
        return self._accelerator

    async def build(
        self,
        instance: Instance,
        *,
        waits: bool = False,
        disks_at: Mapping[str, str] | None = None,
    ) -> GuestRecord:
        """Create the disks and the domain of a guest without starting it, and return its record.

        Args:
            instance: the guest's instance.
            waits: whether the guest is the target of a live migration, which fills its disks.
            disks_at: addresses to copy the disks from, by name.

        Raises:
            BuildError, DriverError, OSError: the guest could not be created; the caller cleans up.
        """
        image = image_of(instance, self._images)
        folder, size = self._registry.folder(instance.uuid), GuestSize.of(instance.flavor)
        if disks_at is not None:
            # The disks are made private before the copy, so that other users cannot read them
            # meanwhile.
            folder.make_private(disks_at)
            copied = await guest_disks.copy_disks(folder, disks_at)
            names = await guest_disks.fit_disks(folder, copied, size)
        else:
            names = await guest_disks.make_disks(folder, image, size, is_blank=waits)
            if HAS_CONFIG_DRIVE in instance.extra:
                folder.make_private((CONFIG,))
            names += await guest_disks.make_config_drive(folder, instance, is_blank=waits)
        folder.make_private(names)
        made = GuestRecord(
            instance.uuid,
            self._host.name,
            image.boots_with or image.image_id,
            self._host.machine,
            size,
            size,
            disks=names,
            power=Power.STOPPED,
            needs_image=image.is_needed_to_start,
            waits=waits,
            cells=check_hardware(instance),
        )
        if waits:
            floating = await self._floating(made)
            address = migration.address_of(self._host, made.uuid, image, floating)
            made = _changed(made, address=address)
        # A device is in use once a domain with it is defined, so choosing devices and defining the
        # domain must not interleave with another build.
        async with self._choosing:
            chosen = await self._connection.call(
                lambda connect: free_devices(connect, instance.assignment)
            )
            made = _changed(made, devices=chosen)
            await self._define(made, image)
        folder.finish()
        return made

    async def start(self, seen: ObservedGuest, known: GuestRecord, rescue_image: str = "") -> None:
        """Start a guest that is off, from its saved memory if it is suspended.

        Args:
            seen: the guest as libvirt reports it.
            known: the record of the guest.
            rescue_image: the id of the image from which the guest boots if it is rescued; empty to
                boot from its own disks. A suspended guest resumes whatever it had booted.

        Raises:
            BuildError: the host has no file for an image that the guest needs.
            DriverError: the guest could not be started; its recorded power state is unchanged.
        """
        folder = self._registry.folder(known.uuid)
        # The guest is still defined here, so a migration that an earlier agent began has failed.
        folder.leave(leaves=False)
        known = await self.withdraw(known)
        if not seen.is_saved:
            known = await self._settle_rescue(known, rescue_image)
            known = await self.settle_size(known)
            running = _changed(known, power=Power.RUNNING, reason="")
            # The domain is defined again at each start, so that the current settings apply.
            await self._define(running, self._image(known))
        elif known.power is not Power.RUNNING:
            await self._registry.write(_changed(known, power=Power.RUNNING, reason=""))
        try:
            await self._connection.on(known.uuid, _create)
        except BaseException:
            # The record already says RUNNING before the guest starts, so that the guest is
            # restarted if the agent dies in between. A failure restores the previous record.
            await self._registry.write(known)
            raise

    async def withdraw(self, known: GuestRecord) -> GuestRecord:
        """End the export of a guest's disks, and return the updated record.

        Raises:
            DriverError: the exporting process does not end, or the record cannot be written.
        """
        if known.address:
            await nbd_export.withdraw(self._registry.folder(known.uuid))
            known = _changed(known, address="")
            await self._registry.write(known)
        return known

    async def _settle_rescue(self, known: GuestRecord, rescue_image: str) -> GuestRecord:
        """Create or delete the rescue disk of a guest that is off; return the updated record.

        Raises:
            BuildError: the host has no file for the rescue image.
            DriverError: qemu-img failed, or the record cannot be written.
        """
        folder = self._registry.folder(known.uuid)
        if known.rescue_image == rescue_image:
            if not rescue_image:
                # An agent may have died between clearing the record and deleting the disk.
                guest_disks.remove_rescue_disk(folder)
            return known
        # The record is cleared before the disk is deleted, and set after the disk is created, so a
        # recorded disk is always complete, even after a crash of the agent.
        known = _changed(known, rescue_image="")
        await self._registry.write(known)
        guest_disks.remove_rescue_disk(folder)
        if not rescue_image:
            return known
        if await guest_disks.make_rescue_disk(folder, bootable_image(rescue_image, self._images)):
            folder.make_private((guest_disks.RESCUE,))
        known = _changed(known, rescue_image=rescue_image)
        await self._registry.write(known)
        return known

    async def settle_size(self, known: GuestRecord) -> GuestRecord:
        """Apply the wanted size to a guest that is off, and return the updated record.

        Raises:
            DriverError: qemu-img failed, or the record cannot be written.
        """
        if known.size == known.wanted:
            return known
        folder = self._registry.folder(known.uuid)
        names = await guest_disks.fit_disks(folder, known.disks, known.wanted)
        folder.make_private(name for name in names if name not in known.disks)
        known = _changed(known, size=known.wanted, disks=names)
        await self._registry.write(known)
        return known

    async def _define(self, known: GuestRecord, image: ImageFile) -> None:
        accelerator, floating = await self.accelerator(), await self._floating(known)
        xml = domain_xml(self._host, accelerator, known, image, floating=floating)

        def define(connect: Connect) -> None:
            connect.defineXML(xml)

        await self._connection.call(define)

    async def _floating(self, known: GuestRecord) -> FloatingCpus:
        return await asyncio.to_thread(floating_cpus_of, known, self._host.dedicated_cpus)

    def _image(self, known: GuestRecord) -> ImageFile:
        """Return the image from which a guest boots, or a placeholder if its root disk suffices.

        Raises:
            BuildError: the host has no file for the image, and the guest needs it.
        """
        if known.rescue_image:
            return bootable_image(known.rescue_image, self._images)
        image = self._images.get(known.image_id)
        if image is not None:
            return image
        if known.needs_image or guest_disks.ROOT not in known.disks:
            reason = f"this host has no file for image {known.image_id!r}; check virt.images"
            raise BuildError(reason, cause=FailureCause.IMAGE)
        return ImageFile(known.image_id, self._host.state_dir, ImageFormat.QCOW2)


def _create(domain: Domain) -> None:
    if not domain.isActive():
        domain.create()
