"""Interned values: what many rows have alike, kept once and numbered."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class Interned(Generic[_T]):
    """Values by number, counted; a number that no row has any more is given to the next value.

    Number 0 is that of rows that have nothing; it is never given away. Values are counted
    because some change at every report, and a table that kept them all would never stop growing.

    Attributes:
        all: the value of every number; None where no row has it.
        version: grows whenever a number comes to stand for another value.
    """

    def __init__(self, nothing: _T) -> None:
        self.version = 0
        self.all: list[_T | None] = [nothing]
        self._number_of: dict[_T, int] = {nothing: 0}
        self._rows_having = [0]
        self._unused: list[int] = []

    def take(self, value: _T) -> int:
        """Return the number of a value, which one more row has from now on."""
        number = self._number_of.get(value)
        if number is None:
            number = self._add(value)
        self._rows_having[number] += 1
        return number

    def release(self, number: int) -> None:
        """Undo one `take`: forget the value when no row has it any more."""
        self._rows_having[number] -= 1
        value = self.all[number]
        if number and not self._rows_having[number] and value is not None:
            del self._number_of[value]
            self.all[number] = None
            self._unused.append(number)

    def having(self, number: int) -> int:
        """Return how many rows have the value of a number; of 0 those that have taken it."""
        return self._rows_having[number]

    def _add(self, value: _T) -> int:
        if self._unused:
            number = self._unused.pop()
            self.all[number] = value
        else:
            number = len(self.all)
            self.all.append(value)
            self._rows_having.append(0)
        self._number_of[value] = number
        self.version += 1
        return number
