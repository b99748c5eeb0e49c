"""The bus port's conformance suite on every adapter."""

import pytest

pytest.register_assert_rewrite("berth.testing.bus_conformance")

from berth.adapters.bus.local import LocalBus  # noqa: E402
from berth.ports.bus import Bus  # noqa: E402
from berth.ports.telemetry import Telemetry  # noqa: E402
from berth.testing.bus_conformance import BusConformance  # noqa: E402


class Silence:
    """Telemetry that nobody reads; see the port `Telemetry`."""

    def event(self, name: str, **fields: object) -> None:
        """Forget an event."""

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Forget a failure."""


_SILENCE: Telemetry = Silence()


class TestLocalBus(BusConformance):
    """The bus of one process."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus that encodes."""
        return LocalBus(_SILENCE)


class TestLocalBusThatDoesNotEncode(BusConformance):
    """The same, handing over what it is given."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus that does not encode."""
        return LocalBus(_SILENCE, encodes=False)
