"""The providers that could satisfy each slot at an anchor, including sharing providers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.scheduling.candidates.masks import QueryMasks, Slot
from berth.tables.columnar.bitsets import Rows
from berth.tables.provider.lineage import Forest
from berth.tables.provider.providers import ProviderTable


class AnchorChoices(NamedTuple):
    """The providers that could satisfy each slot at one anchor.

    Attributes:
        choices: by slot, the rows that could satisfy it, those of the tree first.
        shared: by slot, the sharing providers among these rows.
    """

    choices: list[Sequence[int]]
    shared: tuple[frozenset[int], ...]


class SlotChoices:
    """The rows that could satisfy each slot at any anchor."""

    def __init__(self, table: ProviderTable, masks: QueryMasks) -> None:
        """Group the providers of each slot by tree."""
        forest, sharing = table.forest(), table.sharing()
        self._own = [_ByTree(forest, slot) for slot in masks.slots]
        self._slots = masks.slots
        self._is_particular = any(slot.shared_with is not None for slot in masks.slots)
        self._anchored = sharing.anchored
        self._sharing = frozenset(sharing.rows.tolist())
        self._roots_of_sharing = frozenset(table.root[sharing.rows].tolist())
        self._sharing_by_slot: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._shared: dict[tuple[int, ...], tuple[frozenset[int], ...]] = {}
        self._nobody = (frozenset[int](),) * len(masks.slots)

    def at(self, root: int) -> AnchorChoices:
        """Return the rows that could satisfy each slot at an anchor."""
        found: list[Sequence[int]] = [own.at(root) for own in self._own]
        sharing = self._anchored.get(root, ())
        if sharing:
            for place, shared in enumerate(self._by_slot(sharing)):
                slot = self._slots[place]
                if shared and (slot.shared_with is None or slot.shared_with.item(root)):
                    found[place] = [*found[place], *shared] if found[place] else shared
        return AnchorChoices(found, self._shared_at(root, sharing, found))

    def sharing_alone(self, root: int) -> tuple[int, ...] | None:
        """Return the sharing providers of an anchor whose own tree can satisfy no slot, else None.

        Anchors with the same sharing providers have the same choices, and the result is the same
        object. If sharing providers may satisfy a slot in some trees only, the result is always
        None.
        """
        sharing = self._anchored.get(root)
        if sharing is None or self._is_particular or any(own.has(root) for own in self._own):
            return None
        return sharing

    @property
    def are_shared(self) -> bool:
        """Whether any provider shares with another tree."""
        return bool(self._anchored)

    def first_of(self, roots: Rows) -> list[tuple[int, ...]]:
        """Return the first possible row of each slot, as one tuple for each root.

        The tree of each root must have a row for every slot.
        """
        return list(zip(*(own.first_of(roots) for own in self._own), strict=True))

    def _by_slot(self, sharing: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return, for each slot, the sharing providers that could satisfy it."""
        by_slot = self._sharing_by_slot.get(sharing)
        if by_slot is None:
            by_slot = self._sharing_by_slot[sharing] = [
                tuple(row for row in sharing if slot.shared.item(row)) for slot in self._slots
            ]
        return by_slot

    def _shared_at(
        self, root: int, sharing: tuple[int, ...], found: Sequence[Sequence[int]]
    ) -> tuple[frozenset[int], ...]:
        if not self._sharing or not (sharing or root in self._roots_of_sharing):
            return self._nobody
        # Here the result depends on the tree, so it must not be cached by sharing providers.
        if root in self._roots_of_sharing or self._is_particular:
            return tuple(self._sharing.intersection(rows) for rows in found)
        shared = self._shared.get(sharing)
        if shared is None:
            shared = self._shared[sharing] = tuple(map(frozenset, self._by_slot(sharing)))
        return shared


class _ByTree:
    """The providers that can satisfy a slot within their own tree, grouped by tree."""

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
