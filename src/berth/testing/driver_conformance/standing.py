"""Standing still: guests that are paused or suspended."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import pytest

from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures, needs, powers, start, starts


class StandingTests(RigFixtures):
    """What `pause`, `unpause`, `suspend` and `resume` do."""

    async def test_a_paused_guest_goes_on_when_it_is_told(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Not by `spawn`, and telling it twice does no harm."""
        needs(driver, DriverFeature.PAUSE)
        await start(driver, instance)
        for _ in range(2):
            await driver.pause(instance.uuid)
            assert await powers(driver) == {instance.uuid: Power.PAUSED}
        await driver.spawn(instance)
        assert await powers(driver) == {instance.uuid: Power.PAUSED}
        for _ in range(2):
            await driver.unpause(instance.uuid)
            assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_a_paused_guest_can_be_stopped(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """It hears no power button, so nobody waits for it."""
        needs(driver, DriverFeature.PAUSE)
        await driver.spawn(instance)
        await driver.pause(instance.uuid)
        await driver.stop(instance.uuid, grace_s=3_600)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_suspended_guest_goes_on_where_it_was(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """By `resume`, and by `spawn`; it does not begin anew."""
        needs(driver, DriverFeature.SUSPEND)
        await start(driver, instance)
        for way in ("resume", "spawn"):
            for _ in range(2):
                await driver.suspend(instance.uuid)
                assert await powers(driver) == {instance.uuid: Power.SUSPENDED}
            for _ in range(2):
                await (driver.spawn(instance) if way == "spawn" else driver.resume(instance.uuid))
                assert await powers(driver) == {instance.uuid: Power.RUNNING}
        if DriverFeature.CONSOLE in driver.verbs:
            assert len(await starts(driver, instance)) == 1

    async def test_a_paused_guest_can_be_suspended(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Afterwards it runs."""
        needs(driver, DriverFeature.PAUSE, DriverFeature.SUSPEND)
        await start(driver, instance)
        await driver.pause(instance.uuid)
        await driver.suspend(instance.uuid)
        await driver.resume(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_a_suspended_guest_that_is_stopped_begins_anew(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Its memory is gone."""
        needs(driver, DriverFeature.SUSPEND)
        await start(driver, instance)
        await driver.suspend(instance.uuid)
        await driver.stop(instance.uuid, grace_s=0)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}
        await start(driver, instance, count=2)

    async def test_a_suspended_guest_can_be_destroyed(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Its memory goes with it."""
        needs(driver, DriverFeature.SUSPEND)
        await driver.spawn(instance)
        await driver.suspend(instance.uuid)
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {}

    @pytest.mark.parametrize("is_there", [True, False])
    @pytest.mark.parametrize("verb", ["pause", "unpause", "suspend", "resume"])
    async def test_a_guest_that_does_not_run_cannot_stand_still(
        self, driver: VirtDriver, instance: Instance, verb: str, *, is_there: bool
    ) -> None:
        """Neither a stopped one nor none at all; they stay as they are."""
        needs(driver, DriverFeature.PAUSE, DriverFeature.SUSPEND)
        if is_there:
            await driver.spawn(instance)
            await driver.stop(instance.uuid, grace_s=0)
        before = await powers(driver)
        with pytest.raises(DriverError):
            await getattr(driver, verb)(instance.uuid)
        assert await powers(driver) == before
