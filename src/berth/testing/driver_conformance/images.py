"""Conformance tests of images of servers, from which any host boots guests."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts, and writes some bytes

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import IMAGE_ADDRESS, DriverFeature, Power, VirtDriver
from berth.testing.builders import make_uuid
from berth.testing.driver_conformance.disks import stopped
from berth.testing.driver_conformance.rig import (
    THERE,
    DriverRig,
    RigFixtures,
    needs,
    powers,
    start,
)

_IMAGE = make_uuid("image", 1)
_ADDRESS = f"{IMAGE_ADDRESS}{_IMAGE}"


class ImageTests(RigFixtures):
    """Tests of `store_image`, and of guests that boot from images of servers."""

    @pytest.mark.parametrize("power", [Power.RUNNING, Power.PAUSED, Power.SUSPENDED, Power.STOPPED])
    async def test_another_host_boots_a_guest_from_the_image(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance, power: Power
    ) -> None:
        """The image has the disk's content; the guest keeps running, and both are independent."""
        needs(driver, DriverFeature.IMAGES)
        await stopped(rig, driver, with_disk, 7)
        if power is not Power.STOPPED:
            await start(driver, with_disk, count=2)
        if power is Power.PAUSED:
            await driver.pause(with_disk.uuid)
        if power is Power.SUSPENDED:
            await driver.suspend(with_disk.uuid)
        size = await driver.store_image(with_disk.uuid, _IMAGE)
        assert size.virtual_bytes == 1024**3
        assert 0 < size.size_bytes < 1024**3
        assert await driver.store_image(with_disk.uuid, _IMAGE) == size
        assert await powers(driver) == {with_disk.uuid: power}
        assert _ADDRESS in {one.address for one in await driver.leftovers()}
        await driver.destroy(with_disk.uuid)
        there = await rig.open(THERE)
        copy = replace(with_disk, uuid=make_uuid("instance", 3), image=Image(_IMAGE))
        await start(there, copy)
        # The guest outlives the image, even through a restart.
        await driver.drop_stored(_ADDRESS)
        await driver.drop_stored(_ADDRESS)
        assert _ADDRESS not in {one.address for one in await there.leftovers()}
        await there.stop(copy.uuid, grace_s=0)
        assert await rig.read_disk(copy.uuid, THERE) == 7
        await start(there, copy, count=2)
        assert await powers(there) == {copy.uuid: Power.RUNNING}

    async def test_a_copy_that_is_cancelled_leaves_nothing(
        self, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """The guest keeps running, no part of the image remains, and a later attempt succeeds."""
        needs(driver, DriverFeature.IMAGES)
        await start(driver, with_disk)
        copy = asyncio.ensure_future(driver.store_image(with_disk.uuid, _IMAGE))
        await asyncio.sleep(0.05)
        copy.cancel()
        await asyncio.wait({copy})
        if copy.cancelled():  # a driver may have been faster
            assert await driver.leftovers() == []
        assert await powers(driver) == {with_disk.uuid: Power.RUNNING}
        assert (await driver.store_image(with_disk.uuid, _IMAGE)).virtual_bytes == 1024**3
        await driver.drop_stored(_ADDRESS)

    async def test_a_missing_guest_has_no_image(
        self, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """No image is made from a guest that does not exist."""
        needs(driver, DriverFeature.IMAGES)
        with pytest.raises(DriverError):
            await driver.store_image(with_disk.uuid, _IMAGE)
        assert await driver.leftovers() == []
