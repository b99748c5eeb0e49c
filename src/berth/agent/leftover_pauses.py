"""Pauses in the search for leftovers on a host, after errors."""

from typing import Final

from berth.domain.errors import UnavailableError
from berth.ports.clock import Clock

_NS_PER_S: Final = 1_000_000_000
# A pause doubles with each error in a row, up to this many intervals.
_INTERVALS_MAX: Final = 8


class LeftoverPauses:
    """Knows which hosts, and which leftovers, are not examined for some time after errors.

    Without it, a host whose storage or control plane is unavailable would ask about all its images
    again in each pass, and each of them would fail and be reported. Leftovers are never urgent.

    Args:
        clock: provides the time.
        interval_s: the seconds between two passes over a host, and the length of the first pause.
    """

    def __init__(self, clock: Clock, interval_s: float) -> None:
        self._clock = clock
        self._interval_s = interval_s
        # For each host, or leftover on a host, the errors in a row and the end of the pause.
        self._pauses: dict[tuple[str, str], tuple[int, float]] = {}

    def is_due(self, host: str, leftover: str = "") -> bool:
        """Return whether a host, or a leftover on a host, may be examined now.

        Args:
            host: the name of the host.
            leftover: a key that is unique among the leftovers on the host; empty for all of them.
        """
        now_s = self._now_s()
        keys = {(host, ""), (host, leftover)}
        return all(now_s >= self._pauses[key][1] for key in keys if key in self._pauses)

    def note_error(self, host: str, leftover: str, error: Exception) -> None:
        """Begin a pause: of the whole host if the control plane is unavailable.

        An error during a pause, of a leftover whose examination began earlier, changes nothing.
        """
        key = (host, "" if isinstance(error, UnavailableError) else leftover)
        errors, until_s = self._pauses.get(key, (0, 0.0))
        if (now_s := self._now_s()) >= until_s:
            self._drop_old(now_s)
            pause_s = self._interval_s * min(2**errors, _INTERVALS_MAX)
            self._pauses[key] = (errors + 1, now_s + pause_s)

    def note_success(self, host: str, leftover: str = "") -> None:
        """Forget the errors of a leftover, or those of the whole host, which are over."""
        self._pauses.pop((host, leftover), None)

    def _drop_old(self, now_s: float) -> None:
        """Forget leftovers that were not examined after their pause, because they are gone."""
        since_s = now_s - _INTERVALS_MAX * self._interval_s
        self._pauses = {key: one for key, one in self._pauses.items() if one[1] >= since_s}

    def _now_s(self) -> float:
        return self._clock.ticks_ns() / _NS_PER_S
