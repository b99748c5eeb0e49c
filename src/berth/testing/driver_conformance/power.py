"""Conformance tests of power: starting, stopping, resetting and destroying guests."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
import contextlib

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    DriverRig,
    RigFixtures,
    needs,
    powers,
    start,
    starts,
    wait_until_started,
)

_LONG_S = 30.0
_SHORT_S = 0.3


class PowerTests(RigFixtures):
    """Tests of `spawn`, `stop`, `reset`, `destroy` and `console`."""

    async def test_what_is_started_runs_until_it_is_destroyed(
        self, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """Guests run independently of each other until they are destroyed."""
        await driver.spawn(instance)
        await driver.spawn(other)
        running = {instance.uuid: Power.RUNNING, other.uuid: Power.RUNNING}
        assert await powers(driver) == running
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {other.uuid: Power.RUNNING}
        await driver.destroy(other.uuid)
        assert await powers(driver) == {}

    async def test_starting_what_runs_is_a_success(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`spawn` of a running guest succeeds and does not start it again."""
        await start(driver, instance)
        await driver.spawn(instance)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        if DriverFeature.CONSOLE in driver.verbs:
            assert len(await starts(driver, instance)) == 1

    async def test_stopping_and_destroying_what_is_not_there_is_a_success(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`stop` and `destroy` succeed before the first start and after a `destroy`."""
        await driver.destroy(instance.uuid)
        await driver.stop(instance.uuid, grace_s=_LONG_S)
        await driver.spawn(instance)
        for _ in range(2):
            await driver.destroy(instance.uuid)
        await driver.stop(instance.uuid, grace_s=_LONG_S)
        assert await powers(driver) == {}

    async def test_what_was_destroyed_can_be_started_again(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`destroy` leaves nothing that would block another `spawn` of the same instance."""
        for _ in range(2):
            await start(driver, instance)
            assert await powers(driver) == {instance.uuid: Power.RUNNING}
            await driver.destroy(instance.uuid)

    async def test_instances_are_started_beside_one_another(
        self, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """Concurrent builds make one guest per instance, even two builds of the same instance."""
        await asyncio.gather(driver.spawn(instance), driver.spawn(other), driver.spawn(instance))
        assert set(await powers(driver)) == {instance.uuid, other.uuid}
        await asyncio.gather(driver.destroy(instance.uuid), driver.destroy(other.uuid))
        assert await powers(driver) == {}

    async def test_a_build_that_is_given_up_can_be_destroyed(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`destroy` cleans up after a cancelled build, whatever the build had created."""
        build = asyncio.ensure_future(driver.spawn(instance))
        # Two turns of the event loop let the build start without letting it finish.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        build.cancel()
        with contextlib.suppress(asyncio.CancelledError, BuildError):
            await build
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {}

    async def test_a_guest_that_listens_stops_when_asked(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A guest that handles the power button stops before the grace period ends."""
        await start(driver, instance)
        # The grace period exceeds the timeout, so a driver that waits for all of it fails.
        async with asyncio.timeout(_LONG_S):
            for _ in range(2):
                await driver.stop(instance.uuid, grace_s=10 * _LONG_S)
                assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_guest_that_is_still_starting_stops_when_asked(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """The driver repeats the power button event until the guest reacts."""
        await start(driver, instance)
        # A guest that has just been reset does not listen yet and misses the first event.
        if DriverFeature.RESET in driver.verbs:
            await driver.reset(instance.uuid)
        async with asyncio.timeout(_LONG_S):
            await driver.stop(instance.uuid, grace_s=10 * _LONG_S)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_guest_that_does_not_listen_is_cut_off_after_the_grace(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A guest that ignores the power button is killed after the grace period, not earlier."""
        await start(driver, instance)
        await rig.deafen(instance.uuid)
        stop = asyncio.ensure_future(driver.stop(instance.uuid, grace_s=_SHORT_S))
        await asyncio.sleep(_SHORT_S / 2)
        assert not stop.done()
        async with asyncio.timeout(_LONG_S):
            await stop
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_without_a_grace_a_guest_is_cut_off_at_once(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A grace period of 0 kills a guest immediately, even a hung guest."""
        await start(driver, instance)
        await rig.deafen(instance.uuid)
        await driver.stop(instance.uuid, grace_s=0)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_what_was_stopped_starts_again(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A stopped guest boots again on `spawn`."""
        await start(driver, instance)
        await driver.stop(instance.uuid, grace_s=0)
        await start(driver, instance, count=2)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_a_guest_that_turned_itself_off_is_stopped(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A guest that powered itself off is reported as stopped, not as crashed."""
        await start(driver, instance)
        await rig.turn_off(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}
        await start(driver, instance, count=2)

    async def test_a_guest_that_is_reset_begins_anew(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`reset` reboots a running guest, even a hung guest."""
        needs(driver, DriverFeature.RESET)
        await start(driver, instance)
        await driver.reset(instance.uuid)
        await wait_until_started(driver, instance, count=2)
        await rig.deafen(instance.uuid)
        await driver.reset(instance.uuid)
        await wait_until_started(driver, instance, count=3)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_only_what_runs_is_reset(self, driver: VirtDriver, instance: Instance) -> None:
        """`reset` of a stopped or unknown guest is refused and starts nothing."""
        needs(driver, DriverFeature.RESET)
        with pytest.raises(DriverError):
            await driver.reset(instance.uuid)
        await driver.spawn(instance)
        await driver.stop(instance.uuid, grace_s=0)
        with pytest.raises(DriverError):
            await driver.reset(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_console_gives_the_end_of_what_was_written(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`console` returns at most `bytes_max` bytes, and fails for an unknown guest."""
        needs(driver, DriverFeature.CONSOLE)
        await start(driver, instance)
        text = await driver.console(instance.uuid, bytes_max=1_000)
        assert instance.uuid in text
        assert await driver.console(instance.uuid, bytes_max=10) == text[-10:]
        assert await driver.console(instance.uuid, bytes_max=0) == ""
        await driver.destroy(instance.uuid)
        with pytest.raises(DriverError):
            await driver.console(instance.uuid, bytes_max=10)
