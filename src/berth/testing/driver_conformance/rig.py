"""What the parts of the driver's conformance suite share."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance, Task
from berth.ports.virt import DriverFeature, Guest, Power, VirtDriver
from berth.testing.builders import make_instance, make_uuid
from berth.testing.stub_guest import Ready, starts_of

_PATIENCE_S = 30.0
_POLL_S = 0.01
_CONSOLE_BYTES = 10_000
HERE, THERE = 0, 1


class DriverRig(Protocol):
    """Two hosts, and what can happen to guests there."""

    async def open(self, host: int = HERE) -> VirtDriver:
        """Return a driver of a host; that the host had before is gone, as when its agent died."""
        ...

    async def crash(self, instance_uuid: str, host: int = HERE) -> None:
        """End a guest as if its process had died."""
        ...

    async def turn_off(self, instance_uuid: str, host: int = HERE) -> None:
        """Have a guest turn itself off."""
        ...

    async def deafen(self, instance_uuid: str, host: int = HERE) -> None:
        """Have a guest not hear the power button any more."""
        ...

    async def forget(self, instance_uuid: str, host: int = HERE) -> None:
        """Lose the record of a guest while no driver is open; the guest goes on."""
        ...

    async def stall(self, instance_uuid: str) -> None:
        """Have the live migration of a guest to THERE take for ever."""
        ...

    async def write_disk(self, instance_uuid: str, value: int, host: int = HERE) -> None:
        """Write a byte, again and again, to the root disk of a stopped guest."""
        ...

    async def read_disk(self, instance_uuid: str, host: int = HERE) -> int:
        """Return the byte that `write_disk` wrote; 0 when it did not."""
        ...

    def remains(self) -> Sequence[str]:
        """Name what is left of guests: processes, files, offers."""
        ...

    async def close(self) -> None:
        """Close the drivers, and undo `stall`."""
        ...


@asynccontextmanager
async def clean(rig: DriverRig) -> AsyncGenerator[DriverRig]:
    """Check after a test that guests, once destroyed, leave nothing."""
    try:
        yield rig
    finally:
        await rig.close()
        for host in (HERE, THERE):
            driver = await rig.open(host)
            for guest in await driver.guests():
                await driver.destroy(guest.instance_uuid)
        await rig.close()
    if remains := rig.remains():
        raise AssertionError(f"destroyed guests have left {remains}")


class RigFixtures:
    """The rig under test; a subclass overrides `rig`, and `instance` where it must."""

    @pytest.fixture
    def rig(self) -> DriverRig:
        """Return two hosts; to be said by whoever uses the suite."""
        raise NotImplementedError("a conformance suite is subclassed, with a rig")

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
        """Return a second one."""
        return replace(instance, uuid=make_uuid("instance", 2), name="vm-2")

    @pytest.fixture
    def with_disk(self, instance: Instance) -> Instance:
        """Return one with a root disk."""
        return replace(instance, flavor=replace(instance.flavor, root_gb=1))


def stub_instance(image: Image | None = None) -> Instance:
    """Return an instance that is large enough for the stub guest."""
    small = Flavor("stub", "stub", vcpus=1, memory_mb=4)
    instance = make_instance(1, host="host-1")
    return replace(instance, task=Task.SPAWNING, flavor=small, image=image)


async def powers(driver: VirtDriver) -> dict[str, Power]:
    """Return what each guest of a host does."""
    return {guest.instance_uuid: guest.power for guest in await driver.guests()}


async def guest_of(driver: VirtDriver, instance: Instance) -> Guest | None:
    """Return the guest of an instance; None when it is not there."""
    for guest in await driver.guests():
        if guest.instance_uuid == instance.uuid:
            return guest
    return None


async def starts(driver: VirtDriver, instance: Instance) -> list[Ready]:
    """Return what the guest of an instance has said at its starts."""
    return starts_of(await driver.console(instance.uuid, bytes_max=_CONSOLE_BYTES))


async def start(driver: VirtDriver, instance: Instance, *, count: int = 1) -> None:
    """Have a guest run, and wait until it has started so often, if that can be seen."""
    await driver.spawn(instance)
    await has_started(driver, instance, count=count)


async def has_started(driver: VirtDriver, instance: Instance, *, count: int) -> None:
    """Wait until a guest has started so often, if that can be seen."""
    if DriverFeature.CONSOLE not in driver.verbs:
        return

    async def is_so() -> bool:
        return len(await starts(driver, instance)) >= count

    await eventually(is_so)


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: it is not in half a minute.
    """
    async with asyncio.timeout(_PATIENCE_S):
        while not await is_so():  # noqa: ASYNC110 - what becomes so sets no event
            await asyncio.sleep(_POLL_S)


def needs(driver: VirtDriver, *verbs: DriverFeature) -> None:
    """Skip the test when the driver lacks a verb."""
    if lacking := set(verbs) - driver.verbs:
        pytest.skip(f"this driver cannot do {', '.join(sorted(lacking))}")
