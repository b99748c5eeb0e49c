"""The files of images on a host: what the guest of an instance boots."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from berth.domain.errors import BuildError
from berth.domain.instance import Instance


class ImageFormat(StrEnum):
    """What the file of an image is."""

    QCOW2 = "qcow2"
    RAW = "raw"
    KERNEL = "kernel"
    """A kernel, with an initrd and a command line where they are given."""
    FIRMWARE = "firmware"
    """Firmware that does without a disk; its size must be a multiple of 64 KiB."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """Where a host finds an image, and how a guest boots it.

    The ledger never has these: a path means something on its own machine only.
    """

    image_id: str
    file: Path
    format: ImageFormat = ImageFormat.QCOW2
    initrd: Path | None = None
    cmdline: str = ""

    @property
    def is_disk(self) -> bool:
        """A guest gets a disk that begins as a copy of it."""
        return self.format in (ImageFormat.QCOW2, ImageFormat.RAW)


Images = Mapping[str, ImageFile]
"""The images that a host has, by id."""


def image_of(instance: Instance, images: Images) -> ImageFile:
    """Return the file that an instance boots.

    Raises:
        BuildError: it has no image, or this host has no file of it.
    """
    if instance.image is None:
        raise BuildError(f"instance {instance.uuid} has no image to boot", blames_host=False)
    found = images.get(instance.image.image_id)
    if found is None or not found.file.is_file():
        raise BuildError(f"this host has no file of image {instance.image.image_id!r}")
    return found
