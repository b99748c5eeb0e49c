"""Room: what one provider gives to several groups must fit together, and some groups want it alone.

A provider to oneself is room for one of something that every provider has, so both are one rule.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Final

from berth.scheduling.candidates.constraints import Look
from berth.scheduling.candidates.lookahead import OpenRows, can_give, each_bit, union

SUMS_MAX: Final = 1_000
"""Sums of amounts that are told apart when rooms are compared; with more, rooms must be equal."""


class CapacityConstraint:
    """Keeps what is left of each row that may give several slots (see `Constraint`)."""

    def __init__(
        self,
        costs: Sequence[Sequence[tuple[int, int]]],
        room_of: Callable[[int], list[int]],
        apart: int | None = None,
    ) -> None:
        """Start with nothing taken.

        Args:
            costs: by depth, (place of a class, amount) pairs of what is contested.
            room_of: gives a row's room by place, as a list of its own.
            apart: the place of what slots take that want a provider to themselves.
        """
        self._costs = costs
        self._room_of = room_of
        self._apart = apart
        self._left: dict[int, list[int]] = {}
        self._taken: dict[int, int] = {}
        self._sums: dict[tuple[int, int], list[int] | None] = {}
        self._asked: dict[int, dict[int, list[tuple[int, int]]]] = {}

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

    def narrow(self, depth: int, outlook: OpenRows) -> bool:
        """Take away rows that have not enough left; tell whether the others have all together."""
        for row, left in self._left.items():
            if self._taken.get(row):
                bit = outlook.bit_of[row]
                for at in range(depth, len(self._costs)):
                    if outlook.open[at] & bit and not _has(left, self._costs[at]):
                        outlook.open[at] &= ~bit
        return all(outlook.open[depth:]) and all(
            self._is_enough(depth, place, slots, outlook)
            for place, slots in self._asking(depth).items()
            if len(slots) > 1
        )

    def _asking(self, depth: int) -> dict[int, list[tuple[int, int]]]:
        """Return by place of a class the slots from a depth on that ask for it, largest first.

        Each is a pair of its depth and the amount.
        """
        asking = self._asked.get(depth)
        if asking is None:
            asking = self._asked[depth] = {}
            for at in range(depth, len(self._costs)):
                for place, amount in self._costs[at]:
                    asking.setdefault(place, []).append((at, amount))
            for slots in asking.values():
                slots.sort(key=lambda slot: -slot[1])
        return asking

    def _is_enough(
        self, depth: int, place: int, slots: Sequence[tuple[int, int]], outlook: OpenRows
    ) -> bool:
        """Tell whether a class is enough: its sum, and for the largest amounts, their number."""
        wanted = [outlook.open[at] for at, _ in slots]
        amounts = [amount for _, amount in slots]
        return (
            place == self._apart or self._sum_is_enough(depth, place, wanted, sum(amounts), outlook)
        ) and all(
            self._fit(place, wanted[:count], amounts[:count], outlook)
            for count in range(2, len(slots) + 1)
            if count == len(slots) or amounts[count] < amounts[count - 1]
        )

    def _sum_is_enough(
        self, depth: int, place: int, wanted: Sequence[int], amount: int, outlook: OpenRows
    ) -> bool:
        """Tell whether what is left of a class, as far as slots can use it, comes to an amount."""
        for bit in each_bit(union(wanted)):
            amount -= self._useful_of(depth, place, self._left_of(outlook.row_of(bit))[place])
            if amount <= 0:
                return True
        return False

    def _fit(
        self, place: int, wanted: Sequence[int], amounts: Sequence[int], outlook: OpenRows
    ) -> bool:
        """Tell whether each slot finds a row if a row gives as many as there is room for.

        That is so many of the smallest of their amounts.
        """
        sums = list(accumulate(reversed(amounts)))

        def capacity(bit: int) -> int:
            return bisect_right(sums, self._left_of(outlook.row_of(bit))[place])

        return can_give(wanted, capacity)

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


def _has(left: Sequence[int], cost: Sequence[tuple[int, int]]) -> bool:
    """Tell whether what is left is enough for a slot."""
    return all(left[place] >= amount for place, amount in cost)
