"""Conformance tests of diagnostics and uptimes."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import re

import pytest

from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnsupportedFeatureError
from berth.ports.virt import DriverFeature, VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures, needs, start

# The pattern with which the `openstack` client parses the line.
_UPTIME = re.compile(r"\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s+(.+)")


class QueryTests(RigFixtures):
    """Tests of `diagnostics` and `uptime`."""

    async def test_a_running_guest_has_diagnostics(
        self, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """They contain every CPU, the flavor's memory and the disks; CPU times never decrease."""
        needs(driver, DriverFeature.DIAGNOSTICS)
        await start(driver, with_disk)
        first = await driver.diagnostics(with_disk.uuid)
        assert len(first.cpu_times_ns) == with_disk.flavor.vcpus
        assert first.memory_kb == with_disk.flavor.memory_mb * 1024
        assert 0 < first.memory_used_kb <= first.memory_kb
        assert first.disks[0].name == "vda"
        then = await driver.diagnostics(with_disk.uuid)
        assert all(
            old <= new for old, new in zip(first.cpu_times_ns, then.cpu_times_ns, strict=True)
        )
        assert [one.name for one in then.disks] == [one.name for one in first.disks]

    async def test_only_a_running_guest_has_diagnostics(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A stopped or missing guest has no diagnostics; a driver without the feature refuses."""
        await driver.spawn(instance)
        if DriverFeature.DIAGNOSTICS not in driver.verbs:
            with pytest.raises(UnsupportedFeatureError):
                await driver.diagnostics(instance.uuid)
            return
        await driver.stop(instance.uuid, grace_s=0)
        with pytest.raises(DriverError, match="must be running"):
            await driver.diagnostics(instance.uuid)
        await driver.destroy(instance.uuid)
        with pytest.raises(DriverError, match="does not exist"):
            await driver.diagnostics(instance.uuid)

    async def test_the_uptime_has_the_form_of_the_program(self, driver: VirtDriver) -> None:
        """Clients can parse the uptime."""
        assert _UPTIME.match(await driver.uptime()) is not None
