"""Conformance suite of the virt port: the behaviour required of every compute driver.

To test a driver, subclass the suite in a test module and provide a rig: two hosts, and a way to
cause events in their guests that no driver method triggers, such as a crash:

    class TestMyDriver(DriverConformance):
        @pytest.fixture
        async def rig(self, tmp_path: Path) -> AsyncGenerator[DriverRig]:
            rig = MyRig(tmp_path)
            async with clean(rig):
                yield rig

        @pytest.fixture
        def instance(self) -> Instance:
            return stub_instance(Image("the stub guest's, on these hosts"))

The instances boot the stub guest (`berth.adapters.virt.stub_guest`), or another guest that writes
the same lines to its serial console. The hosts also have the image `RESCUE_IMAGE`, a disk with any
content. Each test starts with no guests on either host. A test that needs a feature that the driver
lacks is skipped. The tests require pytest-asyncio in `auto` mode.
"""

from berth.testing.driver_conformance.adopting import AdoptingTests
from berth.testing.driver_conformance.disks import DiskTests
from berth.testing.driver_conformance.failing import CrashTests, FailingDriverConformance
from berth.testing.driver_conformance.hints import HintTests
from berth.testing.driver_conformance.images import ImageTests
from berth.testing.driver_conformance.moving import MovingTests
from berth.testing.driver_conformance.power import PowerTests
from berth.testing.driver_conformance.queries import QueryTests, ReportTests
from berth.testing.driver_conformance.rescues import RescueTests
from berth.testing.driver_conformance.rig import (
    RESCUE_IMAGE,
    DriverRig,
    RigFixtures,
    clean,
    stub_instance,
)
from berth.testing.driver_conformance.sizes import SizeTests
from berth.testing.driver_conformance.standing import StandingTests

__all__ = [
    "RESCUE_IMAGE",
    "DriverConformance",
    "DriverRig",
    "FailingDriverConformance",
    "RigFixtures",
    "clean",
    "stub_instance",
]


class DriverConformance(
    ReportTests,
    PowerTests,
    StandingTests,
    SizeTests,
    CrashTests,
    AdoptingTests,
    MovingTests,
    DiskTests,
    RescueTests,
    ImageTests,
    HintTests,
    QueryTests,
):
    """All conformance tests of a working driver."""
