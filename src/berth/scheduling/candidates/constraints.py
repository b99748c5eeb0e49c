"""Constraints between the providers of an arrangement, one class per constraint.

The search asks each constraint whether a row may be chosen (`allows`), and reports each choice
(`take`) and its end (`release`). `state` is the part of past choices that matters for later ones,
and `row_class` the part of a row that matters. Rows for which all constraints return equal classes
are interchangeable.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from berth.scheduling.candidates.lookahead import OpenRows, can_satisfy, each_bit, union

RowClass = Callable[[int], int]
"""Takes a row and returns the id of its equivalence class."""


class Constraint(Protocol):
    """A constraint on the choices of one search; a depth is a slot's index in search order."""

    def allows(self, depth: int, row: int, /) -> bool:
        """Return whether a row may satisfy the slot at a depth, given the choices so far."""
        ...

    def take(self, depth: int, row: int, /) -> None:
        """Record the choice of a row for the slot at a depth."""
        ...

    def release(self, depth: int, row: int, /) -> None:
        """Undo the last `take`."""
        ...

    def state(self, depth: int, row_class: RowClass, /) -> Hashable:
        """Return the part of all choices so far that matters from a depth on."""
        ...

    def row_class(self, row: int, /) -> Hashable:
        """Return the part of a row that matters to this constraint."""
        ...

    def narrow(self, depth: int, open_rows: OpenRows, /) -> bool:
        """Exclude rows that cannot satisfy a slot from a depth on, given the choices so far.

        Returns:
            False if these slots certainly cannot all be satisfied, else True.
        """
        ...


class TraitCoverage:
    """The providers of the unsuffixed group must together have a trait of each required set."""

    def __init__(
        self, depths: Sequence[bool], later: Sequence[int], bits: Mapping[int, int], full: int
    ) -> None:
        """Start with no set covered.

        Args:
            depths: by depth, whether the slot belongs to the unsuffixed group.
            later: by depth, the sets that the choices of later slots could cover, as bits.
            bits: by row, the sets that it covers, as bits.
            full: all sets, as bits.
        """
        self._depths = depths
        self._later = later
        self._bits = bits
        self._full = full
        self._covered = [0]

    def allows(self, depth: int, row: int) -> bool:
        """Return whether this row and later choices can cover the sets that are not covered yet."""
        if not self._depths[depth]:
            return True
        return self._covered[-1] | self._bits[row] | self._later[depth] == self._full

    def take(self, depth: int, row: int) -> None:
        """Add the sets that the row covers."""
        self._covered.append(self._covered[-1] | (self._bits[row] if self._depths[depth] else 0))

    def release(self, _depth: int, _row: int) -> None:
        """Restore the sets that were covered before the last choice."""
        self._covered.pop()

    def state(self, _depth: int, _row_class: RowClass) -> Hashable:
        """Return the covered sets."""
        return self._covered[-1]

    def row_class(self, row: int) -> Hashable:
        """Return the sets that a row covers."""
        return self._bits.get(row, 0)

    def narrow(self, depth: int, open_rows: OpenRows) -> bool:
        """Return whether the remaining slots might cover the missing sets."""
        missing = self._full & ~self._covered[-1]
        reached = most = 0
        for at in range(depth, len(self._depths)):
            if missing and self._depths[at]:
                rows = map(open_rows.row_of, each_bit(open_rows.open[at]))
                found = {self._bits[row] & missing for row in rows}
                reached |= union(found)
                most += max(map(int.bit_count, found))
        # Each missing set must be within reach of some slot, and the slots together must be able to
        # cover as many sets as are missing. Rows are not excluded: that would need a search.
        return reached == missing and most >= missing.bit_count()


class Subtree:
    """Of the providers of the given slots, one must be an ancestor of all others, or the only one.

    The providers that could be that ancestor are called tops; each has a bit.
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
        """Start with no row chosen.

        Args:
            depths: by depth, whether the constraint applies to the slot.
            later: by depth, the tops that later slots could choose, as bits.
            under: by row, the tops that are its ancestors or itself, as bits.
            tops: by row, its own bit; 0 for rows that cannot be tops.
            are_apart: whether the slots need different rows.
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
        """Return whether, with this row, a common top is chosen or can still be chosen."""
        if not self._depths[depth]:
            return True
        above, chosen = self._stack[-1]
        return above & self._under[row] & (chosen | self._tops[row] | self._later[depth]) != 0

    def take(self, depth: int, row: int) -> None:
        """Keep only the tops that are this row or its ancestors."""
        above, chosen = self._stack[-1]
        if self._depths[depth]:
            above, chosen = above & self._under[row], chosen | self._tops[row]
        self._stack.append((above, chosen))

    def release(self, _depth: int, _row: int) -> None:
        """Restore the tops that were kept before the last choice."""
        self._stack.pop()

    def state(self, _depth: int, _row_class: RowClass) -> Hashable:
        """Return the common tops of all chosen rows, and those of them that are chosen."""
        above, chosen = self._stack[-1]
        # Chosen rows that are not common tops are left out, because they can no longer matter.
        return above, above & chosen

    def row_class(self, row: int) -> Hashable:
        """Return the tops of a row and its own bit, which identify its position in the tree."""
        return self._under.get(row, 0), self._tops.get(row, 0)

    def narrow(self, depth: int, open_rows: OpenRows) -> bool:
        """Exclude rows that are under no possible common top; return whether such a top is left."""
        inside = [at for at in range(depth, len(self._depths)) if self._depths[at]]
        if not inside:
            return True
        above, chosen = self._stack[-1]
        kept = 0
        for top in each_bit(above & self._useful):
            below, own = self._reach_of(top, open_rows)
            if self._may_be_top([open_rows.open[at] & below for at in inside], own, top & chosen):
                kept |= below
        for at in inside:
            open_rows.open[at] &= kept
        return kept != 0

    def _may_be_top(self, wanted: Sequence[int], own: int, is_chosen: int) -> bool:
        """Return whether a top and its descendants can satisfy all slots, the top at least one.

        Args:
            wanted: by slot, the bits of its open rows that are the top or its descendants.
            own: the bit of the top.
            is_chosen: nonzero if the top already satisfies a slot.
        """
        if not all(wanted) or not (is_chosen or any(bits & own for bits in wanted)):
            return False
        return not self._are_apart or can_satisfy(wanted, _once)

    def _reach_of(self, top: int, open_rows: OpenRows) -> tuple[int, int]:
        """Return a top with its descendants, and the top alone, as bits."""
        reach = self._reach.get(top)
        # The result does not depend on the choices, so it is computed once per search.
        if reach is None:
            below = open_rows.bits([row for row, tops in self._under.items() if tops & top])
            own = open_rows.bits([row for row, one in self._tops.items() if one == top])
            reach = self._reach[top] = below, own
        return reach


class OnePerTree:
    """At most one provider per tree supplies amounts, for clients unaware of nested providers."""

    def __init__(self, have_amounts: Sequence[bool], root_of: Callable[[int], int]) -> None:
        """Start with no provider chosen.

        Args:
            have_amounts: by depth, whether the slot has any amount.
            root_of: returns the root of a row's tree.
        """
        self._have_amounts = have_amounts
        self._root_of = root_of
        self._chosen: dict[int, list[int]] = {}
        self._trees: dict[int, int] = {}

    def allows(self, depth: int, row: int) -> bool:
        """Return whether no other row of the tree is chosen; True for a slot without amounts."""
        # A resourceless group takes nothing, so its provider does not count against the limit.
        if not self._have_amounts[depth]:
            return True
        chosen = self._chosen.get(self._root_of(row))
        return not chosen or chosen[-1] == row

    def take(self, depth: int, row: int) -> None:
        """Record the row as chosen in its tree, if the slot has an amount."""
        if self._have_amounts[depth]:
            self._chosen.setdefault(self._root_of(row), []).append(row)

    def release(self, depth: int, row: int) -> None:
        """Undo the last choice in its tree."""
        if self._have_amounts[depth]:
            self._chosen[self._root_of(row)].pop()

    def state(self, _depth: int, _row_class: RowClass) -> Hashable:
        """Return the chosen rows."""
        return frozenset(rows[-1] for rows in self._chosen.values() if rows)

    def row_class(self, row: int) -> Hashable:
        """Return the row itself, because no row is interchangeable with another."""
        return row

    def narrow(self, depth: int, open_rows: OpenRows) -> bool:
        """Exclude other rows of trees with a chosen row; return whether each slot keeps a row."""
        closed = 0
        for root, rows in self._chosen.items():
            if rows:
                closed |= self._rows_of(root, open_rows) & ~open_rows.bit_of[rows[-1]]
        for at in range(depth, len(self._have_amounts)):
            if self._have_amounts[at]:
                open_rows.open[at] &= ~closed
        return all(open_rows.open[depth:])

    def _rows_of(self, root: int, open_rows: OpenRows) -> int:
        """Return the rows of a tree as bits."""
        bits = self._trees.get(root)
        if bits is None:
            mine = [row for row in open_rows.bit_of if self._root_of(row) == root]
            bits = self._trees[root] = open_rows.bits(mine)
        return bits


class NonSharingRequired:
    """At least one provider must not be a sharing provider.

    Arrangements of sharing providers alone are yielded at an earlier anchor; see
    `AnchorArrangements`.
    """

    def __init__(self, later: Sequence[bool], sharing: frozenset[int]) -> None:
        """Start with no provider chosen.

        Args:
            later: by depth, whether later slots have choices that are not sharing providers.
            sharing: the sharing providers.
        """
        self._later = later
        self._sharing = sharing
        self._belonging = 0

    def allows(self, depth: int, row: int) -> bool:
        """Return whether a non-sharing provider is chosen, is this row, or can still be chosen."""
        return self._belonging > 0 or row not in self._sharing or self._later[depth]

    def take(self, _depth: int, row: int) -> None:
        """Count the row if it is not a sharing provider."""
        self._belonging += row not in self._sharing

    def release(self, _depth: int, row: int) -> None:
        """Undo the count of the row."""
        self._belonging -= row not in self._sharing

    def state(self, _depth: int, _row_class: RowClass) -> Hashable:
        """Return whether a non-sharing provider is chosen."""
        return self._belonging > 0

    def row_class(self, row: int) -> Hashable:
        """Return whether a row is a sharing provider."""
        return row in self._sharing

    def narrow(self, _depth: int, _open_rows: OpenRows) -> bool:
        """Exclude nothing and return True, because `allows` decides this constraint completely."""
        return True


def _once(_bit: int) -> int:
    """Return 1, because each row satisfies at most one slot."""
    return 1
