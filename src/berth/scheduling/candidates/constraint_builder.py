"""The constraints of a query, built for each anchor separately."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.candidates.anchors import contested
from berth.scheduling.candidates.arrangement_search import RowsBySlot
from berth.scheduling.candidates.capacity import CapacityConstraint
from berth.scheduling.candidates.constraints import (
    Constraint,
    NonSharingRequired,
    OnePerTree,
    Subtree,
    TraitCoverage,
)
from berth.scheduling.candidates.lookahead import union
from berth.scheduling.candidates.masks import QueryMasks, Slot
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.columnar.bitsets import Mask
from berth.tables.provider.providers import ProviderTable

# The number of bits in an int64 without its sign bit. With this many masks or more, the bits of a
# row are held in a Python integer.
_WORD_BITS: Final = 63

# If there are more choices than this, those in trees without a choice for every slot are dropped.
_FEW: Final = 32


class TreeColumns(NamedTuple):
    """The parent of each row, (N,), with -1 for roots, and the root of its tree, (N,)."""

    parent: NDArray[np.int32]
    root: NDArray[np.int32]


class ConstraintBuilder:
    """Builds the constraints of a search, leaving out those that no choices could violate."""

    def __init__(self, table: ProviderTable, query: CandidateQuery, masks: QueryMasks) -> None:
        """Determine the constraints that the query imposes on several slots."""
        self._lineage = TreeColumns(table.parent, table.root)
        self._slots = masks.slots
        self._together = len(masks.together)
        self._covered = _bits_of(masks.together, len(table))
        self._is_aware = query.is_nested_aware
        names = [
            name
            for name in contested(query)
            # A class needs a constraint only if some provider could satisfy two of its slots. Each
            # constraint that is left out speeds up every step of every search.
            if _meet(slot for slot in masks.slots if name in slot.classes)
        ]
        self._columns = [columns for name in names if (columns := table.resource(name))]
        self._are_apart = query.isolates
        isolates = query.isolates and _meet(slot for slot in masks.slots if slot.is_single)
        self._apart = len(names)
        self._costs = [
            [(names.index(name), amount) for name, amount in slot.amounts if name in names]
            + ([(self._apart, 1)] if isolates and slot.is_single else [])
            for slot in masks.slots
        ]
        suffixes = [query.groups[slot.group].suffix for slot in masks.slots]
        self._subtrees = [
            [suffix in together for suffix in suffixes]
            for together in query.same_subtree
            if len(together) > 1
        ]

    @property
    def are_needed(self) -> bool:
        """Whether some combination of choices may be invalid, at any anchor."""
        is_simple = self._is_aware and not (self._together or self._subtrees)
        return not is_simple or any(self._costs)

    def at(
        self, order: Sequence[int], choices: RowsBySlot, sharing: frozenset[int] | None = None
    ) -> list[Constraint]:
        """Return the constraints of one anchor.

        Args:
            order: the indices of the slots, in the order of the search.
            choices: the rows that could satisfy each slot, in the same order.
            sharing: the sharing providers, which must not satisfy all slots; None if they may.
        """
        constraints: list[Constraint] = []
        if any(self._costs):
            costs = [self._costs[slot] for slot in order]
            constraints.append(CapacityConstraint(costs, self._room_of, self._apart))
        if self._together:
            constraints.append(self._coverage(order, choices))
        for inside in self._subtrees:
            depths = [inside[slot] for slot in order]
            constraints.append(
                subtree_of(depths, choices, self._lineage, are_apart=self._are_apart)
            )
        if not self._is_aware:
            gives = [bool(self._slots[slot].amounts) for slot in order]
            constraints.append(OnePerTree(gives, self._lineage.root.item))
        if sharing is not None:
            own = [any(row not in sharing for row in rows) for rows in choices]
            constraints.append(
                NonSharingRequired([any(own[i + 1 :]) for i in range(len(own))], sharing)
            )
        return constraints

    def _room_of(self, row: int) -> list[int]:
        """Return a row's capacity of each contested class, then 1 for the pseudo-class."""
        return [*(columns.room.item(row) for columns in self._columns), 1]

    def _coverage(self, order: Sequence[int], choices: RowsBySlot) -> TraitCoverage:
        depths = [not self._slots[slot].is_single for slot in order]
        rows = {row for inside, mine in zip(depths, choices, strict=True) if inside for row in mine}
        bits = {row: self._covered.item(row) for row in rows}
        full = (1 << self._together) - 1
        return TraitCoverage(depths, later_bits(depths, choices, bits), bits, full)


def _bits_of(masks: Sequence[Mask], count: int) -> NDArray[Any]:
    """Return, for each of `count` rows, the masks that are True for it, as bits."""
    words = np.int64 if len(masks) < _WORD_BITS else object
    bits: NDArray[Any] = np.zeros(count, dtype=words)
    for place, mask in enumerate(masks):
        bits[mask] |= 1 << place
    return bits


def _meet(slots: Iterable[Slot]) -> bool:
    """Return whether any provider could satisfy two of the slots."""
    given: Mask | None = None
    for slot in slots:
        mine = slot.own | slot.shared
        if given is not None and bool((given & mine).any()):
            return True
        given = mine if given is None else given | mine
    return False


def subtree_of(
    depths: Sequence[bool],
    choices: RowsBySlot,
    lineage: TreeColumns,
    *,
    are_apart: bool = False,
) -> Subtree:
    """Return the constraint that the slots of some depths are satisfied within one subtree.

    A top is a choice that is equal to, or an ancestor of, at least one choice of each of these
    slots. A tree in which some slot has no choice has no tops; this is true of most trees of
    sharing providers.

    Args:
        depths: by depth, whether the constraint applies to the slot.
        choices: by depth, the rows that could satisfy the slot.
        lineage: the parents and roots of rows.
        are_apart: whether the slots need different rows.
    """
    inside = [mine for is_inside, mine in zip(depths, choices, strict=True) if is_inside]
    rows = list(dict.fromkeys(row for mine in inside for row in mine))
    # Without this cut, the bit masks would have a bit for each of many sharing providers that are
    # not tops.
    near = rows if len(rows) <= _FEW else _near(rows, inside, lineage.root)
    bit_of = {row: 1 << place for place, row in enumerate(near)}
    under = {row: _tops_above(row, bit_of, lineage.parent) for row in near}
    if near is not rows:
        under = dict.fromkeys(rows, 0) | under
    useful = -1
    for mine in inside:
        useful &= union(map(under.__getitem__, mine))
    under = {row: bits & useful for row, bits in under.items()}
    tops = {row: bit_of.get(row, 0) & useful for row in rows}
    later = later_bits(depths, choices, tops)
    return Subtree(depths, later, under, tops, are_apart=are_apart)


def later_bits(depths: Sequence[bool], choices: RowsBySlot, bits: Mapping[int, int]) -> list[int]:
    """Return, for each depth, the bits of all choices at later depths that `depths` marks."""
    later = [0] * len(choices)
    found = 0
    for depth in range(len(choices) - 1, -1, -1):
        later[depth] = found
        if depths[depth]:
            for row in choices[depth]:
                found |= bits[row]
    return later


def _near(rows: Sequence[int], inside: RowsBySlot, root: NDArray[np.int32]) -> list[int]:
    """Return the rows of trees that have a choice for each slot."""
    root_of = {row: root.item(row) for row in rows}
    trees = set(root_of.values())
    for mine in inside:
        trees.intersection_update(map(root_of.__getitem__, mine))
    return [row for row in rows if root_of[row] in trees]


def _tops_above(row: int, bit_of: Mapping[int, int], parent: NDArray[np.int32]) -> int:
    """Return the combined bits of a row and its ancestors; a row without a bit adds none."""
    bits, at = 0, row
    while at >= 0:
        bits |= bit_of.get(at, 0)
        at = parent.item(at)
    return bits
