"""Reads the JSON lists of fake hosts and of images, from the files that settings name."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from berth.adapters.virt.fake import FakeHost
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.config.agent_settings import AgentSettings
from berth.domain.compute.flavor import Image
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU

T = TypeVar("T")

_NO_NAMES: Mapping[str, str] = {}
# Field names of the image API, accepted so that its lists can be used unchanged.
_IMAGE_NAMES = {"id": "image_id", "min_ram": "min_memory_mb", "min_disk": "min_disk_gb"}

# Image properties with the meaning that Nova's drivers give them.
_KERNEL = "kernel_id"
_RAMDISK = "ramdisk_id"
_CMDLINE = "os_command_line"
_RESCUE = {"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"}
"""The only value of each property that the drivers have."""
_DISK_CMDLINE = "root=/dev/vda console=ttyS0"


def fake_hosts_of(settings: AgentSettings) -> list[FakeHost]:
    """Return the hosts of the fake driver, from the fleet file if the settings name one.

    Raises:
        InvalidInputError: the fleet file cannot be read or is invalid.
    """
    if settings.fleet is not None:
        return _read_fleet(settings.fleet)
    totals = {VCPU: settings.vcpus, MEMORY_MB: settings.memory_mb, DISK_GB: settings.disk_gb}
    names = [settings.host] if settings.host else []
    names += [f"fake-{index:05d}" for index in range(settings.fake_hosts)]
    return [FakeHost(name=name, totals=totals) for name in names]


def _read_list(
    path: Path, kind: type[list[T]], what: str, also: Mapping[str, str] = _NO_NAMES
) -> list[T]:
    """Return the items of a JSON list, which may only have known fields.

    Args:
        path: the file.
        kind: the type of the list.
        what: the plural noun for error messages.
        also: alternative field names, and the fields that they stand for.

    Raises:
        InvalidInputError: the file cannot be read, or an item is invalid.
    """
    # msgspec ignores unknown fields of dataclasses. They are rejected below, because a misspelt
    # field would otherwise be lost.
    try:
        given = msgspec.json.decode(path.read_bytes(), type=list[dict[str, object]])
        items = msgspec.convert([_named(one, also) for one in given], kind, str_keys=True)
    except OSError as error:
        raise InvalidInputError(
            str(path), f"cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    except msgspec.DecodeError as error:
        raise InvalidInputError(str(path), f"is not a list of {what} ({error})") from error
    for index, (item, fields) in enumerate(zip(items, given, strict=True)):
        for name in fields:
            field = also.get(name, name)
            if not hasattr(item, field):
                raise InvalidInputError(
                    f"{path}: [{index}].{name}",
                    "is an unknown field; remove it or correct its name",
                )
            if field != name and field in fields:
                raise InvalidInputError(
                    f"{path}: [{index}].{name}", f"duplicates {field}; remove one of the two"
                )
    return items


def _named(fields: dict[str, object], also: Mapping[str, str]) -> dict[str, object]:
    return {also.get(name, name): value for name, value in fields.items()}


def _read_fleet(path: Path) -> list[FakeHost]:
    fleet = _read_list(path, list[FakeHost], "hosts")
    names = Counter(fake.name for fake in fleet)
    for name, count in names.items():
        if count > 1:
            raise InvalidInputError(
                str(path), f"names host {name} {count} times; give each host its own name"
            )
    return fleet


@dataclass(frozen=True, slots=True)
class _ListedImage(Image):
    """An image with the fields that only agents on compute hosts use."""

    file: str | None = None
    format: ImageFormat = ImageFormat.QCOW2
    initrd: str | None = None
    cmdline: str = ""


def read_images(path: Path | None) -> dict[str, Image]:
    """Return the images of a file by id; empty if `path` is None.

    Raises:
        InvalidInputError: the file cannot be read or is invalid.
    """
    if path is None:
        return {}
    return {
        one.image_id: Image(
            one.image_id, one.name, one.properties, one.min_memory_mb, one.min_disk_gb
        )
        for one in _read_list(path, list[_ListedImage], "images", _IMAGE_NAMES)
    }


def read_image_files(path: Path | None) -> dict[str, ImageFile]:
    """Return the local files of the images in a list, by id; empty if `path` is None.

    Images without a file are left out. The properties `kernel_id`, `ramdisk_id`,
    `os_command_line`, `hw_rescue_device` and `hw_rescue_bus` have Nova's meaning; the first two are
    ids of images in the same list.

    Raises:
        InvalidInputError: the list cannot be read or is invalid, a named kernel or RAM disk is
            missing from the list or has no file or the wrong format, or an image has a RAM disk or
            a command line but no kernel.
    """
    if path is None:
        return {}
    images = _read_list(path, list[_ListedImage], "images", _IMAGE_NAMES)
    listed = {one.image_id: one for one in images}
    folder = path.absolute().parent
    return {
        one.image_id: _image_file(path, folder, one, listed)
        for one in listed.values()
        if one.file is not None
    }


def _image_file(
    path: Path, folder: Path, image: _ListedImage, listed: Mapping[str, _ListedImage]
) -> ImageFile:
    def part(name: str, wanted: ImageFormat) -> _ListedImage | None:
        if not (image_id := image.properties.get(name)):
            return None
        found = listed.get(image_id)
        if found is None or found.file is None or found.format is not wanted:
            where = f"{path}: {image.image_id}.properties.{name}"
            reason = (
                f"this list has no image {image_id!r} of format {wanted} with a file; add it, or "
                "correct the id"
            )
            raise InvalidInputError(where, reason)
        return found

    kernel, ramdisk = part(_KERNEL, ImageFormat.KERNEL), part(_RAMDISK, ImageFormat.RAMDISK)
    initrd = image.initrd if ramdisk is None else ramdisk.file
    cmdline = image.properties.get(_CMDLINE, image.cmdline)
    if kernel is not None:
        initrd = initrd or kernel.initrd
        cmdline = cmdline or kernel.cmdline or _DISK_CMDLINE
    elif image.format is not ImageFormat.KERNEL and (initrd or cmdline):
        where = f"{path}: {image.image_id}"
        raise InvalidInputError(
            where, f"an initrd or a command line needs a kernel; set the property {_KERNEL}"
        )
    return ImageFile(
        image.image_id,
        folder / (image.file or ""),
        image.format,
        None if initrd is None else folder / initrd,
        cmdline,
        None if kernel is None else folder / (kernel.file or ""),
        _rescues_in_place(path, image),
    )


def _rescues_in_place(path: Path, image: _ListedImage) -> bool:
    """Return whether an image has one of the properties of rescues, and so keeps disks in place.

    Raises:
        InvalidInputError: the drivers do not have the device or the bus, or the image has a kernel,
            which could not find the rescue disk.
    """
    named = _RESCUE.keys() & image.properties
    for name in sorted(named):
        where = f"{path}: {image.image_id}.properties.{name}"
        if image.properties[name] != _RESCUE[name]:
            value = image.properties[name][:80]
            raise InvalidInputError(where, f"{value!r} is not available; use {_RESCUE[name]!r}")
        if _KERNEL in image.properties:
            reason = f"cannot be combined with {_KERNEL}; the kernel would not find the rescue disk"
            raise InvalidInputError(where, reason)
    return bool(named)
