"""Conformance tests of drivers that cannot start a guest, and of guests whose processes die."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Task

# ruff: noqa: S101 - a conformance suite is made of asserts
from berth.ports.virt import Power, VirtDriver
from berth.testing.builders import make_instance
from berth.testing.driver_conformance.rig import (
    DriverRig,
    RigFixtures,
    guest_of,
    powers,
    start,
)


class FailingDriverConformance:
    """Tests of a driver that cannot start any guest; a subclass overrides `driver`."""

    @pytest.fixture
    def driver(self) -> VirtDriver:
        """Return a driver whose builds fail; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `driver`")

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance that the driver cannot start."""
        return replace(make_instance(1, host="host-1"), task=Task.SPAWNING)

    async def test_a_failed_build_says_so_and_leaves_nothing(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A failed build raises `BuildError` and leaves no guest; retry and `destroy` work."""
        for _ in range(2):
            with pytest.raises(BuildError):
                await driver.spawn(instance)
            assert list(await driver.guests()) == []
        await driver.destroy(instance.uuid)


class CrashTests(RigFixtures):
    """Tests of guests whose processes die."""

    async def test_a_crash_is_seen(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """A crashed guest is reported with a reason; other guests are not affected."""
        await start(driver, instance)
        await start(driver, other)
        await rig.crash(instance.uuid)
        guest = await guest_of(driver, instance)
        assert guest is not None
        assert guest.power is Power.CRASHED
        assert guest.reason
        assert (await powers(driver))[other.uuid] is Power.RUNNING

    async def test_what_crashed_starts_again(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A crashed guest boots again on `spawn`, and is then running."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        await start(driver, instance, count=2)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_what_crashed_can_be_stopped(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`stop` acknowledges the crash: the guest is stopped afterwards."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        # The driver must not wait for the grace period: a guest without a process cannot shut down.
        await driver.stop(instance.uuid, grace_s=60)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_what_crashed_can_be_destroyed(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`destroy` removes a crashed guest."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {}
