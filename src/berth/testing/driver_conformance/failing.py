"""Conformance tests of a driver that cannot start any guest."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Task
from berth.ports.virt import VirtDriver
from berth.testing.builders import make_instance


class FailingDriverConformance:
    """Tests of a driver that cannot start any guest; a subclass overrides `driver`."""

    @pytest.fixture
    def driver(self) -> VirtDriver:
        """Return a driver whose builds fail; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `driver`")

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance that the driver cannot start."""
        return replace(make_instance(1, host="host-1"), task=Task.SPAWNING)

    async def test_a_failed_build_says_so_and_leaves_nothing(
        self, driver: VirtDriver, instance: Instance
    ) -> None:
        """A failed build raises `BuildError` and leaves no guest; retry and `destroy` work."""
        for _ in range(2):
            with pytest.raises(BuildError):
                await driver.spawn(instance)
            assert list(await driver.guests()) == []
        await driver.destroy(instance.uuid)
