"""Conformance tests of rescues: guests that boot from a rescue image, with their disks attached."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts, and writes some bytes

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.rescue import with_rescue_image
from berth.domain.errors import MigrationError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    HERE,
    RESCUE_IMAGE,
    THERE,
    DriverRig,
    RigFixtures,
    needs,
    powers,
    start,
)


class RescueTests(RigFixtures):
    """Tests of `spawn` with instances that are rescued."""

    @pytest.fixture
    def rescued(self, with_disk: Instance) -> Instance:
        """Return the instance `with_disk` while it is rescued."""
        extra = with_rescue_image(with_disk, RESCUE_IMAGE)
        return replace(with_disk, status=Status.RESCUED, task=None, extra=extra)

    async def test_a_rescued_guest_returns_to_its_own_disks(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance, rescued: Instance
    ) -> None:
        """The rescue image replaces no disk, even if the guest crashes and the agent restarts."""
        await start(driver, with_disk)
        await driver.stop(with_disk.uuid, grace_s=0)
        await rig.write_disk(with_disk.uuid, 5)
        await driver.spawn(rescued)
        assert await powers(driver) == {rescued.uuid: Power.RUNNING}
        await rig.crash(rescued.uuid, HERE)
        driver = await rig.open()
        await driver.spawn(rescued)
        assert await powers(driver) == {rescued.uuid: Power.RUNNING}
        await driver.stop(rescued.uuid, grace_s=0)
        # Only a guest that boots from its own disks runs the stub guest, which writes to the
        # console.
        await start(driver, with_disk, count=2)
        await driver.stop(with_disk.uuid, grace_s=0)
        assert await rig.read_disk(with_disk.uuid) == 5

    async def test_a_rescued_guest_stays_on_its_host(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance, rescued: Instance
    ) -> None:
        """A live migration is refused, since the rescue disk never leaves the host."""
        needs(driver, DriverFeature.LIVE_MIGRATION)
        await driver.spawn(rescued)
        there = await rig.open(THERE)
        address = await there.take_in(with_disk)
        with pytest.raises(MigrationError, match="rescue"):
            await driver.hand_over(rescued.uuid, address)
        await there.destroy(with_disk.uuid)
        assert await powers(driver) == {rescued.uuid: Power.RUNNING}
