"""Conformance tests of live migration: a running guest moves to another host."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
import contextlib

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, MigrationError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    THERE,
    DriverRig,
    RigFixtures,
    eventually,
    needs,
    powers,
    start,
    starts,
)


class MovingTests(RigFixtures):
    """Tests of `take_in`, `hand_over` and `cancel_hand_over`."""

    async def test_a_guest_goes_on_where_it_was_taken_in(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A guest moves without a reboot, leaves nothing on the source, and can move back."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        await start(driver, instance)
        for source, target in ((driver, there), (there, driver)):
            await source.hand_over(instance.uuid, await target.take_in(instance))
            assert await powers(source) == {}
            assert await powers(target) == {instance.uuid: Power.RUNNING}
            # Zero starts are allowed: the console's history may stay on the source.
            if DriverFeature.CONSOLE in target.verbs:
                assert len(await starts(target, instance)) <= 1
        await driver.stop(instance.uuid, grace_s=60)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_guest_waits_until_it_has_arrived(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`waits` is set until the guest arrives, so the agent can tell whether it has arrived."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        await start(driver, instance)
        address = await there.take_in(instance)
        assert [guest.waits for guest in await there.guests()] == [True]
        assert [guest.waits for guest in await driver.guests()] == [False]
        await driver.hand_over(instance.uuid, address)
        assert [guest.waits for guest in await there.guests()] == [False]

    async def test_a_guest_that_has_moved_can_do_what_others_can(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A migrated guest supports suspend, resume, reset and stop like any other guest."""
        needs(driver, DriverFeature.LIVE_MIGRATION, DriverFeature.SUSPEND, DriverFeature.RESET)
        there = await rig.open(THERE)
        await start(driver, instance)
        await driver.hand_over(instance.uuid, await there.take_in(instance))
        await there.suspend(instance.uuid)
        await there.resume(instance.uuid)
        assert await powers(there) == {instance.uuid: Power.RUNNING}
        await there.reset(instance.uuid)
        await there.stop(instance.uuid, grace_s=60)
        await there.spawn(instance)
        assert await powers(there) == {instance.uuid: Power.RUNNING}

    async def test_a_paused_guest_stays_paused(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A paused guest arrives paused, and runs after `unpause` on the target."""
        needs(driver, DriverFeature.LIVE_MIGRATION, DriverFeature.PAUSE)
        there = await rig.open(THERE)
        await start(driver, instance)
        await driver.pause(instance.uuid)
        await driver.hand_over(instance.uuid, await there.take_in(instance))
        assert await powers(there) == {instance.uuid: Power.PAUSED}
        await there.unpause(instance.uuid)
        assert await powers(there) == {instance.uuid: Power.RUNNING}

    async def test_disks_go_along(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """The disks move with the guest and keep their content."""
        needs(driver, DriverFeature.LIVE_MIGRATION, DriverFeature.DISKS)
        there = await rig.open(THERE)
        await start(driver, with_disk)
        await driver.stop(with_disk.uuid, grace_s=0)
        await rig.write_disk(with_disk.uuid, 77)
        await start(driver, with_disk, count=2)
        await driver.hand_over(with_disk.uuid, await there.take_in(with_disk))
        assert await powers(there) == {with_disk.uuid: Power.RUNNING}
        await there.stop(with_disk.uuid, grace_s=60)
        assert await rig.read_disk(with_disk.uuid, THERE) == 77  # noqa: PLR2004 - written above

    async def test_a_target_waits_at_one_address(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`take_in` is idempotent, even across drivers; the waiting guest can be destroyed."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        address = await there.take_in(instance)
        assert await there.take_in(instance) == address
        assert await powers(there) == {instance.uuid: Power.PAUSED}
        # The source may already know the address, so a restarted target must keep it.
        there = await rig.open(THERE)
        assert await there.take_in(instance) == address
        assert await powers(there) == {instance.uuid: Power.PAUSED}
        await start(driver, instance)
        await driver.hand_over(instance.uuid, address)
        assert await powers(there) == {instance.uuid: Power.RUNNING}
        await driver.take_in(instance)
        await driver.destroy(instance.uuid)
        assert await powers(driver) == {}

    async def test_what_waits_does_nothing_else(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """A waiting guest can be neither started nor unpaused: its memory has not arrived."""
        needs(driver, DriverFeature.LIVE_MIGRATION, DriverFeature.PAUSE)
        await driver.take_in(instance)
        with pytest.raises(DriverError):
            await driver.unpause(instance.uuid)
        # Drivers may refuse `spawn` or ignore it; only a guest that runs would be wrong.
        with contextlib.suppress(BuildError):
            await driver.spawn(instance)
        assert await powers(driver) == {instance.uuid: Power.PAUSED}

    async def test_without_a_target_a_guest_stays(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`hand_over` to an address without a target fails; the guest can still move later."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        await start(driver, instance)
        address = await there.take_in(instance)
        await there.destroy(instance.uuid)
        for wrong in (address, "", "nothing://like.that/"):
            with pytest.raises(MigrationError):
                await driver.hand_over(instance.uuid, wrong)
            assert await powers(driver) == {instance.uuid: Power.RUNNING}
        await driver.hand_over(instance.uuid, await there.take_in(instance))
        assert await powers(there) == {instance.uuid: Power.RUNNING}

    async def test_only_what_runs_is_handed_over(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """`hand_over` of a stopped or unknown guest fails and changes nothing."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        address = await there.take_in(instance)
        with pytest.raises(MigrationError):
            await driver.hand_over(instance.uuid, address)
        await driver.spawn(instance)
        await driver.stop(instance.uuid, grace_s=0)
        with pytest.raises(MigrationError):
            await driver.hand_over(instance.uuid, address)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}

    async def test_a_move_that_is_cancelled_leaves_the_guest_running(
        self, rig: DriverRig, driver: VirtDriver, instance: Instance
    ) -> None:
        """The guest keeps running after a cancel, and `destroy` clears the target host."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        there = await rig.open(THERE)
        await start(driver, instance)
        # Cancelling without a move in progress does nothing.
        await driver.cancel_hand_over(instance.uuid)
        address = await there.take_in(instance)
        await rig.stall(instance.uuid)
        move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
        await asyncio.sleep(0.3)
        assert not move.done()
        if DriverFeature.DIAGNOSTICS in driver.verbs:
            # A move may take minutes, and diagnostics must not wait for its end. At the end, the
            # guest is paused and has no diagnostics.
            async with asyncio.timeout(5):
                with contextlib.suppress(DriverError):
                    assert (await driver.diagnostics(instance.uuid)).cpu_times_ns
        await driver.cancel_hand_over(instance.uuid)
        with pytest.raises(MigrationError):
            await move
        await rig.close()
        driver, there = await rig.open(), await rig.open(THERE)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}

        # This is repeated while the target closes the connection of the cancelled move.
        async def has_gone() -> bool:
            await there.destroy(instance.uuid)
            return await powers(there) == {}

        await eventually(has_gone)
        await driver.stop(instance.uuid, grace_s=60)
        assert await powers(driver) == {instance.uuid: Power.STOPPED}
