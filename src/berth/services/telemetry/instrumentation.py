"""Observing: services that count and trace what they do, beside doing it.

They stand in the place of the plain ones only where somebody looks, so nobody else pays for it.
"""

from collections.abc import Sequence

from berth.domain.compute.decision import Decision, FilterCount, Refusal
from berth.domain.compute.request import Request
from berth.domain.errors import BerthError
from berth.domain.ledger.write import Committed, Outcome, Write
from berth.ports.clock import Clock
from berth.ports.measures import (
    CLAIMS,
    DECISION_SECONDS,
    DECISIONS,
    HEARTBEATS,
    REFUSALS,
    RETRIES,
)
from berth.ports.telemetry import Metrics, Tracer
from berth.services.decisions.decisions import Deciding, PolicyInForce
from berth.services.fleet.hosts import Hosts
from berth.services.placement.placement import Placing
from berth.services.replica.replica import Replica
from berth.services.requests.commands import PlaceOrder

_US_PER_S = 1_000_000
_NO_FILTER = "none"


class TracedDeciding(Deciding):
    """Decides as `Deciding` does, in a span."""

    def __init__(
        self, replica: Replica, policies: PolicyInForce, clock: Clock, tracer: Tracer
    ) -> None:
        super().__init__(replica, policies, clock)
        self._tracer = tracer

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """See `Deciding.decide`."""
        with self._tracer.span("decide", request_id=request.request_id) as span:
            decision = super().decide(request, attempt=attempt, left_out=left_out)
            span.note("berth.verdict", str(decision.verdict))
            span.note("berth.attempt", attempt)
            span.note("berth.policy", decision.policy_name)
            span.note("berth.table_version", decision.table_version)
        return decision


class MeasuredPlacing(Placing):
    """Places as `Placing` does, and counts each order once.

    An order that was decided before, or by another scheduler, is not counted again.

    Attributes:
        metrics: where; to be set before the first order.
    """

    metrics: Metrics

    async def _claim(self, order: PlaceOrder, decision: Decision, guard: str | None) -> Outcome:
        if decision.attempts > 1:
            self.metrics.add(RETRIES)
        outcome = await super()._claim(order, decision, guard)
        self.metrics.add(CLAIMS, (kind_of(outcome),))
        return outcome

    async def _commit(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        outcome = await super()._commit(order, decision, writes)
        if isinstance(outcome, Committed) and not outcome.repeated:
            self._count(order, decision)
        return outcome

    def _count(self, order: PlaceOrder, decision: Decision) -> None:
        # Members of a StrEnum are text already; `str` of one is a call in Python.
        metrics, operation = self.metrics, order.request.operation
        metrics.add(DECISIONS, (operation, decision.verdict))
        metrics.observe(DECISION_SECONDS, decision.duration_us / _US_PER_S, (operation,))
        if decision.refusal is not None:
            metrics.add(REFUSALS, (decision.refusal.code, filter_of(decision.refusal)))


class TracedPlacing(MeasuredPlacing):
    """Places in a span, with its claims in it.

    Attributes:
        tracer: where spans go; to be set before the first order.
    """

    tracer: Tracer

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placing.place`."""
        request_id = order.request.request_id
        with self.tracer.span("place", request_id=request_id) as span:
            span.note("berth.request_id", request_id)
            span.note("berth.instances", len(order.instances))
            decision = await super().place(order)
            span.note("berth.verdict", str(decision.verdict))
        return decision

    async def _claim(self, order: PlaceOrder, decision: Decision, guard: str | None) -> Outcome:
        with self.tracer.span("claim") as span:
            outcome = await super()._claim(order, decision, guard)
            span.note("berth.outcome", kind_of(outcome))
        return outcome

    async def _commit(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        with self.tracer.span("commit"):
            return await super()._commit(order, decision, writes)


class MeasuredHosts(Hosts):
    """Hosts whose heartbeats are counted.

    Attributes:
        metrics: where; to be set before the first heartbeat.
    """

    metrics: Metrics

    async def heartbeat(self, names: Sequence[str]) -> None:
        """See `Hosts.heartbeat`."""
        try:
            await super().heartbeat(names)
        except BerthError:
            self.metrics.add(HEARTBEATS, ("failed",), len(names))
            raise
        self.metrics.add(HEARTBEATS, ("sent",), len(names))


def filter_of(refusal: Refusal) -> str:
    """Return the filter that left no host, of the policy's own list; `none` if it was none."""
    emptied: list[FilterCount] = [one for one in refusal.filters if one.before and not one.after]
    return emptied[0].name if emptied else _NO_FILTER


def kind_of(outcome: Outcome) -> str:
    """Return how the ledger took a plan, in a word."""
    if isinstance(outcome, Committed):
        return "repeated" if outcome.repeated else "committed"
    if outcome.stale:
        return "stale"
    return "short" if outcome.shortages else "changed"
