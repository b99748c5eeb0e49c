"""Refused messages are all counted, and few are logged."""

from collections import Counter

from berth.adapters.bus.rabbitmq.refusals import Refusals
from berth.adapters.bus.signing import RefusedMessageError
from berth.ports.measures import BUS_REFUSALS
from berth.ports.telemetry import Measure
from tests.unit.services.wiring import Told


class Counted:
    """Metrics that count by measure and labels; see the port `Metrics`."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Measure, tuple[str, ...]]] = Counter()

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Count."""
        self.counts[measure, labels] += int(amount)

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Record nothing: only counters are looked at."""


def test_a_flood_does_not_fill_the_log() -> None:
    """One message of each reason is logged in ten seconds; all are counted, and none is quoted."""
    told, counted, now_s = Told(), Counted(), [100.0]
    refusals = Refusals(told, counted, lambda: now_s[0])
    for _ in range(50):
        refusals.note(RefusedMessageError("forged"))
    refusals.note(RefusedMessageError("replayed"))
    assert len(told.failures) == 2
    now_s[0] += 10.0
    refusals.note(RefusedMessageError("forged"))
    assert len(told.failures) == 3
    assert counted.counts[BUS_REFUSALS, ("forged",)] == 51
    now_s[0] -= 3_600.0
    refusals.note(RefusedMessageError("forged"))
    assert len(told.failures) == 4
