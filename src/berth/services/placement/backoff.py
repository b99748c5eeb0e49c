"""Turns: who of several schedulers takes up a pending request first.

All of them hear of it at once, and the claim's key lets one through: the others would have decided
in vain. So whoever finds that others are at work waits a little, each for another time with each
request, and looks again. A scheduler that is alone does not wait.
"""

import hashlib
from typing import Final

_FIRST_S: Final = 0.02
_MOST_S: Final = 0.2
_LEAST_S: Final = 0.002
_SHRINKS: Final = 0.98
_STEPS: Final = 2**32


class Turns:
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
        shorter_s = self._spread_s * _SHRINKS
        self._spread_s = shorter_s if shorter_s >= _LEAST_S else 0.0
