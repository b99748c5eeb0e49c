"""A circuit breaker, which stops calls to a service that does not answer."""

import math

from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
)

_NS_PER_S = 1_000_000_000
# Consecutive unusable answers, each about one token only, after which the service counts as down.
_UNUSABLE_MAX = 5


class CircuitBreaker:
    """Admits calls to Keystone until it fails, and then one call after each pause.

    An outage is logged once when it begins and once when it ends. Admissions are numbered, because
    calls end in any order: a failure of a call that began before the latest success says nothing
    about the time after it.

    Args:
        clock: measures the pauses.
        telemetry: receives the beginning and the end of an outage.
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
        # The number of the attempt to reach Keystone during an outage; 0 while there is none.
        self._probe = 0
        # The last number that was admitted before the latest success.
        self._outdated = 0
        self._unusable = 0
        self.is_open = False

    @property
    def retry_after_s(self) -> int:
        """The time in whole seconds, at least 1, after which a client may try again."""
        left_ns = self._retry_at_ns - self._clock.ticks_ns()
        return max(1, math.ceil(left_ns / _NS_PER_S))

    def admit(self) -> int | None:
        """Return the number of a call, whose outcome must be reported; None if it is not allowed.

        Numbers are positive and rise.
        """
        if self.is_open and (self._probe or self._clock.ticks_ns() < self._retry_at_ns):
            return None
        self._admitted += 1
        if self.is_open:
            self._probe = self._admitted
        return self._admitted

    def succeed(self) -> None:
        """Report an answer of Keystone, whatever it says about the token."""
        self._probe, self._unusable, self._outdated = 0, 0, self._admitted
        if self.is_open:
            self.is_open = False
            lasted_s = (self._clock.ticks_ns() - self._began_ns) // _NS_PER_S
            self._telemetry.event("keystone_answers_again", after_s=lasted_s)

    def fail(self, error: TokenServiceError, number: int) -> None:
        """Report that the call with a number failed.

        One unusable answer may be due to the token, which a client chooses, so only several in
        succession count as an outage. During an outage it ends the attempt, and the next call may
        be made at once; otherwise a client could extend the outage with each of its tokens.
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
