"""Room: what one provider gives to several groups must fit together, and some groups want it alone.

A provider to oneself is room for one of something that every provider has, so both are one rule.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from berth.scheduling.candidates.constraints import Look

SUMS_MAX: Final = 1_000
"""Sums of amounts that are told apart when rooms are compared; with more, rooms must be equal."""


class Room:
    """Keeps what is left of each row that may give several slots (see `Constraint`)."""

    def __init__(
        self,
        costs: Sequence[Sequence[tuple[int, int]]],
        choices: Sequence[Sequence[int]],
        room_of: Callable[[int], list[int]],
        apart: int | None = None,
    ) -> None:
        """Start with nothing taken.

        Args:
            costs: by depth, (place of a class, amount) pairs of what is contested.
            choices: rows by depth.
            room_of: gives a row's room by place, as a list of its own.
            apart: the place of what slots take that want a provider to themselves.
        """
        self._costs = costs
        self._choices = choices
        self._room_of = room_of
        self._apart = apart
        self._left: dict[int, list[int]] = {}
        self._taken: dict[int, int] = {}
        self._sums: dict[tuple[int, int], list[int] | None] = {}

    def allows(self, depth: int, row: int) -> bool:
        """Tell whether there is room left."""
        left = self._left.get(row)
        if left is None:
            left = self._left[row] = self._room_of(row)
        for place, amount in self._costs[depth]:  # noqa: SIM110 - `all` takes twice as long
            if left[place] < amount:
                return False
        return True

    def take(self, depth: int, row: int) -> None:
        """Leave less of it."""
        if costs := self._costs[depth]:
            left = self._left[row]
            for place, amount in costs:
                left[place] -= amount
            self._taken[row] = self._taken.get(row, 0) + 1

    def release(self, depth: int, row: int) -> None:
        """Leave as much as before."""
        if costs := self._costs[depth]:
            left = self._left[row]
            for place, amount in costs:
                left[place] += amount
            self._taken[row] -= 1

    def state(self, depth: int, look: Look) -> Hashable:
        """Return what was and is left of rows that gave something, by their looks."""
        return tuple(
            sorted(
                (look(row), *self._useful(depth, self._room_of(row)), *self._useful(depth, left))
                for row, left in self._left.items()
                if self._taken.get(row)
            )
        )

    def look(self, _row: int) -> Hashable:
        """Return nothing: the room of a row counts by what can be made of it, in the state."""
        return None

    def is_hopeless(self, depth: int) -> bool:
        """Tell whether what is left is less than what is asked from a depth on.

        Providers to oneself are found if there are any; of amounts, sums are compared.
        """
        asked: dict[int, int] = {}
        givers: dict[int, set[int]] = {}
        for costs, rows in zip(self._costs[depth:], self._choices[depth:], strict=True):
            for place, amount in costs:
                asked[place] = asked.get(place, 0) + amount
                givers.setdefault(place, set()).update(rows)
        for place, amount in asked.items():
            if place != self._apart and amount > sum(
                self._useful_of(depth, place, self._left_of(row)[place]) for row in givers[place]
            ):
                return True
        return not self._can_be_apart(depth)

    def _left_of(self, row: int) -> list[int]:
        left = self._left.get(row)
        if left is None:
            left = self._left[row] = self._room_of(row)
        return left

    def _useful(self, depth: int, room: Sequence[int]) -> list[int]:
        return [self._useful_of(depth, place, left) for place, left in enumerate(room)]

    def _useful_of(self, depth: int, place: int, left: int) -> int:
        """Return the largest sum of amounts still to come that there is room for."""
        key = (depth, place)
        if key not in self._sums:
            self._sums[key] = self._sums_from(depth, place)
        sums = self._sums[key]
        return left if sums is None or left < 0 else sums[bisect_right(sums, left) - 1]

    def _sums_from(self, depth: int, place: int) -> list[int] | None:
        """Return all sums of amounts of a class that slots from a depth on ask for."""
        sums = {0}
        for costs in self._costs[depth:]:
            for one, amount in costs:
                if one == place:
                    sums |= {before + amount for before in sums}
            if len(sums) > SUMS_MAX:
                return None
        return sorted(sums)

    def _can_be_apart(self, depth: int) -> bool:
        """Tell whether each slot from a depth on that wants a row to itself can have one."""
        slots = [
            at
            for at in range(depth, len(self._costs))
            if any(place == self._apart for place, _ in self._costs[at])
        ]
        holder: dict[int, int] = {}
        return all(self._finds_row(slot, holder, set()) for slot in slots)

    def _finds_row(self, slot: int, holder: dict[int, int], tried: set[int]) -> bool:
        """Give a slot a row, if others can move for it (an augmenting path)."""
        for row in self._choices[slot]:
            if row not in tried and self.allows(slot, row):
                tried.add(row)
                if row not in holder or self._finds_row(holder[row], holder, tried):
                    holder[row] = slot
                    return True
        return False
