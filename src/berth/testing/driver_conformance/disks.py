"""Conformance tests of disks: cold moves to another host, and disks in shared storage."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts, and writes some bytes

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import DriverFeature, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    THERE,
    DriverRig,
    RigFixtures,
    needs,
    powers,
    start,
)

Giving = Callable[[str], Awaitable[str]]


async def stopped(rig: DriverRig, driver: VirtDriver, instance: Instance, value: int) -> None:
    """Create a stopped guest whose root disk is filled with a byte value."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    await rig.write_disk(instance.uuid, value)


class DiskTests(RigFixtures):
    """Tests of `offer_disks`, `fetch_disks`, `store_disks` and `drop_stored`."""

    async def test_a_stopped_guest_keeps_what_is_on_its_disk(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """The content of a disk survives a start, a stop and an enlargement."""
        needs(driver, DriverFeature.DISKS)
        await stopped(rig, driver, with_disk, 3)
        flavor = replace(with_disk.flavor, root_gb=with_disk.flavor.root_gb + 1)
        await driver.resize(replace(with_disk, flavor=flavor))
        await driver.spawn(with_disk)
        await driver.stop(with_disk.uuid, grace_s=0)
        assert await rig.read_disk(with_disk.uuid) == 3

    @pytest.mark.parametrize("way", ["offer_disks", "store_disks"])
    async def test_another_host_makes_a_guest_of_the_disks(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance, way: str
    ) -> None:
        """Fetching creates one stopped guest; the source guest is unchanged until destroyed."""
        needs(driver, DriverFeature.DISKS)
        there = await rig.open(THERE)
        await stopped(rig, driver, with_disk, 7)
        give: Giving = getattr(driver, way)
        address = await give(with_disk.uuid)
        # Both sides are called twice: a move that resumes after a crash repeats its last step.
        assert await give(with_disk.uuid) == address
        for _ in range(2):
            await there.fetch_disks(with_disk, address)
            assert await powers(there) == {with_disk.uuid: Power.STOPPED}
        assert await rig.read_disk(with_disk.uuid, THERE) == 7
        assert await powers(driver) == {with_disk.uuid: Power.STOPPED}
        await driver.destroy(with_disk.uuid)
        await there.spawn(with_disk)
        assert await powers(there) == {with_disk.uuid: Power.RUNNING}
        await there.stop(with_disk.uuid, grace_s=0)
        assert await rig.read_disk(with_disk.uuid, THERE) == 7
        if way == "store_disks":
            await driver.drop_stored(address)

    async def test_an_offer_ends_when_the_guest_starts_or_goes(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """`spawn` and `destroy` withdraw an offer: no host copies a disk in use or removed."""
        needs(driver, DriverFeature.DISKS)
        there = await rig.open(THERE)
        await stopped(rig, driver, with_disk, 7)
        address = await driver.offer_disks(with_disk.uuid)
        # The driver is reopened, because the driver that withdraws an offer need not be the one
        # that made it.
        driver = await rig.open()
        await driver.spawn(with_disk)
        with pytest.raises(BuildError):
            await there.fetch_disks(with_disk, address)
        await driver.stop(with_disk.uuid, grace_s=0)
        address = await driver.offer_disks(with_disk.uuid)
        await driver.destroy(with_disk.uuid)
        with pytest.raises(BuildError):
            await there.fetch_disks(with_disk, address)
        assert await powers(there) == {}

    async def test_an_offer_ends_when_its_guest_is_to_be_off_or_of_another_size(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """`stop` and `resize` withdraw an offer: an abandoned move does not block a resize."""
        needs(driver, DriverFeature.DISKS)
        there = await rig.open(THERE)
        await stopped(rig, driver, with_disk, 7)
        address = await driver.offer_disks(with_disk.uuid)
        driver = await rig.open()
        await driver.stop(with_disk.uuid, grace_s=0)
        with pytest.raises(BuildError):
            await there.fetch_disks(with_disk, address)
        address = await driver.offer_disks(with_disk.uuid)
        flavor = replace(with_disk.flavor, root_gb=with_disk.flavor.root_gb + 1)
        assert await driver.resize(replace(with_disk, flavor=flavor))
        with pytest.raises(BuildError):
            await there.fetch_disks(with_disk, address)
        assert await rig.read_disk(with_disk.uuid) == 7

    async def test_stored_disks_stay_until_they_are_dropped(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """Stored disks outlive their guest, and `drop_stored` is idempotent."""
        needs(driver, DriverFeature.DISKS)
        await stopped(rig, driver, with_disk, 9)
        address = await driver.store_disks(with_disk.uuid)
        await driver.destroy(with_disk.uuid)
        await driver.fetch_disks(with_disk, address)
        assert await rig.read_disk(with_disk.uuid) == 9
        await driver.destroy(with_disk.uuid)
        for _ in range(2):
            await driver.drop_stored(address)
        with pytest.raises(BuildError):
            await driver.fetch_disks(with_disk, address)
        assert await powers(driver) == {}

    async def test_what_was_stored_is_found_again_until_it_is_dropped(
        self, rig: DriverRig, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """`leftovers` lists stored disks after a restart, but only on the host that stored them."""
        needs(driver, DriverFeature.DISKS)
        await stopped(rig, driver, with_disk, 9)
        assert await driver.leftovers() == []
        address = await driver.store_disks(with_disk.uuid)
        await driver.destroy(with_disk.uuid)
        driver = await rig.open()
        (found,) = await driver.leftovers()
        assert (found.instance_uuid, found.address) == (with_disk.uuid, address)
        assert found.since_s > 0
        # If both hosts reported the same disks, each would start the same cleanup.
        there = await rig.open(THERE)
        assert await there.leftovers() == []
        await driver.drop_stored(found.address)
        assert await driver.leftovers() == []

    async def test_disks_are_given_of_stopped_guests_only(
        self, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """Disks of a running guest or of an unknown guest are refused."""
        needs(driver, DriverFeature.DISKS)
        # The first round has no guest, the second a running one.
        for _ in range(2):
            with pytest.raises(DriverError):
                await driver.offer_disks(with_disk.uuid)
            with pytest.raises(DriverError):
                await driver.store_disks(with_disk.uuid)
            await driver.spawn(with_disk)

    @pytest.mark.parametrize(
        "wrong", ["", "nothing://like.that/", "stored:../x", f"stored:{300 * 'x'}", "file:/etc"]
    )
    async def test_disks_come_from_proper_addresses_only(
        self, driver: VirtDriver, with_disk: Instance, wrong: str
    ) -> None:
        """An invalid address fails the build and leaves no guest."""
        needs(driver, DriverFeature.DISKS)
        # Addresses come from other hosts, and must never name arbitrary files of this one.
        with pytest.raises(BuildError):
            await driver.fetch_disks(with_disk, wrong)
        assert await powers(driver) == {}
