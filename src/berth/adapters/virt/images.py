"""The image files on a host, from which guests boot."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance


class ImageFormat(StrEnum):
    """The format of an image's file."""

    QCOW2 = "qcow2"
    RAW = "raw"
    KERNEL = "kernel"
    """A kernel, optionally with an initrd and a command line."""
    RAMDISK = "ramdisk"
    """An initrd that kernel images refer to; it cannot be booted by itself."""
    FIRMWARE = "firmware"
    """Firmware that runs without a disk; its size must be a multiple of 64 KiB."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image's file on this host, and how guests boot it.

    Image files are host settings and not in the ledger, since paths are valid on one machine only.
    `kernel` boots a disk that has no boot loader; `initrd` and `cmdline` belong to the kernel. A
    guest that is rescued from an image with `rescues_in_place` sees its own disks where they were,
    and the rescue disk after them.
    """

    image_id: str
    file: Path
    format: ImageFormat = ImageFormat.QCOW2
    initrd: Path | None = None
    cmdline: str = ""
    kernel: Path | None = None
    rescues_in_place: bool = False
    firmware: Path | None = None
    """The firmware that runs instead of the machine's own, for a disk that needs it."""
    is_of_server: bool = False
    """Whether the file is in the storage that hosts share. Guests get a copy, because the owner may
    delete the image, and other hosts may write to the file."""
    boots_with: str = ""
    """The id of the image whose kernel or firmware the file needs; empty if it needs none."""

    @property
    def direct_kernel(self) -> Path | None:
        """The kernel that QEMU starts directly, or None when firmware boots from a disk."""
        return self.file if self.format is ImageFormat.KERNEL else self.kernel

    @property
    def is_needed_to_start(self) -> bool:
        """Whether a guest needs files besides its own disks each time that it starts."""
        parts = (self.direct_kernel, self.firmware)
        return not self.is_disk or any(part is not None for part in parts)

    @property
    def is_disk(self) -> bool:
        """Whether the root disk of a guest initially has the content of the file."""
        return self.format in (ImageFormat.QCOW2, ImageFormat.RAW)


Images = Mapping[str, ImageFile]
"""The images that a host has, by id."""


def image_of(instance: Instance, images: Images) -> ImageFile:
    """Return the image file from which an instance boots.

    Raises:
        BuildError: the instance has no image, this host has no file for the image, or the file is
            an initrd.
    """
    if instance.image is None:
        raise BuildError(
            f"cannot build instance {instance.uuid} without an image; create it from an image",
            blames_host=False,
        )
    return bootable_image(instance.image.image_id, images)


def bootable_image(image_id: str, images: Images) -> ImageFile:
    """Return the file of the image with an id, if a guest can boot from it.

    Raises:
        BuildError: this host has no file for the image, or the file is an initrd.
    """
    found = images.get(image_id)
    if found is None or not found.file.is_file():
        reason = f"this host has no file for image {image_id!r}; check virt.images"
        raise BuildError(reason, cause=FailureCause.IMAGE)
    if found.format is ImageFormat.RAMDISK:
        reason = f"image {found.image_id!r} is an initrd; boot an image that names it"
        raise BuildError(reason, blames_host=False)
    return found
