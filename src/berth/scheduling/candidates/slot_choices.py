"""The providers that could give each slot at one anchor: those of its tree and lenders."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.scheduling.candidates.masks import QueryMasks, Slot
from berth.tables.columnar.bitsets import Rows
from berth.tables.provider.lineage import Forest
from berth.tables.provider.providers import ProviderTable


class AnchorChoices(NamedTuple):
    """The providers that could give each slot at one anchor.

    Attributes:
        choices: by slot, the rows that could give it, those of the tree first.
        shared: by slot, the sharing providers among these rows; equal for two anchors at which the
            same sharers could give the slots.
    """

    choices: list[Sequence[int]]
    shared: tuple[frozenset[int], ...]


class SlotChoices:
    """The rows that could give each slot at any anchor; work common to all trees is done once."""

    def __init__(self, table: ProviderTable, masks: QueryMasks) -> None:
        """Sort the providers of each slot by tree."""
        forest, sharing = table.forest(), table.sharing()
        self._own = [_ByTree(forest, slot) for slot in masks.slots]
        self._slots = masks.slots
        self._is_particular = any(slot.borrowers is not None for slot in masks.slots)
        self._anchored = sharing.anchored
        self._sharers = frozenset(sharing.rows.tolist())
        self._roots_of_sharers = frozenset(table.root[sharing.rows].tolist())
        self._lent: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._shared: dict[tuple[int, ...], tuple[frozenset[int], ...]] = {}
        self._nobody = (frozenset[int](),) * len(masks.slots)

    def at(self, root: int) -> AnchorChoices:
        """Return the rows that could give each slot at an anchor."""
        found: list[Sequence[int]] = [own.at(root) for own in self._own]
        lenders = self._anchored.get(root, ())
        if lenders:
            for place, lent in enumerate(self._lent_by(lenders)):
                slot = self._slots[place]
                if lent and (slot.borrowers is None or slot.borrowers.item(root)):
                    found[place] = [*found[place], *lent] if found[place] else lent
        return AnchorChoices(found, self._shared_at(root, lenders, found))

    def lent_alone(self, root: int) -> tuple[int, ...] | None:
        """Return the lenders of an anchor whose own tree gives no slot; None for any other anchor.

        Anchors with the same lenders have the same choices, and the same tuple object. The result
        is None for every anchor if a slot may be lent to some trees only.
        """
        lenders = self._anchored.get(root)
        if lenders is None or self._is_particular or any(own.has(root) for own in self._own):
            return None
        return lenders

    @property
    def are_lent(self) -> bool:
        """Whether any provider lends to another tree."""
        return bool(self._anchored)

    def first_of(self, roots: Rows) -> list[tuple[int, ...]]:
        """Return the first row of each slot at each anchor; each slot must have one in the tree."""
        return list(zip(*(own.first_of(roots) for own in self._own), strict=True))

    def _lent_by(self, lenders: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the lenders of each slot among some sharers, cached: many trees have the same."""
        lent = self._lent.get(lenders)
        if lent is None:
            lent = self._lent[lenders] = [
                tuple(row for row in lenders if slot.lent.item(row)) for slot in self._slots
            ]
        return lent

    def _shared_at(
        self, root: int, lenders: tuple[int, ...], found: Sequence[Sequence[int]]
    ) -> tuple[frozenset[int], ...]:
        if not self._sharers or not (lenders or root in self._roots_of_sharers):
            return self._nobody
        # In these cases the sharers depend on the tree, so lenders cannot be the key of a cache.
        if root in self._roots_of_sharers or self._is_particular:
            return tuple(self._sharers.intersection(rows) for rows in found)
        shared = self._shared.get(lenders)
        if shared is None:
            shared = self._shared[lenders] = tuple(map(frozenset, self._lent_by(lenders)))
        return shared


class _ByTree:
    """The providers that give a slot within their own tree, grouped by tree."""

    def __init__(self, forest: Forest, slot: Slot) -> None:
        gives = slot.own[forest.members]
        self._forest = forest
        self._rows: Rows = forest.members[gives]
        # A prefix sum over the members in tree order finds the rows of a tree, which are one slice,
        # in constant time.
        self._before = np.zeros(gives.size + 1, dtype=np.intp)
        gives.cumsum(out=self._before[1:])

    def at(self, root: int) -> list[int]:
        """Return the rows of these providers in one tree, ascending."""
        start = self._forest.starts.item(root)
        end = start + self._forest.sizes.item(root)
        found: list[int] = self._rows[self._before.item(start) : self._before.item(end)].tolist()
        return found

    def has(self, root: int) -> bool:
        """Return whether a tree has any such provider."""
        start = self._forest.starts.item(root)
        end = start + self._forest.sizes.item(root)
        return self._before.item(start) < self._before.item(end)

    def first_of(self, roots: Rows) -> list[int]:
        """Return the first such row of each tree; every tree must have one."""
        first: list[int] = self._rows[self._before[self._forest.starts[roots]]].tolist()
        return first
