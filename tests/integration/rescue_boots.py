"""Guests with real boot sectors, which tell from which disk they boot."""

from dataclasses import replace
from pathlib import Path

from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Status
from berth.domain.compute.rescue import with_rescue_image
from berth.ports.virt import VirtDriver
from berth.testing.driver_conformance.rig import eventually, stub_instance

_DISK_BYTES = 1024 * 1024


def boot_images(folder: Path, *, in_place: bool) -> dict[str, ImageFile]:
    """Write disks to a folder that write `O` (own) and `R` (rescue) to the serial port."""
    found: dict[str, ImageFile] = {}
    for name in ("O", "R"):
        file = folder / f"{name}.raw"
        # mov al, name; mov dx, 0x3f8; out dx, al; jmp to itself
        code = bytes((0xB0, ord(name), 0xBA, 0xF8, 0x03, 0xEE, 0xEB, 0xFE))
        file.write_bytes((code.ljust(510, b"\0") + b"\x55\xaa").ljust(_DISK_BYTES, b"\0"))
        found[name] = ImageFile(name, file, ImageFormat.RAW, rescues_in_place=in_place)
    return found


async def check_boots(driver: VirtDriver) -> None:
    """Start a guest from its own disk, rescue it, and start it from its own disk again."""
    own = replace(stub_instance(Image("O")), flavor=Flavor("f", "f", 1, 64, root_gb=1))
    rescued = replace(own, status=Status.RESCUED, extra=with_rescue_image(own, Image("R")))
    expected = ""
    for instance, name in ((own, "O"), (rescued, "R"), (own, "O")):
        await driver.spawn(instance)
        expected += name

        async def has_said(text: str = expected) -> bool:
            return await driver.console(own.uuid, bytes_max=99) == text

        await eventually(has_said)
        disks = [one.name for one in (await driver.diagnostics(own.uuid)).disks]
        assert disks == (["vda", "vdb"] if instance is rescued else ["vda"])
        await driver.stop(own.uuid, grace_s=0)
