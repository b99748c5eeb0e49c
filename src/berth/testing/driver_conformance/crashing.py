"""Crashes: guests that end without being asked."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from berth.domain.compute.instance import Instance
from berth.ports.virt import Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    DriverRig,
    RigFixtures,
    guest_of,
    powers,
    start,
)


class CrashTests(RigFixtures):
    """What becomes of a guest whose process dies."""

    async def test_a_crash_is_seen(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """With a reason, and of the one guest only."""
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
        """It begins anew, and is no crashed one any more."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        await start(driver, instance, count=2)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_what_crashed_can_be_stopped(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """Then somebody knows of it, and it is stopped like others."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        await driver.stop(instance.uuid, grace_s=60)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_what_crashed_can_be_destroyed(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """It is gone then."""
        await start(driver, instance)
        await rig.crash(instance.uuid)
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {}
