"""Seeded random choices for cases."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """The random source of one case; equal seed and number give an equal case."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = Random(f"{seed}/{number}")

    def seldom(self, one_in: int = 6) -> bool:
        """Return True with a probability of 1 in `one_in`."""
        return self._rng.randrange(one_in) == 0

    def count(self, least: int, most: int) -> int:
        """Draw an integer between both ends, inclusive."""
        return self._rng.randint(least, most)

    def of(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return self._rng.choice(options)

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Draw at most `most` different options, in any order."""
        return self._rng.sample(options, self._rng.randint(0, min(most, len(options))))

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in random order."""
        return self._rng.sample(options, len(options))
