"""Metrics: numbers about a process, for whoever watches many of them over time."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class Shape(StrEnum):
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
    shape: Shape
    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


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
