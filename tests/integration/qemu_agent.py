"""An agent that calls random driver methods on two real guests until it is killed."""

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from berth.adapters.system import SystemClock
from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.testing.driver_conformance.rig import stub_instance

READY = b"ready\n"

Doing = Callable[[QemuDriver, Instance], Awaitable[object]]
DOINGS: Sequence[Doing] = (
    lambda driver, one: driver.spawn(one),
    lambda driver, one: driver.spawn(one),
    lambda driver, one: driver.stop(one.uuid, grace_s=0.1),
    lambda driver, one: driver.stop(one.uuid, grace_s=0),
    lambda driver, one: driver.reset(one.uuid),
    lambda driver, one: driver.pause(one.uuid),
    lambda driver, one: driver.unpause(one.uuid),
    lambda driver, one: driver.suspend(one.uuid),
    lambda driver, one: driver.resume(one.uuid),
    lambda driver, one: driver.destroy(one.uuid),
    lambda driver, one: driver.resize(one),
    lambda driver, one: driver.take_in(one),
    lambda driver, one: driver.offer_disks(one.uuid),
    lambda driver, one: driver.store_disks(one.uuid),
    lambda driver, one: driver.guests(),
)


def instances(image_id: str) -> list[Instance]:
    """Return an instance without disks and one with a disk."""
    first = stub_instance(Image(image_id))
    second = replace(first, uuid=first.uuid[:-1] + "2")
    return [first, replace(second, flavor=replace(second.flavor, root_gb=1))]


async def work(driver: QemuDriver, one: Instance, dice: random.Random) -> None:
    """Call random driver methods on a guest; only BuildError and DriverError may be raised."""
    while True:
        with contextlib.suppress(BuildError, DriverError):
            await dice.choice(DOINGS)(driver, one)
        await asyncio.sleep(0)


async def main(host: str, folder: Path, firmware: Path, seed: int) -> None:
    """Work on both guests concurrently."""
    images = {"stub": ImageFile("stub", firmware, ImageFormat.FIRMWARE)}
    stored = folder.with_name("stored")
    driver = QemuDriver(
        QemuHost(host, folder, Accelerator.TCG, stored),
        images,
        SystemClock(),
        InventorySettings(folder),
    )
    dice = random.Random(seed)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    await asyncio.gather(*(work(driver, one, dice) for one in instances("stub")))


if __name__ == "__main__":
    name, state_dir, rom, number = sys.argv[1:]
    asyncio.run(main(name, Path(state_dir), Path(rom), int(number)))
