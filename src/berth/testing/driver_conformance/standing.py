"""Conformance tests of paused and suspended guests."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import pytest

from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures, needs, powers, start, starts


class StandingTests(RigFixtures):
    """Tests of `pause`, `unpause`, `suspend` and `resume`."""

    async def test_a_paused_guest_goes_on_when_it_is_told(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`pause` and `unpause` are idempotent, and `spawn` does not unpause a guest."""
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
        """`stop` kills a paused guest immediately, because it cannot react to the power button."""
        needs(driver, DriverFeature.PAUSE)
        # The grace period is an hour, so a driver that waits for it exceeds the test's timeout.
        await driver.spawn(instance)
        await driver.pause(instance.uuid)
        await driver.stop(instance.uuid, grace_s=3_600)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_suspended_guest_goes_on_where_it_was(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`resume` and `spawn` continue a suspended guest without a reboot."""
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
        """A paused guest can be suspended, and runs after `resume`."""
        needs(driver, DriverFeature.PAUSE, DriverFeature.SUSPEND)
        await start(driver, instance)
        await driver.pause(instance.uuid)
        await driver.suspend(instance.uuid)
        await driver.resume(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_a_suspended_guest_that_is_stopped_begins_anew(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`stop` discards the saved memory of a suspended guest, which then boots from its disk."""
        needs(driver, DriverFeature.SUSPEND)
        await start(driver, instance)
        await driver.suspend(instance.uuid)
        await driver.stop(instance.uuid, grace_s=0)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}
        await start(driver, instance, count=2)

    async def test_a_suspended_guest_can_be_destroyed(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`destroy` removes a suspended guest together with its saved memory."""
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
        """The four methods refuse a stopped or unknown guest and change nothing."""
        needs(driver, DriverFeature.PAUSE, DriverFeature.SUSPEND)
        if is_there:
            await driver.spawn(instance)
            await driver.stop(instance.uuid, grace_s=0)
        before = await powers(driver)
        with pytest.raises(DriverError):
            await getattr(driver, verb)(instance.uuid)
        assert await powers(driver) == before
