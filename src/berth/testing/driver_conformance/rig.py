"""The rig interface, fixtures and helpers of the driver conformance suite."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import HAS_CONFIG_DRIVE, Instance, Task
from berth.ports.virt import DriverFeature, Guest, Power, VirtDriver
from berth.testing.builders import make_instance, make_uuid
from berth.testing.stub_guest import StubGuestReady, starts_of

# A test waits this long for a guest: without KVM, booting takes seconds on a loaded machine.
_PATIENCE_S = 30.0
_POLL_S = 0.01
_CONSOLE_BYTES = 10_000
HERE, THERE = 0, 1
RESCUE_IMAGE = Image("rescue")
"""The image from which the suite rescues guests."""


class DriverRig(Protocol):
    """Two hosts, and methods that cause events in their guests."""

    async def open(self, host: int = HERE) -> VirtDriver:
        """Return a new driver of a host; the previous one is dropped as if its agent had died."""
        ...

    async def crash(self, instance_uuid: str, host: int = HERE) -> None:
        """Kill the process of a guest."""
        ...

    async def turn_off(self, instance_uuid: str, host: int = HERE) -> None:
        """Make a guest power itself off."""
        ...

    async def deafen(self, instance_uuid: str, host: int = HERE) -> None:
        """Make a guest ignore the power button."""
        ...

    async def forget(self, instance_uuid: str, host: int = HERE) -> None:
        """Remove the driver's record of a running guest while no driver is open."""
        ...

    async def stall(self, instance_uuid: str) -> None:
        """Keep the live migration of a guest to `THERE` from finishing, until `close`."""
        ...

    async def write_disk(self, instance_uuid: str, value: int, host: int = HERE) -> None:
        """Fill the beginning of a stopped guest's root disk with a byte value."""
        ...

    async def read_disk(self, instance_uuid: str, host: int = HERE) -> int:
        """Return the byte value that `write_disk` wrote, or 0 if it wrote none."""
        ...

    def remains(self) -> Sequence[str]:
        """Return the names of remaining processes, files and offers of guests."""
        ...

    async def close(self) -> None:
        """Close the drivers, and undo `stall`."""
        ...


@asynccontextmanager
async def clean(rig: DriverRig) -> AsyncGenerator[DriverRig]:
    """Yield the rig, and destroy all guests afterwards.

    Raises:
        AssertionError: destroyed guests left processes, files or offers behind.
    """
    try:
        yield rig
    finally:
        # New drivers are opened, because those of the test may be in any state.
        await rig.close()
        for host in (HERE, THERE):
            driver = await rig.open(host)
            for guest in await driver.guests():
                await driver.destroy(guest.instance_uuid)
        await rig.close()
    if remains := rig.remains():
        raise AssertionError(f"destroyed guests left {remains} behind")


class RigFixtures:
    """Fixtures of the suite; a subclass overrides `rig`, and `instance` if necessary."""

    @pytest.fixture
    def rig(self) -> DriverRig:
        """Return the rig under test; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `rig`")

    @pytest.fixture
    async def driver(self, rig: DriverRig) -> VirtDriver:
        """Open the driver of the first host."""
        return await rig.open()

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance that the driver can start."""
        return stub_instance()

    @pytest.fixture
    def other(self, instance: Instance) -> Instance:
        """Return a second instance that the driver can start."""
        return replace(instance, uuid=make_uuid("instance", 2), name="vm-2")

    @pytest.fixture
    def with_disk(self, instance: Instance) -> Instance:
        """Return the first instance with a root disk of 1 GiB and a config drive."""
        extra = {HAS_CONFIG_DRIVE: True, "key_name": "mine", "key_data": "ssh-ed25519 AAAA"}
        return replace(instance, flavor=replace(instance.flavor, root_gb=1), extra=extra)


def stub_instance(image: Image | None = None) -> Instance:
    """Return an instance with the smallest flavor that the stub guest boots in."""
    small = Flavor("stub", "stub", vcpus=1, memory_mb=4)
    instance = make_instance(1, host="host-1")
    return replace(instance, task=Task.SPAWNING, flavor=small, image=image)


async def powers(driver: VirtDriver) -> dict[str, Power]:
    """Return the power state of each guest of a host by instance uuid."""
    return {guest.instance_uuid: guest.power for guest in await driver.guests()}


async def guest_of(driver: VirtDriver, instance: Instance) -> Guest | None:
    """Return the guest of an instance, or None if the host does not have it."""
    for guest in await driver.guests():
        if guest.instance_uuid == instance.uuid:
            return guest
    return None


async def starts(driver: VirtDriver, instance: Instance) -> list[StubGuestReady]:
    """Return the lines that an instance's guest wrote to its console at its starts."""
    return starts_of(await driver.console(instance.uuid, bytes_max=_CONSOLE_BYTES))


async def start(driver: VirtDriver, instance: Instance, *, count: int = 1) -> None:
    """Spawn a guest, and wait until it has booted `count` times; see `wait_until_started`."""
    await driver.spawn(instance)
    await wait_until_started(driver, instance, count=count)


async def wait_until_started(driver: VirtDriver, instance: Instance, *, count: int) -> None:
    """Wait until a guest has booted `count` times; return immediately if there is no console."""
    # Only the console shows that a guest has booted, so tests of drivers without one skip this
    # check.
    if DriverFeature.CONSOLE not in driver.verbs:
        return

    async def is_so() -> bool:
        return len(await starts(driver, instance)) >= count

    await eventually(is_so)


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: the condition does not hold within 30 seconds.
    """
    async with asyncio.timeout(_PATIENCE_S):
        while not await is_so():  # noqa: ASYNC110 - no event reports the condition
            await asyncio.sleep(_POLL_S)


def needs(driver: VirtDriver, *verbs: DriverFeature) -> None:
    """Skip the test if the driver lacks any of the features."""
    if lacking := set(verbs) - driver.verbs:
        pytest.skip(f"the driver does not support {', '.join(sorted(lacking))}")
