"""What providers that are chosen one after another must keep together, one rule a class.

Each rule follows the choices: `allows` the next one, `take`s it and `release`s it again. What of
the past matters to what may follow is its `state`; what of a row matters to it is its `look`, so
that rows that look alike to all rules can stand for each other.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from berth.scheduling.candidates.lookahead import OpenRows, can_give, each_bit, union

Look = Callable[[int], int]
"""Gives each row the number of its look."""


class Constraint(Protocol):
    """A rule about what is chosen together; depths count the slots in the order of the search."""

    def allows(self, depth: int, row: int, /) -> bool:
        """Tell whether a row may give the slot at a depth, after all that was taken."""
        ...

    def take(self, depth: int, row: int, /) -> None:
        """Note that it does."""
        ...

    def release(self, depth: int, row: int, /) -> None:
        """Undo the last `take`."""
        ...

    def state(self, depth: int, look: Look, /) -> Hashable:
        """Return what of all that was taken matters from a depth on."""
        ...

    def look(self, row: int, /) -> Hashable:
        """Return what of a row matters."""
        ...

    def narrow(self, depth: int, outlook: OpenRows, /) -> bool:
        """Take away what nothing can come of at the slots from a depth on, as things are.

        Returns:
            False when it is plain that these slots cannot all be given.
        """
        ...


class TraitCoverage:
    """The providers of the unsuffixed group must have, between them, one of each set of traits."""

    def __init__(
        self, depths: Sequence[bool], later: Sequence[int], bits: Mapping[int, int], full: int
    ) -> None:
        """Start with nothing covered.

        Args:
            depths: by depth, whether the slot is of the unsuffixed group.
            later: by depth, the sets that all choices of later slots could cover, as bits.
            bits: by row, the sets that it covers.
            full: all sets.
        """
        self._depths = depths
        self._later = later
        self._bits = bits
        self._full = full
        self._covered = [0]

    def allows(self, depth: int, row: int) -> bool:
        """Tell whether what is not covered with this row still can be."""
        if not self._depths[depth]:
            return True
        return self._covered[-1] | self._bits[row] | self._later[depth] == self._full

    def take(self, depth: int, row: int) -> None:
        """Cover what the row covers."""
        self._covered.append(self._covered[-1] | (self._bits[row] if self._depths[depth] else 0))

    def release(self, _depth: int, _row: int) -> None:
        """Cover what was covered before."""
        self._covered.pop()

    def state(self, _depth: int, _look: Look) -> Hashable:
        """Return what is covered."""
        return self._covered[-1]

    def look(self, row: int) -> Hashable:
        """Return what a row covers."""
        return self._bits.get(row, 0)

    def narrow(self, depth: int, outlook: OpenRows) -> bool:
        """Tell whether the slots to come cover what is missing if each covers all that it can."""
        missing = self._full & ~self._covered[-1]
        reached = most = 0
        for at in range(depth, len(self._depths)):
            if missing and self._depths[at]:
                rows = map(outlook.row_of, each_bit(outlook.open[at]))
                found = {self._bits[row] & missing for row in rows}
                reached |= union(found)
                most += max(map(int.bit_count, found))
        return reached == missing and most >= missing.bit_count()


class Subtree:
    """Of the providers of some slots, one is an ancestor of all others, or the only one.

    Providers that could be that one are *tops*, each a bit.
    """

    def __init__(
        self,
        depths: Sequence[bool],
        later: Sequence[int],
        under: Mapping[int, int],
        tops: Mapping[int, int],
        *,
        are_apart: bool = False,
    ) -> None:
        """Start with nothing chosen.

        Args:
            depths: by depth, whether the slot is one of them.
            later: by depth, tops that later slots could choose.
            under: by row, the tops that it is below of, or is itself.
            tops: by row, its own bit; 0 for rows that are none.
            are_apart: none of these slots may have the row of another one.
        """
        self._are_apart = are_apart
        self._depths = depths
        self._later = later
        self._under = under
        self._tops = tops
        self._useful = union(tops.values())
        self._reach: dict[int, tuple[int, int]] = {}
        self._stack = [(-1, 0)]

    def allows(self, depth: int, row: int) -> bool:
        """Tell whether some top of all is chosen, or still can be."""
        if not self._depths[depth]:
            return True
        above, chosen = self._stack[-1]
        return above & self._under[row] & (chosen | self._tops[row] | self._later[depth]) != 0

    def take(self, depth: int, row: int) -> None:
        """Keep the tops that are above this row, too."""
        above, chosen = self._stack[-1]
        if self._depths[depth]:
            above, chosen = above & self._under[row], chosen | self._tops[row]
        self._stack.append((above, chosen))

    def release(self, _depth: int, _row: int) -> None:
        """Keep what was kept before."""
        self._stack.pop()

    def state(self, _depth: int, _look: Look) -> Hashable:
        """Return the tops that are above all rows, and which of them are chosen."""
        above, chosen = self._stack[-1]
        return above, above & chosen

    def look(self, row: int) -> Hashable:
        """Return where in the tree a row is."""
        return self._under.get(row, 0), self._tops.get(row, 0)

    def narrow(self, depth: int, outlook: OpenRows) -> bool:
        """Take away what is below no top that could be that of all."""
        inside = [at for at in range(depth, len(self._depths)) if self._depths[at]]
        if not inside:
            return True
        above, chosen = self._stack[-1]
        kept = 0
        for top in each_bit(above & self._useful):
            below, own = self._reach_of(top, outlook)
            if self._may_be_top([outlook.open[at] & below for at in inside], own, top & chosen):
                kept |= below
        for at in inside:
            outlook.open[at] &= kept
        return kept != 0

    def _may_be_top(self, wanted: Sequence[int], own: int, is_chosen: int) -> bool:
        """Tell whether rows below a top can give all slots, and the top one if it gives none yet.

        Args:
            wanted: by slot, the bits of its rows that are below the top.
            own: the bit of the top.
            is_chosen: not 0 if it gives a slot already.
        """
        if not all(wanted) or not (is_chosen or any(bits & own for bits in wanted)):
            return False
        return not self._are_apart or can_give(wanted, _once)

    def _reach_of(self, top: int, outlook: OpenRows) -> tuple[int, int]:
        """Return the rows below a top, itself among them, and the top itself, as bits of rows."""
        reach = self._reach.get(top)
        if reach is None:
            below = outlook.bits([row for row, tops in self._under.items() if tops & top])
            own = outlook.bits([row for row, one in self._tops.items() if one == top])
            reach = self._reach[top] = below, own
        return reach


class OnePerTree:
    """For clients that know of no trees: no two providers of one tree give anything."""

    def __init__(self, gives: Sequence[bool], root_of: Callable[[int], int]) -> None:
        """Start with nobody chosen.

        Args:
            gives: by depth, whether the slot asks for any amount.
            root_of: gives the root of a row's tree.
        """
        self._gives = gives
        self._root_of = root_of
        self._chosen: dict[int, list[int]] = {}
        self._trees: dict[int, int] = {}

    def allows(self, depth: int, row: int) -> bool:
        """Tell whether it is the only one of its tree."""
        if not self._gives[depth]:
            return True
        chosen = self._chosen.get(self._root_of(row))
        return not chosen or chosen[-1] == row

    def take(self, depth: int, row: int) -> None:
        """Choose a row of its tree."""
        if self._gives[depth]:
            self._chosen.setdefault(self._root_of(row), []).append(row)

    def release(self, depth: int, row: int) -> None:
        """Undo the last choice in its tree."""
        if self._gives[depth]:
            self._chosen[self._root_of(row)].pop()

    def state(self, _depth: int, _look: Look) -> Hashable:
        """Return who is chosen."""
        return frozenset(rows[-1] for rows in self._chosen.values() if rows)

    def look(self, row: int) -> Hashable:
        """Return the row: none stands for another."""
        return row

    def narrow(self, depth: int, outlook: OpenRows) -> bool:
        """Take away all others of the trees of those who are chosen."""
        closed = 0
        for root, rows in self._chosen.items():
            if rows:
                closed |= self._rows_of(root, outlook) & ~outlook.bit_of[rows[-1]]
        for at in range(depth, len(self._gives)):
            if self._gives[at]:
                outlook.open[at] &= ~closed
        return all(outlook.open[depth:])

    def _rows_of(self, root: int, outlook: OpenRows) -> int:
        """Return the rows of a tree, as bits."""
        bits = self._trees.get(root)
        if bits is None:
            mine = [row for row in outlook.bit_of if self._root_of(row) == root]
            bits = self._trees[root] = outlook.bits(mine)
        return bits


class NonSharingRequired:
    """Somebody must not share: what sharers give without a tree is found at another anchor."""

    def __init__(self, later: Sequence[bool], sharers: frozenset[int]) -> None:
        """Start with nobody chosen.

        Args:
            later: by depth, whether later slots have choices that do not share.
            sharers: rows that share.
        """
        self._later = later
        self._sharers = sharers
        self._belonging = 0

    def allows(self, depth: int, row: int) -> bool:
        """Tell whether somebody who does not share is chosen, or still can be."""
        return self._belonging > 0 or row not in self._sharers or self._later[depth]

    def take(self, _depth: int, row: int) -> None:
        """Count those who do not share."""
        self._belonging += row not in self._sharers

    def release(self, _depth: int, row: int) -> None:
        """Undo that."""
        self._belonging -= row not in self._sharers

    def state(self, _depth: int, _look: Look) -> Hashable:
        """Return whether anybody was chosen who does not share."""
        return self._belonging > 0

    def look(self, row: int) -> Hashable:
        """Return whether a row shares."""
        return row in self._sharers

    def narrow(self, _depth: int, _outlook: OpenRows) -> bool:
        """Take nothing away: what `allows` does is all that it knows."""
        return True


def _once(_bit: int) -> int:
    """Say that a row gives one slot at most."""
    return 1
