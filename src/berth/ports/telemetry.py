"""Observability of a process: log events, metrics and trace spans."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class MetricType(StrEnum):
    """The type of a metric."""

    COUNTER = "counter"
    """Only increases, from 0 when the process starts."""
    GAUGE = "gauge"
    """May rise and fall; read at the time of a scrape."""
    HISTOGRAM = "histogram"
    """Counts, for each of its bounds, the observations up to that bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """The declaration of a metric: its name, its type, its help text and its label names.

    `bounds` are the ascending bucket bounds of a histogram, in the unit of the metric. `unit` and
    `note` are for the reference: the unit in words, and what the help text leaves out, in Markdown.
    """

    name: str
    shape: MetricType
    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    unit: str = ""
    note: str = ""


class Telemetry(Protocol):
    """Receives log events and failures. Values must never contain secrets."""

    def event(self, name: str, **fields: object) -> None:
        """Log an event, named in the past tense (`claim_conflicted`)."""
        ...

    def warning(self, name: str, **fields: object) -> None:
        """Log an event that an operator should notice, such as a failed login."""
        ...

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Log an error that is not reported to any caller."""
        ...


class Span(Protocol):
    """A timed piece of work within a trace."""

    def note(self, name: str, value: str | float) -> None:
        """Set an attribute of the span. Values must never contain secrets."""
        ...


class Tracer(Protocol):
    """Records spans. The parent of a span is the one that the traceparent of `CONTEXT` names.

    Within a span, the traceparent of `CONTEXT` names that span. Commands carry the context, so
    spans in other processes become its children.
    """

    def span(
        self, name: str, *, request_id: str | None = None, begins: bool = False
    ) -> AbstractContextManager[Span]:
        """Return a context manager that records a span; an exception marks the span as failed.

        Args:
            name: the operation, the same for every execution of it.
            request_id: the request on whose behalf the work is done; None for that of `CONTEXT`.
                If `CONTEXT` has another request or no traceparent, the span belongs to the trace
                that is derived from this id.
            begins: whether this is the root span of the request's trace.
        """
        ...


class Reading(NamedTuple):
    """The current value of a gauge, with label values in the order of the measure's label names."""

    measure: Measure
    value: float
    labels: tuple[str, ...] = ()


class Metrics(Protocol):
    """Records counters and histograms. Its methods never wait and never fail.

    Label values must come from small fixed sets, such as kinds, codes or path templates, and never
    from caller input.
    """

    # Each combination of label values is a time series, so caller input would exhaust the memory of
    # the process and of the monitoring system.
    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Increase a counter; label values are in the order of the measure's label names."""
        ...

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add an observation to a histogram; `value` is in the unit of the metric."""
        ...


class Exposition(Protocol):
    """Renders metrics for a monitoring system."""

    @property
    def content_type(self) -> str:
        """The media type of the result of `expose`."""
        ...

    async def expose(self) -> bytes:
        """Return all metrics, rendered; gauges are read at the time of the call."""
        ...
