"""Rivalry: how widely to choose while other schedulers take what was chosen.

Schedulers that follow one policy want the same best host. As long as nobody else takes it the best
is chosen. Each claim that is lost doubles the number of hosts to choose among, and each that is won
makes it smaller by a thirty-second: so about one claim in thirty is lost while there are rivals,
and a scheduler that is alone, or is among others with room enough for all, always takes the best.
"""

import hashlib
from typing import Final

_SHRINKS: Final = 31 / 32
_FIRST_S: Final = 0.02
_MOST_S: Final = 0.2
_LEAST_S: Final = 0.002
_BACKOFF_SHRINKS: Final = 0.98
_STEPS: Final = 2**32


class Contention:
    """What came of the latest claims, as a number of hosts."""

    def __init__(self) -> None:
        self._among = 1.0

    def among(self, most: int) -> int:
        """Return among how many of the best hosts to choose; 1 is the best.

        Args:
            most: what the policy allows.
        """
        return min(int(self._among), most)

    def note(self, *, is_lost: bool, most: int) -> None:
        """Take in what came of a claim.

        Args:
            is_lost: somebody else was faster.
            most: what the policy allows.
        """
        if is_lost:
            self._among = min(self._among * 2, float(most))
        else:
            self._among = max(self._among * _SHRINKS, 1.0)


class Backoff:
    """How long a scheduler waits before it takes up a request.

    Args:
        name: of the scheduler, unlike those of all others.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._spread_s = 0.0

    def delay_s(self, request_id: str) -> float:
        """Return the seconds to wait; 0 as long as nobody else is known of."""
        if not self._spread_s:
            return 0.0
        digest = hashlib.sha256(f"{self._name}/{request_id}".encode()).digest()
        return self._spread_s * (int.from_bytes(digest[:4]) / _STEPS)

    def note_rival(self) -> None:
        """Somebody else had taken up a request already: give way more."""
        self._spread_s = min(max(self._spread_s * 2, _FIRST_S), _MOST_S)

    def note_own(self) -> None:
        """A request was taken up by nobody else: give way a little less."""
        shorter_s = self._spread_s * _BACKOFF_SHRINKS
        self._spread_s = shorter_s if shorter_s >= _LEAST_S else 0.0
