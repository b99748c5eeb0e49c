"""Reports: what a host says of itself."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from berth.domain.compute.instance import Instance
from berth.domain.inventory.resources import check_reported
from berth.ports.virt import VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures


class ReportTests(RigFixtures):
    """What `report` says."""

    async def test_a_report_names_the_host_and_its_root_provider(self, driver: VirtDriver) -> None:
        """Both have one uuid, and the provider has something to give."""
        report = await driver.report()
        assert report.provider.uuid == report.host.uuid
        assert report.provider.parent_uuid is None
        assert any(one.capacity > 0 for one in report.provider.inventories.values())

    async def test_what_is_reported_can_be_taken_in(self, driver: VirtDriver) -> None:
        """No inventory of the host or of its children is refused."""
        report = await driver.report()
        parts = [report.provider.inventories, *(one.inventories for one in report.children)]
        for inventories in parts:
            for inventory in inventories.values():
                check_reported(inventory)

    async def test_a_host_is_the_same_in_every_report(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Its uuid, name and node do not depend on what runs there."""
        before = (await driver.report()).host
        await driver.spawn(instance)
        after = (await driver.report()).host
        assert (after.uuid, after.name, after.node) == (before.uuid, before.name, before.node)
