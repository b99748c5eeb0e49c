"""Power: starting, stopping, resetting and destroying guests."""

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
    has_started,
    needs,
    powers,
    start,
    starts,
)

_LONG_S = 30.0
_SHORT_S = 0.3


class PowerTests(RigFixtures):
    """What `spawn`, `stop`, `reset` and `destroy` do."""

    async def test_what_is_started_runs_until_it_is_destroyed(
        self, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """Each for itself."""
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
        """It goes on running, once."""
        await start(driver, instance)
        await driver.spawn(instance)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        if DriverFeature.CONSOLE in driver.verbs:
            assert len(await starts(driver, instance)) == 1

    async def test_stopping_and_destroying_what_is_not_there_is_a_success(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Before it was ever started, and after it was destroyed."""
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
        """Nothing is left that would be in the way."""
        for _ in range(2):
            await start(driver, instance)
            assert await powers(driver) == {instance.uuid: Power.RUNNING}
            await driver.destroy(instance.uuid)

    async def test_instances_are_started_beside_one_another(
        self, driver: VirtDriver, instance: Instance, other: Instance
    ) -> None:
        """Two builds at once end as two builds one after the other; of one guest, as one."""
        await asyncio.gather(driver.spawn(instance), driver.spawn(other), driver.spawn(instance))
        assert set(await powers(driver)) == {instance.uuid, other.uuid}
        await asyncio.gather(driver.destroy(instance.uuid), driver.destroy(other.uuid))
        assert await powers(driver) == {}

    async def test_a_build_that_is_given_up_can_be_destroyed(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Whatever it had begun."""
        build = asyncio.ensure_future(driver.spawn(instance))
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
        """It stays on the host, stopped, and takes less than the whole grace."""
        await start(driver, instance)
        async with asyncio.timeout(_LONG_S):
            for _ in range(2):
                await driver.stop(instance.uuid, grace_s=10 * _LONG_S)
                assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_guest_that_is_still_starting_stops_when_asked(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """The power button is pressed until it is heard."""
        await start(driver, instance)
        if DriverFeature.RESET in driver.verbs:
            await driver.reset(instance.uuid)
        async with asyncio.timeout(_LONG_S):
            await driver.stop(instance.uuid, grace_s=10 * _LONG_S)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_guest_that_does_not_listen_is_cut_off_after_the_grace(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """And not before."""
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
        """One that hangs too."""
        await start(driver, instance)
        await rig.deafen(instance.uuid)
        await driver.stop(instance.uuid, grace_s=0)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_what_was_stopped_starts_again(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """It begins anew."""
        await start(driver, instance)
        await driver.stop(instance.uuid, grace_s=0)
        await start(driver, instance, count=2)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_a_guest_that_turned_itself_off_is_stopped(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """Nobody says that it crashed."""
        await start(driver, instance)
        await rig.turn_off(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}
        await start(driver, instance, count=2)

    async def test_a_guest_that_is_reset_begins_anew(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """One that hangs too."""
        needs(driver, DriverFeature.RESET)
        await start(driver, instance)
        await driver.reset(instance.uuid)
        await has_started(driver, instance, count=2)
        await rig.deafen(instance.uuid)
        await driver.reset(instance.uuid)
        await has_started(driver, instance, count=3)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

    async def test_only_what_runs_is_reset(self, driver: VirtDriver, instance: Instance) -> None:
        """A stopped guest and none at all are refused, and nothing starts."""
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
        """No more of it than was asked for, and none of a guest that is not there."""
        needs(driver, DriverFeature.CONSOLE)
        await start(driver, instance)
        text = await driver.console(instance.uuid, bytes_max=1_000)
        assert instance.uuid in text
        assert await driver.console(instance.uuid, bytes_max=10) == text[-10:]
        assert await driver.console(instance.uuid, bytes_max=0) == ""
        await driver.destroy(instance.uuid)
        with pytest.raises(DriverError):
            await driver.console(instance.uuid, bytes_max=10)
