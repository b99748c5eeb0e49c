"""Numbers for values, so that arrays can stand for them."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)

_KEPT = 65_536


class Numbers(Generic[_T]):
    """Gives values numbers, counted from 1. A number never comes to stand for another value.

    Only so many values are remembered; one that was forgotten gets a new number. So equal
    numbers mean equal values, and equal values mostly have equal numbers.
    """

    def __init__(self) -> None:
        self._number_of: dict[_T, int] = {}
        self._last = 0

    def number(self, value: _T) -> int:
        """Return the number of a value."""
        number = self._number_of.get(value)
        if number is None:
            if len(self._number_of) >= _KEPT:
                self._number_of.clear()
            self._last += 1
            number = self._number_of[value] = self._last
        return number
