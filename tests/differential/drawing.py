"""Drawing: seeded chance for cases."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """The chance of one case; equal seed and number, equal case."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = Random(f"{seed}/{number}")

    def seldom(self, one_in: int = 6) -> bool:
        """Say yes once in a while."""
        return self._rng.randrange(one_in) == 0

    def count(self, least: int, most: int) -> int:
        """Draw a whole number, both ends included."""
        return self._rng.randint(least, most)

    def of(self, options: Sequence[T]) -> T:
        """Draw one of several."""
        return self._rng.choice(options)

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Draw up to so many different ones, in any order."""
        return self._rng.sample(options, self._rng.randint(0, min(most, len(options))))

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all of them in any order."""
        return self._rng.sample(options, len(options))
