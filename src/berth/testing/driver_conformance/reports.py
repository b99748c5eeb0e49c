"""Conformance tests of the reports of a host's inventory."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from berth.domain.compute.instance import Instance
from berth.domain.inventory.resources import check_reported
from berth.ports.virt import VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures


class ReportTests(RigFixtures):
    """Tests of `report`."""

    async def test_a_report_names_the_host_and_its_root_provider(self, driver: VirtDriver) -> None:
        """Host and root provider share a uuid, and the provider has some capacity."""
        report = await driver.report()
        assert report.provider.uuid == report.host.uuid
        assert report.provider.parent_uuid is None
        assert any(one.capacity > 0 for one in report.provider.inventories.values())

    async def test_what_is_reported_can_be_taken_in(self, driver: VirtDriver) -> None:
        """Every inventory of the host and of its child providers passes validation."""
        report = await driver.report()
        parts = [report.provider.inventories, *(one.inventories for one in report.children)]
        for inventories in parts:
            for inventory in inventories.values():
                check_reported(inventory)

    async def test_a_host_is_the_same_in_every_report(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """The host's uuid, name and node do not depend on its guests."""
        # The uuid is the ledger's key: a host that changed it would be registered twice.
        before = (await driver.report()).host
        await driver.spawn(instance)
        after = (await driver.report()).host
        assert (after.uuid, after.name, after.node) == (before.uuid, before.name, before.node)
