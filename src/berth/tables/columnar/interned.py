"""Values that occur in many rows, stored once under an id."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)
_V = TypeVar("_V")

# Maximum number of values that `ValueIds` remembers. States of device pools change with every
# claim, so their number would grow without bound.
_IDS_KEPT = 65_536


class Interned(Generic[_T]):
    """Reference-counted values by id.

    The id of a value that no longer occurs in any row is reused for the next new value. References
    are counted because some values (host stats) change with every report, and a table that kept all
    of them would grow without bound. Id 0 stands for the value `nothing`, which rows have without a
    `take`, and is never reused.

    Attributes:
        all: the value of each id; None for an id that is not in use.
        version: increases whenever an id gets a new value.
    """

    def __init__(self, nothing: _T) -> None:
        self.version = 0
        self.all: list[_T | None] = [nothing]
        self._number_of: dict[_T, int] = {nothing: 0}
        self._row_counts = [0]
        self._unused: list[int] = []

    def take(self, value: _T) -> int:
        """Return the id of a value, and count one more row that has it."""
        number = self._number_of.get(value)
        if number is None:
            number = self._add(value)
        self._row_counts[number] += 1
        return number

    def find(self, value: _T) -> int | None:
        """Return the id of a value, or None if it occurs in no row."""
        return self._number_of.get(value)

    def release(self, number: int) -> None:
        """Undo one `take`; the value is dropped with its last row."""
        self._row_counts[number] -= 1
        value = self.all[number]
        if number and not self._row_counts[number] and value is not None:
            del self._number_of[value]
            self.all[number] = None
            self._unused.append(number)

    def row_count(self, number: int) -> int:
        """Return the number of rows that have taken the value of an id and not released it."""
        return self._row_counts[number]

    def _add(self, value: _T) -> int:
        if self._unused:
            number = self._unused.pop()
            self.all[number] = value
        else:
            number = len(self.all)
            self.all.append(value)
            self._row_counts.append(0)
        self._number_of[value] = number
        self.version += 1
        return number


class Pool(Generic[_T, _V]):
    """One shared, reference-counted object for all equal values.

    Unlike `Interned`, it assigns no ids: the users refer to the object itself.
    """

    def __init__(self) -> None:
        self._kept: dict[_T, tuple[_V, int]] = {}

    def __len__(self) -> int:
        """Return the number of distinct values."""
        return len(self._kept)

    def take(self, key: _T, value: _V) -> _V:
        """Return the shared object for a key (`value` if the key is new) and count its new user."""
        kept, keepers = self._kept.get(key, (value, 0))
        self._kept[key] = kept, keepers + 1
        return kept

    def release(self, key: _T) -> None:
        """Undo one `take`; the object is dropped with its last user."""
        kept, keepers = self._kept[key]
        if keepers > 1:
            self._kept[key] = kept, keepers - 1
        else:
            del self._kept[key]


class ValueIds(Generic[_T]):
    """Assigns ids to values, from 1. An id never stands for two values.

    A bounded number of values is remembered; a forgotten value gets a new id. Equal ids therefore
    mean equal values, and equal values nearly always have equal ids.
    """

    def __init__(self) -> None:
        self._number_of: dict[_T, int] = {}
        self._last = 0

    def number(self, value: _T) -> int:
        """Return the id of a value, assigning a new id if the value is not remembered."""
        number = self._number_of.get(value)
        if number is None:
            if len(self._number_of) >= _IDS_KEPT:
                self._number_of.clear()
            self._last += 1
            number = self._number_of[value] = self._last
        return number


class NameIds:
    """Small integer ids for the names in use, for `AggregateSets`.

    The id of a name that is no longer in use is given to the next new name.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._users: list[int] = []
        self._unused: list[int] = []

    @property
    def by_name(self) -> Mapping[str, int]:
        """The id of each name in use."""
        return self._numbers

    def take(self, names: Iterable[str]) -> None:
        """Count one more user of each name, assigning an id to names that are not in use."""
        for name in names:
            self._users[self._number(name)] += 1

    def release(self, names: Iterable[str]) -> None:
        """Undo one `take` of the same names."""
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
