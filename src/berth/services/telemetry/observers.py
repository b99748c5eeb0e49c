"""Observers that turn the events of services into metrics and spans."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final, TypeVar

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.decision import Decision, Refusal
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Committed, Outcome
from berth.ports.measures import (
    CLAIMS,
    DECISION_SECONDS,
    DECISIONS,
    FAILED_BUILDS,
    HEARTBEATS,
    REFUSALS,
    RETRIES,
    RULE_FAILURES,
    TASK_SECONDS,
    TASKS,
)
from berth.ports.observer import NullObserver, Observer, Stage, TaskEnd
from berth.ports.telemetry import Metrics, Tracer

_T = TypeVar("_T")

LOST_CLAIMS: Final = frozenset({"stale", "short", "changed"})
"""The outcomes of claims that the ledger rejected; see `outcome_label`."""

_US_PER_S = 1_000_000
_NO_FILTER = "none"
_NO_TASK = "starting"


class MetricsObserver(NullObserver):
    """Counts decisions, claims, heartbeats, failed builds, and the tasks of agents.

    A request is counted once, in the process whose commit made its decision durable. Repeats and
    requests that another scheduler decided first are not counted.

    Args:
        metrics: receives the counts and durations.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def claim(self, decision: Decision) -> Stage[Outcome]:
        """See `Observer.claim`."""
        if decision.attempts > 1:
            self._metrics.add(RETRIES)
        # A generator would cost more for every claim, and metrics are on by default.
        return nullcontext(self._count_claim)

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """See `Observer.commit`."""

        def count(outcome: Outcome) -> None:
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._count_decision(request, decision)

        return nullcontext(count)

    def heartbeats(self, hosts: int, *, are_saved: bool) -> None:
        """See `Observer.heartbeats`."""
        self._metrics.add(HEARTBEATS, ("sent" if are_saved else "failed",), hosts)

    def task_ended(self, end: TaskEnd) -> None:
        """See `Observer.task_ended`."""
        self._metrics.add(TASKS, (end.task, end.outcome))
        self._metrics.observe(TASK_SECONDS, end.seconds, (end.task,))

    def build_failed(self, cause: FailureCause) -> None:
        """See `Observer.build_failed`."""
        self._metrics.add(FAILED_BUILDS, (cause,))

    def rule_failed(self, rule: str, error: Exception) -> None:  # noqa: ARG002 - the port's signature
        """See `Observer.rule_failed`."""
        self._metrics.add(RULE_FAILURES, (rule,))

    def _count_claim(self, outcome: Outcome) -> None:
        self._metrics.add(CLAIMS, (outcome_label(outcome),))

    def _count_decision(self, request: Request, decision: Decision) -> None:
        # Members of a StrEnum are strings, and converting them with `str` would cost a call.
        metrics, operation = self._metrics, request.operation
        metrics.add(DECISIONS, (operation, decision.verdict))
        metrics.observe(DECISION_SECONDS, decision.duration_us / _US_PER_S, (operation,))
        if decision.refusal is not None:
            metrics.add(REFUSALS, (decision.refusal.code, emptying_filter(decision.refusal)))


class SpanObserver(NullObserver):
    """Records a span for each stage; the span of a nested stage is a child span.

    Args:
        tracer: the recorder of the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def place(self, request: Request, instances: int) -> Generator[Callable[[Decision], None]]:
        """See `Observer.place`."""
        with self._tracer.span("place", request_id=request.request_id) as span:
            span.note("berth.request_id", request.request_id)
            span.note("berth.instances", instances)
            yield lambda decision: span.note("berth.verdict", str(decision.verdict))

    @contextmanager
    def decide(self, request: Request, attempt: int) -> Generator[Callable[[Decision], None]]:
        """See `Observer.decide`."""
        with self._tracer.span("decide", request_id=request.request_id) as span:

            def note(decision: Decision) -> None:
                span.note("berth.verdict", str(decision.verdict))
                span.note("berth.attempt", attempt)
                span.note("berth.policy", decision.policy_name)
                span.note("berth.table_version", decision.table_version)

            yield note

    @contextmanager
    def claim(self, decision: Decision) -> Generator[Callable[[Outcome], None]]:  # noqa: ARG002 - the port's signature
        """See `Observer.claim`."""
        with self._tracer.span("claim") as span:
            yield lambda outcome: span.note("berth.outcome", outcome_label(outcome))

    @contextmanager
    def commit(self, request: Request, decision: Decision) -> Generator[Callable[[Outcome], None]]:  # noqa: ARG002 - the port's signature
        """See `Observer.commit`."""
        with self._tracer.span("commit"):
            yield _ignore

    @contextmanager
    def task(self, host: str, instance: Instance) -> Generator[Callable[[None], None]]:
        """See `Observer.task`."""
        task = instance.task or _NO_TASK
        with self._tracer.span(f"agent {task}", request_id=instance.decision_id) as span:
            span.note("berth.instance", instance.uuid)
            span.note("berth.host", host)
            yield _ignore


class CombinedObserver:
    """Passes each event on to several observers, in their order.

    Args:
        observers: the receivers. Stages end in the reverse order.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def place(self, request: Request, instances: int) -> Stage[Decision]:
        """See `Observer.place`."""
        return _together([one.place(request, instances) for one in self._observers])

    def decide(self, request: Request, attempt: int) -> Stage[Decision]:
        """See `Observer.decide`."""
        return _together([one.decide(request, attempt) for one in self._observers])

    def claim(self, decision: Decision) -> Stage[Outcome]:
        """See `Observer.claim`."""
        return _together([one.claim(decision) for one in self._observers])

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """See `Observer.commit`."""
        return _together([one.commit(request, decision) for one in self._observers])

    def heartbeats(self, hosts: int, *, are_saved: bool) -> None:
        """See `Observer.heartbeats`."""
        for one in self._observers:
            one.heartbeats(hosts, are_saved=are_saved)

    def task(self, host: str, instance: Instance) -> Stage[None]:
        """See `Observer.task`."""
        return _together([one.task(host, instance) for one in self._observers])

    def task_ended(self, end: TaskEnd) -> None:
        """See `Observer.task_ended`."""
        for one in self._observers:
            one.task_ended(end)

    def build_failed(self, cause: FailureCause) -> None:
        """See `Observer.build_failed`."""
        for one in self._observers:
            one.build_failed(cause)

    def rule_failed(self, rule: str, error: Exception) -> None:
        """See `Observer.rule_failed`."""
        for one in self._observers:
            one.rule_failed(rule, error)


def _together(stages: Sequence[Stage[_T]]) -> Stage[_T]:
    """Combine several stages into one."""
    reports: list[Callable[[_T], None]] = []
    for stage in stages:
        if not isinstance(stage, nullcontext):
            return _nested(stages)
        reports.append(stage.enter_result)

    def report(result: _T) -> None:
        for one in reports:
            one(result)

    # Stages that only take the result need neither a generator nor a stack, which would cost more
    # than all else for every decision.
    return nullcontext(report)


@contextmanager
def _nested(stages: Sequence[Stage[_T]]) -> Generator[Callable[[_T], None]]:
    # The stage that began last ends first, so that spans nest properly.
    with ExitStack() as stack:
        reports = [stack.enter_context(stage) for stage in stages]

        def report(result: _T) -> None:
            for one in reports:
                one(result)

        yield report


def _ignore(_: object) -> None:
    """Ignore a result that no span records."""


def emptying_filter(refusal: Refusal) -> str:
    """Return the name of the filter that removed the last hosts, or `none` if none did."""
    emptied = (one.name for one in refusal.filters if one.before and not one.after)
    return next(emptied, _NO_FILTER)


def outcome_label(outcome: Outcome) -> str:
    """Return the metrics label of a claim's outcome.

    It is `committed`, `repeated`, `stale`, `short` (of capacity) or `changed`.
    """
    if isinstance(outcome, Committed):
        return "repeated" if outcome.repeated else "committed"
    if outcome.stale:
        return "stale"
    return "short" if outcome.shortages else "changed"
