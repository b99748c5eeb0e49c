"""Numbered names: a small number for each name that any row has, as `Combinations` wants them."""

from collections.abc import Iterable, Mapping


class NumberedNames:
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
