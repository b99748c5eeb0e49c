"""The reactions of a scheduler to others that compete with it for hosts and requests.

Schedulers with the same policy prefer the same best host. `Contention` widens the choice when
claims are lost; `Backoff` spreads the times at which schedulers start on the same pending request.
"""

import hashlib
from typing import Final

# Each successful claim multiplies the number of hosts to choose among by this factor. About 88 of
# them cancel one lost claim, which doubles the number. A batch has up to 64 claims, so a smaller
# factor would forget the rivals between two batches.
_SHRINKS: Final = 127 / 128
# The first, the largest and the smallest spread of the delays, in seconds. A spread below the
# smallest becomes 0, so that a scheduler that is alone again soon stops waiting.
_FIRST_S: Final = 0.02
_MOST_S: Final = 0.2
_LEAST_S: Final = 0.002
_BACKOFF_SHRINKS: Final = 0.98
_STEPS: Final = 2**32


class Contention:
    """The number of best hosts to choose among, adjusted after each claim.

    Each lost claim doubles the number, and each claim that succeeds reduces it by 1/128. Under
    contention about one claim in 90 is therefore lost. A scheduler that is alone, or that competes
    on a fleet with enough free capacity, always chooses the best host.
    """

    def __init__(self) -> None:
        self._among = 1.0

    def among(self, most: int) -> int:
        """Return the number of best hosts to choose among; 1 means the best one.

        Args:
            most: the maximum number that the policy allows.
        """
        return min(int(self._among), most)

    def note(self, *, is_lost: bool, most: int) -> None:
        """Adjust the number of hosts to choose among after a claim.

        Args:
            is_lost: whether another scheduler took the capacity first.
            most: the maximum number that the policy allows.
        """
        if is_lost:
            # The policy's bound also limits how far a run of lost claims can spread placements.
            self._among = min(self._among * 2, float(most))
        else:
            self._among = max(self._among * _SHRINKS, 1.0)


class Backoff:
    """The delay before a scheduler starts on a pending request.

    All schedulers learn of a request at the same time, and its claim key lets only one of them
    commit, so the decisions of the others would be wasted. Each therefore waits for a time derived
    from its name and the request, and checks again. A scheduler that is alone does not wait.

    Args:
        name: the scheduler's unique name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._spread_s = 0.0

    def delay_s(self, request_id: str) -> float:
        """Return the delay in seconds; 0 while no other scheduler is known."""
        if not self._spread_s:
            return 0.0
        digest = hashlib.sha256(f"{self._name}/{request_id}".encode()).digest()
        # The delay is a hash and not random, so that repeated simulations get the same delays.
        return self._spread_s * (int.from_bytes(digest[:4]) / _STEPS)

    def note_rival(self) -> None:
        """Lengthen the delays, because another scheduler had already decided a request."""
        self._spread_s = min(max(self._spread_s * 2, _FIRST_S), _MOST_S)

    def note_own(self) -> None:
        """Shorten the delays a little, because this scheduler was the first to decide a request."""
        shorter_s = self._spread_s * _BACKOFF_SHRINKS
        self._spread_s = shorter_s if shorter_s >= _LEAST_S else 0.0
