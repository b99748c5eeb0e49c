"""Conformance tests of reports of inventories, diagnostics, uptimes and VNC."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
import re
import struct

import pytest

from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnsupportedFeatureError

# ruff: noqa: S101 - a conformance suite is made of asserts
from berth.domain.inventory.resources import check_reported
from berth.ports.virt import ByteStream, DriverFeature, VirtDriver
from berth.testing.driver_conformance.rig import RigFixtures, needs, start

# The pattern with which the `openstack` client parses the line.
_UPTIME = re.compile(r"\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s+(.+)")
_RFB_VERSION = b"RFB 003.008\n"


class QueryTests(RigFixtures):
    """Tests of `diagnostics`, `uptime` and `open_vnc`."""

    async def test_a_running_guest_has_diagnostics(
        self, driver: VirtDriver, with_disk: Instance
    ) -> None:
        """Diagnostics have all CPUs, the memory and the disks; CPU times never decrease."""
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

    async def test_the_screen_of_a_running_guest_is_reached_without_a_password(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """Two clients complete the handshake; both connections end when the guest stops."""
        needs(driver, DriverFeature.VNC)
        await start(driver, instance)
        one = await driver.open_vnc(instance.uuid)
        two = await driver.open_vnc(instance.uuid)
        for stream in (one, two):
            assert await _read(stream, 12) == _RFB_VERSION
            await stream.write(_RFB_VERSION)
            assert 1 in await _read(stream, (await _read(stream, 1))[0])  # needs no password
            await stream.write(b"\x01")
            assert await _read(stream, 4) == bytes(4)
            await stream.write(b"\x01")  # shares the screen
            width, height = struct.unpack(">HH", await _read(stream, 4))
            assert width > 0
            assert height > 0
        two.close()
        await driver.stop(instance.uuid, grace_s=0)
        async with asyncio.timeout(10):
            while await one.read(65_536):
                pass
        one.close()
        with pytest.raises(DriverError):
            await driver.open_vnc(instance.uuid)
        await driver.destroy(instance.uuid)
        with pytest.raises(DriverError, match="does not exist"):
            await driver.open_vnc(instance.uuid)


async def _read(stream: ByteStream, size: int) -> bytes:
    """Return exactly `size` bytes of a stream."""
    data = b""
    async with asyncio.timeout(10):
        while len(data) < size:
            some = await stream.read(size - len(data))
            assert some, "the connection has ended"
            data += some
    return data


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
