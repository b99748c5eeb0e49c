"""Conformance tests of adoption: guests outlive the agent, and a new driver finds them."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    DriverRig,
    RigFixtures,
    guest_of,
    needs,
    powers,
    start,
    starts,
    wait_until_started,
)


class AdoptingTests(RigFixtures):
    """Tests of the reports of a second driver on the same host."""

    async def test_a_running_guest_is_found_running(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A new driver does not restart a running guest, and controls it like its own."""
        await start(driver, instance)
        driver = await rig.open()
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        # A restarted agent may repeat a build that was finished; the guest must not boot twice.
        await driver.spawn(instance)
        if DriverFeature.CONSOLE in driver.verbs:
            assert len(await starts(driver, instance)) == 1
        if DriverFeature.RESET in driver.verbs:
            await driver.reset(instance.uuid)
            await wait_until_started(driver, instance, count=2)
        await driver.stop(instance.uuid, grace_s=60)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_guests_that_do_not_run_are_found_as_they_were(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """Stopped, paused and suspended guests keep their power state across drivers."""
        needs(driver, DriverFeature.PAUSE, DriverFeature.SUSPEND)
        await start(driver, instance)
        await start(driver, other)
        await driver.stop(other.uuid, grace_s=0)
        await driver.pause(instance.uuid)
        driver = await rig.open()
        expected = {instance.uuid: Power.PAUSED, other.uuid: Power.STOPPED}
        assert await powers(driver) == expected
        await driver.suspend(instance.uuid)
        driver = await rig.open()
        assert await powers(driver) == {**expected, instance.uuid: Power.SUSPENDED}
        await driver.resume(instance.uuid)
        assert (await powers(driver))[instance.uuid] is Power.RUNNING

    async def test_how_a_guest_ended_meanwhile_is_found_out(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """A guest that powered off is stopped; a guest whose process died has crashed."""
        await start(driver, instance)
        await start(driver, other)
        # A closed driver receives no events, so the next one must find out the cause.
        await rig.close()
        await rig.turn_off(instance.uuid)
        await rig.crash(other.uuid)
        driver = await rig.open()
        expected = {instance.uuid: Power.STOPPED, other.uuid: Power.CRASHED}
        assert await powers(driver) == expected

    async def test_an_orphan_is_reported_and_left_alone(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """An orphan stays an orphan, cannot be spawned again, and is removed only by `destroy`."""
        await start(driver, instance)
        await start(driver, other)
        await rig.close()
        await rig.forget(instance.uuid)
        # The driver is opened twice: adopting an orphan must not turn it into an ordinary guest.
        for _ in range(2):
            driver = await rig.open()
            orphan = await guest_of(driver, instance)
            assert orphan is not None
            assert (orphan.power, orphan.is_orphan) == (Power.RUNNING, True)
        found = await guest_of(driver, other)
        assert found is not None
        assert not found.is_orphan
        with pytest.raises(BuildError):
            await driver.spawn(instance)
        await driver.stop(instance.uuid, grace_s=0)
        orphan = await guest_of(driver, instance)
        assert orphan is not None
        assert orphan.is_orphan
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {other.uuid: Power.RUNNING}
