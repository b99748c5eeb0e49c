"""Conformance tests of `resize`: the size of a guest, and when it changes."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature, VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures, needs, start, starts


def larger(instance: Instance) -> Instance:
    """Return the instance with twice its VCPUs and memory."""
    flavor = instance.flavor
    flavor = replace(flavor, vcpus=2 * flavor.vcpus, memory_mb=2 * flavor.memory_mb)
    return replace(instance, flavor=flavor)


class SizeTests(RigFixtures):
    """Tests of `resize`."""

    async def test_a_guest_has_its_new_size_after_the_next_start_at_the_latest(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`resize` returns whether the new size applies immediately or at the next start."""
        needs(driver, DriverFeature.CONSOLE)
        await start(driver, instance)
        changed = larger(instance)
        # `resize` is called twice, because agents repeat a call whose outcome they did not record.
        has_it = await driver.resize(changed)
        assert await driver.resize(changed) == has_it
        assert has_it == (DriverFeature.RESIZE_LIVE in driver.verbs)
        await driver.stop(instance.uuid, grace_s=0)
        await start(driver, changed, count=2)
        assert await driver.resize(changed)
        newest = (await starts(driver, instance))[-1]
        wanted = changed.flavor
        assert (newest.vcpus, newest.memory_mb) == (wanted.vcpus, wanted.memory_mb)

    async def test_a_stopped_guest_has_its_new_size_at_once(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A stopped guest is resized immediately, and can be resized back before it starts."""
        await driver.spawn(instance)
        await driver.stop(instance.uuid, grace_s=0)
        assert await driver.resize(larger(instance))
        assert await driver.resize(instance)
        await driver.spawn(instance)
        assert await driver.resize(instance)

    async def test_a_guest_that_is_not_there_has_no_size(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """`resize` of an unknown guest fails and creates no guest."""
        with pytest.raises(DriverError):
            await driver.resize(instance)
        assert list(await driver.guests()) == []
