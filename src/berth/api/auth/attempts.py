"""Failed attempts to log in, counted so that guessing passwords is slow."""

from collections import OrderedDict

from berth.api.errors import HttpError
from berth.ports.clock import Clock

_NS_PER_S = 1_000_000_000


class FailedAttempts:
    """Counts failures by key in windows; a key with too many is refused until its window ends.

    Args:
        clock: tells durations.
        failures_max: failures that a window allows.
        window_s: length of a window, from its first failure on.
        keys_max: keys kept; the oldest window is forgotten first.
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
        """Refuse a key with too many failures.

        Raises:
            HttpError: 429, saying when to try again.
        """
        began_ns, failures = self._windows.get(key, (0, 0))
        if failures < self._failures_max:
            return
        left_ns = began_ns + self._window_ns - self._clock.ticks_ns()
        if left_ns > 0:
            after_s = left_ns // _NS_PER_S + 1
            raise HttpError(
                429,
                f"Too many failed attempts to log in. Try again in {after_s} s.",
                {"Retry-After": str(after_s)},
            )
        del self._windows[key]

    def note(self, key: str) -> None:
        """Count a failure."""
        now_ns = self._clock.ticks_ns()
        began_ns, failures = self._windows.get(key, (now_ns, 0))
        if now_ns - began_ns >= self._window_ns:
            began_ns, failures = now_ns, 0
            self._windows.pop(key, None)
        self._windows[key] = (began_ns, failures + 1)
        if len(self._windows) > self._keys_max:
            self._windows.popitem(last=False)

    def forgive(self, key: str) -> None:
        """Take back one failure that was counted and was none."""
        began_ns, failures = self._windows.get(key, (0, 0))
        if failures > 1:
            self._windows[key] = (began_ns, failures - 1)
        else:
            self._windows.pop(key, None)
