"""Conformance tests of guest events, which are hints that a power state has changed."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
from collections.abc import AsyncIterator

from berth.domain.compute.instance import Instance
from berth.ports.virt import DriverFeature, GuestEvent, Power, VirtDriver
from berth.testing.driver_conformance.rig import DriverRig, RigFixtures, needs, powers, start

_PATIENCE_S = 30.0


async def hint_of(events: AsyncIterator[GuestEvent], instance: Instance, power: Power) -> None:
    """Wait for an event that reports a power state of an instance's guest."""
    async with asyncio.timeout(_PATIENCE_S):
        # Other events are skipped: events are hints, and drivers may send more than one per change.
        async for event in events:
            if (event.instance_uuid, event.power) == (instance.uuid, power):
                return


class HintTests(RigFixtures):
    """Tests of `events`."""

    async def test_every_subscriber_receives_every_event(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """Every subscriber receives the events of driver methods and of crashes."""
        needs(driver, DriverFeature.EVENTS)
        await start(driver, instance)
        first, second = driver.events(), driver.events()
        await driver.pause(instance.uuid)
        for events in (first, second):
            await hint_of(events, instance, Power.PAUSED)
        await driver.unpause(instance.uuid)
        await hint_of(first, instance, Power.RUNNING)
        await rig.crash(instance.uuid)
        await hint_of(first, instance, Power.CRASHED)

    async def test_a_guest_that_powers_off_causes_an_event(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A guest that powers off causes an event, even under a driver that adopted it."""
        needs(driver, DriverFeature.EVENTS)
        await start(driver, instance)
        driver = await rig.open()
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        events = driver.events()
        await rig.turn_off(instance.uuid)
        await hint_of(events, instance, Power.STOPPED)

    async def test_events_need_no_subscriber(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """Guests are listed correctly while no subscriber reads the events."""
        needs(driver, DriverFeature.EVENTS, DriverFeature.PAUSE)
        events = driver.events()
        await start(driver, instance)
        # Enough events to fill a small queue: an idle subscriber must not block the driver.
        for _ in range(20):
            await driver.pause(instance.uuid)
            await driver.unpause(instance.uuid)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        await hint_of(events, instance, Power.RUNNING)
