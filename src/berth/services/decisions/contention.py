"""Rivalry: how widely to choose while other schedulers take what was chosen.

Schedulers that follow one policy want the same best host. As long as nobody else takes it the best
is chosen. Each claim that is lost doubles the number of hosts to choose among, and each that is won
makes it smaller by a thirty-second: so about one claim in thirty is lost while there are rivals,
and a scheduler that is alone, or is among others with room enough for all, always takes the best.
"""

from typing import Final

_SHRINKS: Final = 31 / 32


class Rivalry:
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
