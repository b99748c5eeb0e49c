"""The conformance suite of the virt port: what every driver of a compute host must do.

To hold a driver to it, subclass in a test module and say how to make a rig: two hosts, and the
means to do to their guests what no driver would:

    class TestMyDriver(DriverConformance):
        @pytest.fixture
        async def rig(self, tmp_path: Path) -> AsyncGenerator[DriverRig]:
            rig = MyRig(tmp_path)
            async with clean(rig):
                yield rig

        @pytest.fixture
        def instance(self) -> Instance:
            return stub_instance(Image("the stub guest's, on these hosts"))

Its instances boot the stub guest (`berth.adapters.virt.stub_guest`), or what writes the same
lines to its serial console. No guest is there when a test begins. A test that asks for a verb
which the driver lacks is skipped. Tests need pytest-asyncio in its `auto` mode.
"""

from berth.testing.driver_conformance.adopting import AdoptingTests
from berth.testing.driver_conformance.crashing import CrashTests
from berth.testing.driver_conformance.disks import DiskTests
from berth.testing.driver_conformance.failing import FailingDriverConformance
from berth.testing.driver_conformance.hints import HintTests
from berth.testing.driver_conformance.moving import MovingTests
from berth.testing.driver_conformance.power import PowerTests
from berth.testing.driver_conformance.reports import ReportTests
from berth.testing.driver_conformance.rig import DriverRig, RigFixtures, clean, stub_instance
from berth.testing.driver_conformance.sizes import SizeTests
from berth.testing.driver_conformance.standing import StandingTests

__all__ = [
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
    HintTests,
):
    """Everything that holds for any driver."""
