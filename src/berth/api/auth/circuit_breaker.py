"""A circuit breaker, which stops calls to a token service that does not answer."""

import math

from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
)

_NS_PER_S = 1_000_000_000
# The number of consecutive unusable answers after which the service counts as down. A single one
# may be due to its token.
_UNUSABLE_MAX = 5


class CircuitBreaker:
    """Admits all calls to Keystone while it is up, and one probe after each pause during an outage.

    An outage is logged once when it begins and once when it ends. Calls can end in any order, so
    admissions are numbered, and the failure of a call that was admitted before the latest success
    is ignored.

    Args:
        clock: measures the pauses.
        telemetry: logs the beginning and the end of an outage.
        pause_s: the time in seconds from a failure to the next attempt.

    Attributes:
        is_open: whether Keystone counts as down.
    """

    def __init__(self, clock: Clock, telemetry: Telemetry, *, pause_s: float = 5.0) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._pause_s = pause_s
        self._began_ns = 0
        self._retry_at_ns = 0
        self._admitted = 0
        # The number of the probe in progress; 0 when no probe is in progress.
        self._probe = 0
        # The highest number admitted before the latest success; failures up to it are ignored.
        self._outdated = 0
        self._unusable = 0
        self.is_open = False

    @property
    def retry_after_s(self) -> int:
        """The time in whole seconds, at least 1, after which a client may try again."""
        left_ns = self._retry_at_ns - self._clock.ticks_ns()
        return max(1, math.ceil(left_ns / _NS_PER_S))

    def admit(self) -> int | None:
        """Admit a call and return its number, or None if no call is allowed now.

        Numbers are positive and increase. The caller must report the outcome of each admitted call.
        """
        if self.is_open and (self._probe or self._clock.ticks_ns() < self._retry_at_ns):
            return None
        self._admitted += 1
        if self.is_open:
            self._probe = self._admitted
        return self._admitted

    def succeed(self) -> None:
        """Record that Keystone answered, whether it accepted the token or not."""
        self._probe, self._unusable, self._outdated = 0, 0, self._admitted
        if self.is_open:
            self.is_open = False
            lasted_s = (self._clock.ticks_ns() - self._began_ns) // _NS_PER_S
            self._telemetry.event("keystone_available", after_s=lasted_s)

    def fail(self, error: TokenServiceError, number: int) -> None:
        """Record that the call with a number failed.

        `TokenServiceDownError` begins or extends an outage; `TokenServiceBusyError` says nothing
        about Keystone. Any other error is an unusable answer, which may be due to the token, and
        clients choose the tokens. Only several in succession therefore begin an outage. During an
        outage, an unusable answer ends the probe without a new pause; otherwise a client could
        extend the outage with each of its tokens.
        """
        if number == self._probe:
            self._probe = 0
        if number <= self._outdated or isinstance(error, TokenServiceBusyError):
            return
        self._unusable += 1
        pause_s = self._pause_s
        if isinstance(error, TokenServiceDownError):
            pause_s = max(pause_s, error.pause_s)
        elif self.is_open or self._unusable < _UNUSABLE_MAX:
            return
        if not self.is_open:
            self.is_open, self._began_ns = True, self._clock.ticks_ns()
            self._telemetry.failure("keystone_unavailable", error)
        retry_at_ns = self._clock.ticks_ns() + int(pause_s * _NS_PER_S)
        self._retry_at_ns = max(self._retry_at_ns, retry_at_ns)
