"""The virt port's conformance suite on every driver."""

import pytest

pytest.register_assert_rewrite("berth.testing.driver_conformance")

from berth.adapters.system import SystemClock  # noqa: E402
from berth.adapters.virt.fake import FakeDriver, FakeHost  # noqa: E402
from berth.ports.virt import Driver  # noqa: E402
from berth.testing.driver_conformance import (  # noqa: E402
    DriverConformance,
    FailingDriverConformance,
)


class TestFakeDriver(DriverConformance):
    """The fake driver."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Make a host that builds at once."""
        return FakeDriver(FakeHost("host-1"), SystemClock())


class TestSlowFakeDriver(DriverConformance):
    """The fake driver, taking a moment for each build."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Make a host that builds slowly."""
        return FakeDriver(FakeHost("host-1", spawn_s=0.01), SystemClock())


class TestFailingFakeDriver(FailingDriverConformance):
    """The fake driver of a host where builds fail."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Make a host that fails."""
        return FakeDriver(FakeHost("host-1", fails=True), SystemClock())
