"""The conformance suite of the virt port: what every driver of a compute host must do.

To hold a driver to it, subclass in a test module and say how to make one:

    class TestMyDriver(DriverConformance):
        @pytest.fixture
        async def driver(self) -> AsyncIterator[Driver]:
            async with MyDriver.open("qemu:///system") as driver:
                yield driver

        @pytest.fixture
        def instance(self) -> Instance:
            return an_instance_that_the_driver_can_start()

No instance may run on the host when a test begins, and none is left at its end unless the test
failed. Overwrite `other` too when the instances need more than another uuid. Tests need
pytest-asyncio in its `auto` mode.
"""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

import pytest

from berth.domain.errors import BuildError
from berth.domain.instance import Instance, Task
from berth.ports.virt import Driver
from berth.testing.builders import make_instance, make_uuid


class DriverConformance:
    """Everything that holds for any driver."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Make a driver; to be said by whoever uses the suite."""
        raise NotImplementedError

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance that the driver can start."""
        return replace(make_instance(1, host="host-1"), task=Task.SPAWNING)

    @pytest.fixture
    def other(self, instance: Instance) -> Instance:
        """Return a second one."""
        return replace(instance, uuid=make_uuid("instance", 2), name="vm-2")

    async def test_a_report_names_the_host_and_its_root_provider(self, driver: Driver) -> None:
        """Both have one uuid, and the provider has something to give."""
        report = await driver.report()
        assert report.provider.uuid == report.host.uuid
        assert report.provider.parent_uuid is None
        assert any(one.capacity > 0 for one in report.provider.inventories.values())

    async def test_a_host_is_the_same_in_every_report(
        self, driver: Driver, instance: Instance
    ) -> None:
        """Its uuid, name and node do not depend on what runs there."""
        before = (await driver.report()).host
        await driver.spawn(instance)
        after = (await driver.report()).host
        await driver.destroy(instance.uuid)
        assert (after.uuid, after.name, after.node) == (before.uuid, before.name, before.node)

    async def test_what_is_started_runs_until_it_is_destroyed(
        self, driver: Driver, instance: Instance, other: Instance
    ) -> None:
        """Each for itself."""
        await driver.spawn(instance)
        await driver.spawn(other)
        assert sorted(await driver.running()) == sorted([instance.uuid, other.uuid])
        await driver.destroy(instance.uuid)
        assert list(await driver.running()) == [other.uuid]
        await driver.destroy(other.uuid)
        assert list(await driver.running()) == []

    async def test_starting_what_runs_is_a_success(
        self, driver: Driver, instance: Instance
    ) -> None:
        """It goes on running, once."""
        for _ in range(2):
            await driver.spawn(instance)
        assert list(await driver.running()) == [instance.uuid]
        await driver.destroy(instance.uuid)
        assert list(await driver.running()) == []

    async def test_destroying_what_is_not_there_is_a_success(
        self, driver: Driver, instance: Instance
    ) -> None:
        """Before it was ever started, and after it was destroyed."""
        await driver.destroy(instance.uuid)
        await driver.spawn(instance)
        for _ in range(2):
            await driver.destroy(instance.uuid)
        assert list(await driver.running()) == []

    async def test_what_was_destroyed_can_be_started_again(
        self, driver: Driver, instance: Instance
    ) -> None:
        """Nothing is left that would be in the way."""
        for _ in range(2):
            await driver.spawn(instance)
            assert list(await driver.running()) == [instance.uuid]
            await driver.destroy(instance.uuid)

    async def test_instances_are_started_beside_one_another(
        self, driver: Driver, instance: Instance, other: Instance
    ) -> None:
        """Two builds at once end as two builds one after the other."""
        await asyncio.gather(driver.spawn(instance), driver.spawn(other))
        assert sorted(await driver.running()) == sorted([instance.uuid, other.uuid])
        await asyncio.gather(driver.destroy(instance.uuid), driver.destroy(other.uuid))
        assert list(await driver.running()) == []


class FailingDriverConformance:
    """What holds for a driver that cannot start anything; give a `driver` that fails."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Make a driver that fails; to be said by whoever uses the suite."""
        raise NotImplementedError

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance that the driver cannot start."""
        return replace(make_instance(1, host="host-1"), task=Task.SPAWNING)

    async def test_a_failed_build_says_so_and_leaves_nothing(
        self, driver: Driver, instance: Instance
    ) -> None:
        """It may be tried again, and destroyed."""
        for _ in range(2):
            with pytest.raises(BuildError):
                await driver.spawn(instance)
            assert list(await driver.running()) == []
        await driver.destroy(instance.uuid)
