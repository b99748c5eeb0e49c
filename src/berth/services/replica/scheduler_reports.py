"""What schedulers report about themselves, beside the heartbeats of their hosts."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

LAG: Final = "lag"
"""The number of ledger versions that a scheduler has not applied."""

PLACED: Final = "placed"
"""The requests that a scheduler has placed since it started."""

REFUSED: Final = "refused"
"""The requests that a scheduler has refused since it started."""

LOST: Final = "lost"
"""The claims that the ledger has rejected, because the capacity or an instance had changed."""

_MS_PER_S: Final = 1_000

CountReader: TypeAlias = Callable[[], Awaitable[Mapping[str, int]]]
"""() -> the present counts of a scheduler, by the names of this module."""


class SchedulerReport(NamedTuple):
    """A live scheduler, as of its newest report.

    Attributes:
        scheduler: its id, a text that is new at each start of its process.
        part: the kind of its process: `scheduler` or `up`.
        age_s: the seconds since the report.
        counts: its counts by name; empty if it is of a version that reports none.
        per_s: the growth of its counts between its two newest reports, by name; empty after its
            first report.
    """

    scheduler: str
    part: str
    age_s: float
    counts: Mapping[str, int]
    per_s: Mapping[str, float]


@dataclass(slots=True)
class ReportedCounts:
    """The counts in the newest two reports of a scheduler.

    Attributes:
        number: the Unix time of the newest report in milliseconds.
        counts: its counts.
    """

    number: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    _before: tuple[int, Mapping[str, int]] | None = None

    def note(self, number: int, counts: Mapping[str, int]) -> None:
        """Note a newer report."""
        self._before = (self.number, self.counts) if self.counts else None
        self.number, self.counts = number, counts

    def per_s(self) -> dict[str, float]:
        """Return how much each count has grown per second; the lag is no such count."""
        if self._before is None or self.number <= self._before[0]:
            return {}
        number, counts = self._before
        span_s = (self.number - number) / _MS_PER_S
        return {
            name: max(count - counts[name], 0) / span_s
            for name, count in self.counts.items()
            if name in counts and name != LAG
        }
