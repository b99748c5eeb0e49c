"""Interned values: what many rows have alike, kept once and numbered."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)
_V = TypeVar("_V")

_IDS_KEPT = 65_536


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


class Pool(Generic[_T, _V]):
    """One object for all values that have equal keys, counted by who keeps it.

    Unlike `Interned` it gives no numbers: whoever has the object needs nothing else.
    """

    def __init__(self) -> None:
        self._kept: dict[_T, tuple[_V, int]] = {}

    def __len__(self) -> int:
        """Return how many different values there are."""
        return len(self._kept)

    def take(self, key: _T, value: _V) -> _V:
        """Return the object that stands for a value, which has one more keeper from now on."""
        kept, keepers = self._kept.get(key, (value, 0))
        self._kept[key] = kept, keepers + 1
        return kept

    def release(self, key: _T) -> None:
        """Undo one `take`: forget the value when nobody keeps it any more."""
        kept, keepers = self._kept[key]
        if keepers > 1:
            self._kept[key] = kept, keepers - 1
        else:
            del self._kept[key]


class ValueIds(Generic[_T]):
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
            if len(self._number_of) >= _IDS_KEPT:
                self._number_of.clear()
            self._last += 1
            number = self._number_of[value] = self._last
        return number


class NameIds:
    """Numbers by name, for as long as anybody has the name.

    The number of a name that nobody has any more is given to the next one that comes.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._users: list[int] = []
        self._unused: list[int] = []

    @property
    def by_name(self) -> Mapping[str, int]:
        """The number of each name that anybody has."""
        return self._numbers

    def take(self, names: Iterable[str]) -> None:
        """Give each of the names one more user."""
        for name in names:
            self._users[self._number(name)] += 1

    def release(self, names: Iterable[str]) -> None:
        """Undo one `take`."""
        for name in names:
            number = self._numbers[name]
            self._users[number] -= 1
            if not self._users[number]:
                del self._numbers[name]
                self._unused.append(number)

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            if self._unused:
                number = self._unused.pop()
            else:
                number = len(self._users)
                self._users.append(0)
            self._numbers[name] = number
        return number
