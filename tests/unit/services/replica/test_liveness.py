"""Heartbeats outside the ledger: steps of the clock."""

import pytest

from berth.services.replica.liveness import Liveness
from berth.testing.builders import make_uuid
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import open_desk


class SteppedClock(VirtualClock):
    """A clock that an operator sets, while the monotonic clock runs on."""

    step_s = 0.0

    def now_s(self) -> float:
        """Return the time that the operator has set."""
        return super().now_s() + self.step_s


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0, 1.0])
async def test_a_step_of_the_clock_makes_no_host_silent(step_s: float) -> None:
    """Heartbeats keep their age after a step, and a small correction is no step."""
    desk, clock = await open_desk(), SteppedClock()
    parts = (desk.ledger, desk.replica, clock, desk.told)
    liveness = Liveness(*parts, make_uuid("gateway", 1))
    liveness.note("host-1")
    await clock.sleep(10)
    clock.step_s = step_s
    liveness.check_clock()
    service = desk.replica.hosts.services.get("host-1")
    assert service is not None
    age_s = clock.now_s() - service.last_seen_s
    is_step = abs(step_s) > 2
    assert age_s == pytest.approx(10 if is_step else 10 + step_s)
    assert desk.told.events == (["clock_stepped"] if is_step else [])
