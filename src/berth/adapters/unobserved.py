"""Metrics that nobody looks at."""

from berth.ports.telemetry import Measure


class NoMetrics:
    """Keeps nothing; see the port `Metrics`."""

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """See `Metrics.add`."""

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """See `Metrics.observe`."""
