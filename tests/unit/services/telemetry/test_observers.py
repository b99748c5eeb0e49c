"""Tests for observers, which count and trace what services report."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from berth.domain.compute.decision import FilterCount, Refusal, RefusalCode, Verdict
from berth.domain.compute.request import Request
from berth.ports.measures import (
    CLAIMS,
    DECISION_SECONDS,
    DECISIONS,
    HEARTBEATS,
    REFUSALS,
    RETRIES,
    RULE_FAILURES,
)
from berth.ports.observer import Observer
from berth.ports.telemetry import Measure, Metrics, Span, Tracer
from berth.services.decisions.decisions import DecisionService
from berth.services.placement.placement import PlacementService
from berth.services.replica.liveness import Liveness
from berth.services.telemetry.observers import (
    CombinedObserver,
    MetricsObserver,
    SpanObserver,
    emptying_filter,
)
from berth.testing.builders import make_flavor, make_request, make_uuid
from berth.testing.virtual_time import run_virtually
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, order_of


class Counts:
    """Metrics that record sums and numbers of observations."""

    def __init__(self) -> None:
        self.sums: dict[tuple[Measure, tuple[str, ...]], float] = {}

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add the amount to the value of the measure."""
        self.sums[measure, labels] = self.sums.get((measure, labels), 0) + amount

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Count the observation."""
        self.add(measure, labels)

    def of(self, measure: Measure) -> dict[tuple[str, ...], float]:
        """Return the values of one measure by labels."""
        return {labels: n for (one, labels), n in self.sums.items() if one is measure}


class Paths:
    """A tracer that records the paths of spans and their notes."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.notes: dict[str, object] = {}
        self._around: list[str] = []

    @contextmanager
    def span(
        self, name: str, *, request_id: str | None = None, begins: bool = False
    ) -> Generator[Span]:
        """Record the path of the span."""
        self._around.append(name)
        self.found.append(" > ".join(self._around))
        try:
            yield self
        finally:
            self._around.pop()

    def note(self, name: str, value: str | float) -> None:
        """Record the note."""
        self.notes[name] = value


def observed(desk: Desk, metrics: Metrics | None = None, tracer: Tracer | None = None) -> Desk:
    """Return the desk with a scheduler that has these observers."""
    observers: list[Observer] = []
    if tracer is not None:
        observers.append(SpanObserver(tracer))
    if metrics is not None:
        observers.append(MetricsObserver(metrics))
    observer = CombinedObserver(observers)
    desk.decision_service = DecisionService(desk.replica, desk.policies, desk.clock, observer)
    desk.placer = PlacementService(
        ledger=desk.ledger,
        follower=desk.follower,
        replica=desk.replica,
        decision_service=desk.decision_service,
        clock=desk.clock,
        observer=observer,
    )
    return desk


def too_large() -> Request:
    """Return a request for more than any host has."""
    return replace(make_request(), flavor=make_flavor(vcpus=64))


def test_an_order_is_counted_once() -> None:
    """An order that is sent twice is counted once."""

    async def main() -> None:
        counts = Counts()
        desk = observed(await open_desk(), counts)
        order = order_of(make_request())
        first = await desk.placer.place(order)
        assert (await desk.placer.place(order)).request_id == first.request_id
        assert counts.of(DECISIONS) == {("create", "placed"): 1}
        assert counts.of(DECISION_SECONDS) == {("create",): 1}
        assert counts.of(CLAIMS) == {("committed",): 1}
        assert counts.of(RETRIES) == counts.of(REFUSALS) == {}

    run_virtually(main)


def test_a_refusal_names_the_filter() -> None:
    """A refusal is counted under the filter that left no host."""

    async def main() -> None:
        counts = Counts()
        desk = observed(await open_desk(), counts)
        decision = await desk.placer.place(order_of(too_large()))
        assert decision.verdict is Verdict.REFUSED
        assert counts.of(REFUSALS) == {("all_filtered", "ResourcesFilter"): 1}
        assert counts.of(DECISIONS) == {("create", "refused"): 1}
        assert counts.of(CLAIMS) == {}

    run_virtually(main)


def test_an_error_of_a_rule_is_counted_under_its_name() -> None:
    """Every observer of a process receives the errors of rules."""
    counts = Counts()
    CombinedObserver([MetricsObserver(counts), MetricsObserver(counts)]).rule_failed(
        "TraitsFilter", ValueError("x")
    )
    assert counts.of(RULE_FAILURES) == {("TraitsFilter",): 2}


def test_a_lost_race_is_counted() -> None:
    """A claim without room is counted as short."""

    async def main() -> None:
        counts = Counts()
        first = await open_desk(Fleet(hosts=1, vcpus=1))
        second = observed(await open_second(first), counts)
        await first.placer.place(order_of(make_request(1)))
        decision = await second.placer.place(order_of(make_request(2)))
        assert decision.verdict is Verdict.REFUSED
        assert counts.of(CLAIMS) == {("short",): 1}

    run_virtually(main)


def test_a_plan_made_anew_is_counted() -> None:
    """Repeated plans are counted as retries."""

    async def main() -> None:
        counts = Counts()
        for number in range(2, 8):
            first = await open_desk(Fleet(hosts=2, vcpus=1))
            second = observed(await open_second(first), counts)
            await first.placer.place(order_of(make_request(1)))
            decision = await second.placer.place(order_of(make_request(number)))
            assert decision.verdict is Verdict.PLACED
        assert counts.of(RETRIES)[()] == counts.of(CLAIMS)["short",] > 0
        assert counts.of(CLAIMS)["committed",] == counts.of(DECISIONS)["create", "placed"] == 6

    run_virtually(main)


def test_spans_follow_the_order() -> None:
    """The spans of decision and claim are within that of the placement."""

    async def main() -> None:
        paths = Paths()
        desk = observed(await open_desk(), tracer=paths)
        decision = await desk.placer.place(order_of(make_request()))
        assert paths.found == [
            "place",
            "place > decide",
            "place > claim",
            "place > claim > commit",
        ]
        assert paths.notes["berth.request_id"] == decision.request_id
        assert paths.notes["berth.outcome"] == "committed"

    run_virtually(main)


def test_looking_changes_no_decision() -> None:
    """Observers do not change decisions."""

    async def main() -> None:
        order, plain = order_of(make_request()), await open_desk()
        seen = observed(await open_desk(), Counts(), Paths())
        first, second = await plain.placer.place(order), await seen.placer.place(order)
        assert first.placements == second.placements
        assert first.seed == second.seed

    run_virtually(main)


def test_heartbeats_are_counted_by_host() -> None:
    """Heartbeats are counted by host."""

    async def main() -> None:
        desk, counts = await open_desk(), Counts()
        parts = (desk.ledger, desk.replica, desk.clock, desk.told)
        gateway, observer = make_uuid("gateway", 1), MetricsObserver(counts)
        liveness = Liveness(*parts, gateway, observer=observer)
        for host in ("host-0", "host-1"):
            liveness.note(host)
        await liveness.share()
        assert counts.of(HEARTBEATS) == {("sent",): 2}

    run_virtually(main)


def test_a_refusal_without_filters_names_none() -> None:
    """A refusal that no filter caused names no filter."""
    some = FilterCount("ComputeFilter", 3, 1)
    for filters in ((), (some,)):
        refusal = Refusal(RefusalCode.NO_HOSTS, "", 0, 1, 0, filters)
        assert emptying_filter(refusal) == "none"
