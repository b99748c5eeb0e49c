"""The files of images on a host: what the guest of an instance boots."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance


class ImageFormat(StrEnum):
    """What the file of an image is."""

    QCOW2 = "qcow2"
    RAW = "raw"
    KERNEL = "kernel"
    """A kernel, with an initrd and a command line where they are given."""
    RAMDISK = "ramdisk"
    """An initrd that other images name; nothing boots it by itself."""
    FIRMWARE = "firmware"
    """Firmware that does without a disk; its size must be a multiple of 64 KiB."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """Where a host finds an image, and how a guest boots it.

    The ledger never has these: a path means something on its own machine only. `kernel` is what
    boots a disk that has no boot loader; `initrd` and `cmdline` are the kernel's.
    """

    image_id: str
    file: Path
    format: ImageFormat = ImageFormat.QCOW2
    initrd: Path | None = None
    cmdline: str = ""
    kernel: Path | None = None

    @property
    def direct_kernel(self) -> Path | None:
        """The kernel that a guest starts with, without firmware looking for one on a disk."""
        return self.file if self.format is ImageFormat.KERNEL else self.kernel

    @property
    def is_disk(self) -> bool:
        """A guest gets a disk that begins as a copy of it."""
        return self.format in (ImageFormat.QCOW2, ImageFormat.RAW)


Images = Mapping[str, ImageFile]
"""The images that a host has, by id."""


def image_of(instance: Instance, images: Images) -> ImageFile:
    """Return the file that an instance boots.

    Raises:
        BuildError: it has no image, or this host has no file of it, or nothing boots that.
    """
    if instance.image is None:
        raise BuildError(f"instance {instance.uuid} has no image to boot", blames_host=False)
    found = images.get(instance.image.image_id)
    if found is None or not found.file.is_file():
        reason = f"this host has no file of image {instance.image.image_id!r}"
        raise BuildError(reason, cause=FailureCause.IMAGE)
    if found.format is ImageFormat.RAMDISK:
        reason = f"image {found.image_id!r} is an initrd; boot an image that names it"
        raise BuildError(reason, blames_host=False)
    return found
