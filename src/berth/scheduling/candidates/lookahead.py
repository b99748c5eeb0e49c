"""Look-ahead: the rows that may still satisfy the remaining slots, as bits of integers.

Python integers are unbounded, so one operation covers all rows of an anchor.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain


class OpenRows:
    """The rows that may still be chosen in one search; constraints remove impossible ones.

    Attributes:
        bit_of: by row, its bit.
        open: by depth, the bits of the rows that may still satisfy the slot.
    """

    def __init__(self, choices: Sequence[Sequence[int]]) -> None:
        """Start with all rows open.

        Args:
            choices: by depth, the rows that could satisfy the slot.
        """
        self._rows = list(dict.fromkeys(chain.from_iterable(choices)))
        self.bit_of = {row: 1 << place for place, row in enumerate(self._rows)}
        self._all = [self.bits(rows) for rows in choices]
        self.open = list(self._all)

    def reopen(self) -> None:
        """Open all rows again."""
        self.open = list(self._all)

    def is_narrowed(self, depth: int) -> bool:
        """Return whether any row at a depth was removed since all were opened."""
        return self.open[depth] != self._all[depth]

    def bits(self, rows: Sequence[int]) -> int:
        """Return the combined bits of the rows."""
        return union(map(self.bit_of.__getitem__, rows))

    def row_of(self, bit: int) -> int:
        """Return the row to which a bit belongs."""
        return self._rows[bit.bit_length() - 1]


def each_bit(bits: int) -> Iterator[int]:
    """Yield the bits that are set, lowest first."""
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def union(each: Iterable[int]) -> int:
    """Return the bits that are set in any of the numbers."""
    found = 0
    for bits in each:
        found |= bits
    return found


def can_satisfy(wanted: Sequence[int], capacity: Callable[[int], int]) -> bool:
    """Return whether every slot can be assigned a row without exceeding the rows' capacities.

    Args:
        wanted: for each slot, the bits of the rows that may satisfy it.
        capacity: takes the bit of a row and returns the number of slots that the row can
            satisfy, at least 1.
    """
    matching = _Matching(wanted, capacity)
    return all(matching.assign(slot) for slot in range(len(wanted)))


class _Matching:
    """A bipartite matching of slots to rows, built by augmenting paths."""

    def __init__(self, wanted: Sequence[int], capacity: Callable[[int], int]) -> None:
        self._wanted = wanted
        self._capacity = capacity
        self._slots: dict[int, list[int]] = {}
        self._full = 0

    def assign(self, slot: int) -> bool:
        """Assign a row to a slot, reassigning others if needed; return whether that succeeded."""
        return self._augment(slot, [0])

    def _augment(self, slot: int, tried: list[int]) -> bool:
        free = self._wanted[slot] & ~self._full
        if free:
            self._take(free & -free, slot)
            return True
        while rest := self._wanted[slot] & ~tried[0]:
            bit = rest & -rest
            # Each row is tried once per augmenting path, which bounds the recursion.
            tried[0] |= bit
            slots = self._slots[bit]
            for place, other in enumerate(slots):
                if self._augment(other, tried):
                    slots[place] = slot
                    return True
        return False

    def _take(self, bit: int, slot: int) -> None:
        slots = self._slots.setdefault(bit, [])
        slots.append(slot)
        if len(slots) >= self._capacity(bit):
            self._full |= bit
