"""What the services tell about themselves, for whoever operates them."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class MetricType(StrEnum):
    """What a measure is made of."""

    COUNTER = "counter"
    """Only grows, from 0 at the start of the process."""
    GAUGE = "gauge"
    """Goes up and down; read when somebody looks."""
    HISTOGRAM = "histogram"
    """How many observations were not above each of some bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """One metric: its name with its unit last, what it tells, the labels that divide it.

    `bounds` are those of a histogram, in its unit, ascending.
    """

    name: str
    shape: MetricType
    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Telemetry(Protocol):
    """Takes events and failures. Values never hold secrets."""

    def event(self, name: str, **fields: object) -> None:
        """Tell that something happened, in the past tense (`claim_conflicted`)."""
        ...

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Tell that something went wrong that nobody else will be told of."""
        ...


class Span(Protocol):
    """One part of the work, while it goes on."""

    def note(self, name: str, value: str | float) -> None:
        """Tell something about it. Values never hold secrets."""
        ...


class Tracer(Protocol):
    """Records spans. A span belongs to the one that `CONTEXT`'s traceparent names.

    What runs within a span has it as the traceparent of its `CONTEXT`, so that commands and
    whatever else carries that make the spans at the other end its children.
    """

    def span(
        self, name: str, *, request_id: str | None = None, begins: bool = False
    ) -> AbstractContextManager[Span]:
        """Begin a span that ends with the context; an error that passes is noted.

        Args:
            name: what is done, the same for all that do it.
            request_id: of the request that it is done for. Where `CONTEXT` is about another one,
                or has no traceparent, the span belongs to the trace that the id itself names.
            begins: the request begins here, so nothing is above the span in that trace.
        """
        ...


class Reading(NamedTuple):
    """The value of a gauge now; `labels` are in the order of the measure's."""

    measure: Measure
    value: float
    labels: tuple[str, ...] = ()


class Metrics(Protocol):
    """Keeps counters and histograms. Neither method waits or fails.

    Labels must come from few values: kinds, codes, templates of paths, never what a caller sent.
    """

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add to a counter; `labels` are in the order of the measure's."""
        ...

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add one observation to a histogram, in the unit of its name."""
        ...


class Exposition(Protocol):
    """Shows metrics to whoever asks for them."""

    @property
    def content_type(self) -> str:
        """The media type of what `expose` returns."""
        ...

    async def expose(self) -> bytes:
        """Return all that is kept, and gauges as they are now."""
        ...
