"""The capacity constraint: one provider must have room for all slots that it satisfies.

The constraint also covers groups that need a provider to themselves: each takes 1 unit of a
pseudo-class, and every provider has 1 unit of it.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Final

from berth.scheduling.candidates.constraints import RowClass
from berth.scheduling.candidates.lookahead import OpenRows, can_satisfy, each_bit, union

SUMS_MAX: Final = 1_000
"""Unequal capacities are treated as equivalent only for at most this many distinct sums."""


class CapacityConstraint:
    """The remaining capacity of each row that may satisfy several slots; see `Constraint`."""

    def __init__(
        self,
        costs: Sequence[Sequence[tuple[int, int]]],
        room_of: Callable[[int], list[int]],
        apart: int | None = None,
    ) -> None:
        """Start with no slot satisfied.

        Args:
            costs: by depth, the (class index, amount) pairs of the slot for contested classes.
            room_of: returns the capacity of a row by class index, as a new list.
            apart: the index of the pseudo-class for slots that need a provider to themselves.
        """
        self._costs = costs
        self._room_of = room_of
        self._apart = apart
        self._left: dict[int, list[int]] = {}
        self._taken: dict[int, int] = {}
        self._sums: dict[tuple[int, int], list[int] | None] = {}
        self._asked: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def allows(self, depth: int, row: int) -> bool:
        """Return whether the remaining capacity of the row suffices for the slot."""
        left = self._left.get(row)
        # Only rows that the search reaches are read from the table.
        if left is None:
            left = self._left[row] = self._room_of(row)
        for place, amount in self._costs[depth]:  # noqa: SIM110 - `all` takes twice as long
            if left[place] < amount:
                return False
        return True

    def take(self, depth: int, row: int) -> None:
        """Subtract the slot's amounts from the remaining capacity of the row."""
        if costs := self._costs[depth]:
            left = self._left[row]
            for place, amount in costs:
                left[place] -= amount
            self._taken[row] = self._taken.get(row, 0) + 1

    def release(self, depth: int, row: int) -> None:
        """Add the slot's amounts back to the remaining capacity of the row."""
        if costs := self._costs[depth]:
            left = self._left[row]
            for place, amount in costs:
                left[place] += amount
            self._taken[row] -= 1

    def state(self, depth: int, row_class: RowClass) -> Hashable:
        """Return the initial and the remaining useful capacity of the rows in use."""
        # The result is sorted, so that equal capacities on interchangeable rows are one state.
        return tuple(
            sorted(
                (
                    row_class(row),
                    *self._useful(depth, self._room_of(row)),
                    *self._useful(depth, left),
                )
                for row, left in self._left.items()
                if self._taken.get(row)
            )
        )

    def row_class(self, _row: int) -> Hashable:
        """Return None, because the state contains the capacity of each row in use."""
        return None

    def narrow(self, depth: int, open_rows: OpenRows) -> bool:
        """Exclude used rows without sufficient capacity; return whether the others may suffice."""
        for row, left in self._left.items():
            if self._taken.get(row):
                bit = open_rows.bit_of[row]
                for at in range(depth, len(self._costs)):
                    if open_rows.open[at] & bit and not _has(left, self._costs[at]):
                        open_rows.open[at] &= ~bit
        return all(open_rows.open[depth:]) and all(
            self._is_enough(depth, place, slots, open_rows)
            for place, slots in self._asking(depth).items()
            if len(slots) > 1
        )

    def _asking(self, depth: int) -> dict[int, list[tuple[int, int]]]:
        """Return, by class index, the slots from a depth on that request the class, largest first.

        Each slot is a (depth, amount) pair.
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
        self, depth: int, place: int, slots: Sequence[tuple[int, int]], open_rows: OpenRows
    ) -> bool:
        """Return whether the capacity of a class may suffice, by its sum and by matching slots."""
        wanted = [open_rows.open[at] for at, _ in slots]
        amounts = [amount for _, amount in slots]
        return (
            place == self._apart
            or self._sum_is_enough(depth, place, wanted, sum(amounts), open_rows)
        ) and all(
            self._fit(place, wanted[:count], amounts[:count], open_rows)
            # Amounts differ, so the matching is tested for the two largest slots, then the three
            # largest, and so on, skipping prefixes that end between equal amounts.
            for count in range(2, len(slots) + 1)
            if count == len(slots) or amounts[count] < amounts[count - 1]
        )

    def _sum_is_enough(
        self, depth: int, place: int, wanted: Sequence[int], amount: int, open_rows: OpenRows
    ) -> bool:
        """Return whether the useful remaining capacity of the wanted rows is at least an amount."""
        for bit in each_bit(union(wanted)):
            amount -= self._useful_of(depth, place, self._left_of(open_rows.row_of(bit))[place])
            if amount <= 0:
                return True
        return False

    def _fit(
        self, place: int, wanted: Sequence[int], amounts: Sequence[int], open_rows: OpenRows
    ) -> bool:
        """Return whether the rows may have capacity for all slots.

        A row with capacity for the k smallest of the amounts is assumed to satisfy any k slots, so
        the test is necessary but not sufficient.
        """
        sums = list(accumulate(reversed(amounts)))

        def capacity(bit: int) -> int:
            return bisect_right(sums, self._left_of(open_rows.row_of(bit))[place])

        return can_satisfy(wanted, capacity)

    def _left_of(self, row: int) -> list[int]:
        left = self._left.get(row)
        if left is None:
            left = self._left[row] = self._room_of(row)
        return left

    def _useful(self, depth: int, room: Sequence[int]) -> list[int]:
        return [self._useful_of(depth, place, left) for place, left in enumerate(room)]

    def _useful_of(self, depth: int, place: int, left: int) -> int:
        """Return the largest sum of amounts from a depth on that fits in a capacity.

        Return the capacity itself if there are more than `SUMS_MAX` such sums.
        """
        key = (depth, place)
        if key not in self._sums:
            self._sums[key] = self._sums_from(depth, place)
        sums = self._sums[key]
        # Capacities between two adjacent sums are equivalent. Treating them as equal makes many
        # more states equal, so the search remembers more dead ends.
        return left if sums is None or left < 0 else sums[bisect_right(sums, left) - 1]

    def _sums_from(self, depth: int, place: int) -> list[int] | None:
        """Return all sums of a class's amounts from a depth on; None for more than `SUMS_MAX`."""
        sums = {0}
        for costs in self._costs[depth:]:
            for one, amount in costs:
                if one == place:
                    sums |= {before + amount for before in sums}
            if len(sums) > SUMS_MAX:
                return None
        return sorted(sums)


def _has(left: Sequence[int], cost: Sequence[tuple[int, int]]) -> bool:
    """Return whether a capacity suffices for a slot."""
    return all(left[place] >= amount for place, amount in cost)
