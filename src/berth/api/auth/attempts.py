"""The rate limit on failed logins, which makes guessing passwords slow."""

from collections import OrderedDict

from berth.api.errors import HttpError
from berth.ports.clock import Clock

_NS_PER_S = 1_000_000_000


class FailedAttempts:
    """Counts the failures of each key per window; too many block the key until the window ends.

    Args:
        clock: measures durations.
        failures_max: number of failures in a window after which a key is refused.
        window_s: length of a window in seconds, starting at its first failure.
        keys_max: maximum number of keys; a further key drops the one that was added first.
    """

    def __init__(
        self, clock: Clock, *, failures_max: int = 10, window_s: int = 60, keys_max: int = 10_000
    ) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._window_ns = window_s * _NS_PER_S
        self._keys_max = keys_max
        self._windows: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def check(self, key: str) -> None:
        """Refuse a key with too many failures in its window.

        Raises:
            HttpError: 429, with the time to wait until the window ends.
        """
        began_ns, failures = self._windows.get(key, (0, 0))
        if failures < self._failures_max:
            return
        left_ns = began_ns + self._window_ns - self._clock.ticks_ns()
        if left_ns > 0:
            # The time is rounded up, so that a client that retries then is not refused again.
            after_s = left_ns // _NS_PER_S + 1
            raise HttpError(
                429,
                f"Too many attempts to log in have failed. Try again in {after_s} s.",
                {"Retry-After": str(after_s)},
            )
        del self._windows[key]

    def has_failures(self, key: str) -> bool:
        """Return whether a key has failures in a window that has not ended."""
        began_ns, failures = self._windows.get(key, (0, 0))
        return failures > 0 and self._clock.ticks_ns() - began_ns < self._window_ns

    def note(self, key: str) -> None:
        """Count one failure of a key."""
        now_ns = self._clock.ticks_ns()
        began_ns, failures = self._windows.get(key, (now_ns, 0))
        if now_ns - began_ns >= self._window_ns:
            began_ns, failures = now_ns, 0
            self._windows.pop(key, None)
        self._windows[key] = (began_ns, failures + 1)
        # Attackers choose the user names in the keys, so the number of keys must be bounded.
        if len(self._windows) > self._keys_max:
            self._windows.popitem(last=False)

    def forgive(self, key: str) -> None:
        """Take back one counted failure of a key, because the attempt has succeeded."""
        began_ns, failures = self._windows.get(key, (0, 0))
        if failures > 1:
            self._windows[key] = (began_ns, failures - 1)
        else:
            self._windows.pop(key, None)
