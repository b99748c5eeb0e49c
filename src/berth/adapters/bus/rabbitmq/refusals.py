"""The log and the count of refused messages."""

from collections.abc import Callable
from typing import Final

from berth.adapters.bus.signing import RefusedMessageError
from berth.ports.measures import BUS_REFUSALS
from berth.ports.telemetry import Metrics, Telemetry

_EVERY_S: Final = 10.0


class Refusals:
    """Counts each refused message, and logs at most one per reason every ten seconds.

    Refused messages may come in floods, and must not fill the log. Nothing of their content is
    logged, because anyone may have written it.

    Args:
        telemetry: receives at most one failure per reason every ten seconds.
        metrics: counts all refused messages.
        now_s: returns the Unix time in seconds.
    """

    def __init__(self, telemetry: Telemetry, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
        self._now_s = now_s
        self._since_log: dict[str, int] = {}
        self._logged_s: dict[str, float] = {}

    def note(self, error: RefusedMessageError) -> None:
        """Count a refused message; log it unless its reason was logged in the last 10 seconds."""
        reason, now_s = error.reason, self._now_s()
        self._metrics.add(BUS_REFUSALS, (reason,))
        self._since_log[reason] = self._since_log.get(reason, 0) + 1
        # A clock that was set back must not silence the log.
        if 0 <= now_s - self._logged_s.get(reason, -_EVERY_S) < _EVERY_S:
            return
        self._logged_s[reason] = now_s
        count = self._since_log.pop(reason)
        self._telemetry.failure("bus_message_refused", error, reason=reason, count=count)
