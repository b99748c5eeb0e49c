"""Anchors: the trees that could serve a query, and which of them serve it without a search."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.scheduling.candidates.masks import QueryMasks, Slot, no_rows
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.provider.providers import ProviderTable


@dataclass(frozen=True, slots=True)
class Anchors:
    """The roots of the trees that could serve a query.

    Attributes:
        rows: (A,) roots of trees in which every slot has a provider, ascending.
        is_alone: (A,) bool, True if the root has no children and no sharing provider (the root
            included) could satisfy a slot there, so the root serves all groups. Any other anchor
            may turn out to have no candidate.
    """

    rows: Rows
    is_alone: Mask


def anchors_of(table: ProviderTable, query: CandidateQuery, masks: QueryMasks) -> Anchors:
    """Return the anchors of a query: the trees that pass cheap, necessary tests for serving it."""
    reach = Reach(table, masks.slots)
    viable = reach.of_slots(masks)
    # These tests are necessary, not sufficient. They cost a few passes over arrays and exclude most
    # trees that cannot serve the query before the search.
    for name, amount in contested(query).items():
        asking = [slot for slot in masks.slots if name in slot.classes]
        viable &= reach.has_enough(name, amount, asking)
    if query.isolates:
        singles = [slot for slot in masks.slots if slot.is_single]
        viable &= reach.has_as_many(singles)
    rows = np.flatnonzero(viable)
    return Anchors(rows, reach.is_alone(rows))


def contested(query: CandidateQuery) -> Mapping[str, int]:
    """Return the total requested amount of each class that several groups request."""
    groups = Counter(name for group in query.groups for name in group.amounts)
    return {
        name: sum(group.amounts.get(name, 0) for group in query.groups)
        for name, count in groups.items()
        if count > 1
    }


class Reach:
    """The trees that providers can serve: their own, and those with which they share."""

    def __init__(self, table: ProviderTable, slots: Sequence[Slot]) -> None:
        self._table = table
        self._sizes = table.forest().sizes
        # In a fleet without children, every tree is one row, so masks are already per tree.
        self._is_flat = not bool((self._sizes > 1).any())
        self._anchors = table.sharing().anchors
        self._sharing = [
            row
            for row in table.sharing().rows.tolist()
            if any(slot.shared.item(row) for slot in slots)
        ]

    def of_slots(self, masks: QueryMasks) -> Mask:
        """Return, for each row, whether it is a root at which every slot has a provider.

        The providers of the unsuffixed group must together have its traits.
        """
        viable = self.of_slot(masks.slots[0])
        for slot in masks.slots[1:]:
            viable &= self.of_slot(slot)
        for traits in masks.together:
            spread = [slot for slot in masks.slots if not slot.is_single]
            found = no_rows(self._table)
            for slot in spread:
                found |= self.of_slot(slot, traits)
            viable &= found
        if masks.roots is not None:
            viable &= masks.roots
        return viable

    def of_slot(self, slot: Slot, among: Mask | None = None) -> Mask:
        """Return, for each row, whether it is a root at which some provider can satisfy a slot.

        Args:
            slot: the slot.
            among: (N,) the providers to consider; None for all.
        """
        own = slot.own if among is None else slot.own & among
        if self._is_flat:
            reached = own.copy()
        else:
            reached = no_rows(self._table)
            reached[self._table.root[own]] = True
        sharing = [row for row in self._sharing_for((slot,)) if among is None or among.item(row)]
        for roots, _ in self._by_roots(sharing):
            reached[roots if slot.shared_with is None else roots[slot.shared_with[roots]]] = True
        return reached

    def has_enough(self, name: str, amount: int, slots: Sequence[Slot]) -> Mask:
        """Return, for each root, whether the slots' possible providers have the amount in total."""
        columns = self._table.resource(name)
        if columns is None:
            return no_rows(self._table)
        # More room than the amount makes no difference, and clipping it keeps the sums from
        # overflowing.
        room = columns.room[self._table.all_rows].clip(0, amount)
        return self._sums(room, slots) >= amount

    def has_as_many(self, slots: Sequence[Slot]) -> Mask:
        """Return, for each root, whether there are at least as many suitable providers as slots."""
        ones = np.ones(len(self._table), dtype=np.int64)
        return self._sums(ones, slots) >= len(slots)

    def is_alone(self, rows: Rows) -> Mask:
        """Return, for each of A roots, whether it is alone; see `Anchors.is_alone`."""
        alone: Mask = self._sizes[rows] == 1
        if self._sharing:
            reached = no_rows(self._table)
            for roots, _ in self._by_roots(self._sharing):
                reached[roots] = True
            alone &= ~reached[rows]
        return alone

    def _sums(self, values: Ints, slots: Sequence[Slot]) -> Ints:
        """Return, for each root, the sum of values of all providers that could satisfy a slot."""
        able = no_rows(self._table)
        for slot in slots:
            able |= slot.own
        rows = np.flatnonzero(able)
        totals = np.bincount(self._table.root[rows], values[rows], minlength=len(self._table))
        sums: Ints = totals.astype(np.int64)
        for roots, sharing in self._by_roots(self._sharing_for(slots)):
            # The anchors of a sharing provider include its own root, whose total already contains
            # the provider if it can satisfy a slot there. It is therefore subtracted there once.
            sums[roots] += values[sharing].sum()
            np.subtract.at(sums, self._table.root[sharing], values[sharing])
        return sums

    def _sharing_for(self, slots: Sequence[Slot]) -> list[int]:
        """Return the sharing providers that could satisfy any of the slots in another tree."""
        return [row for row in self._sharing if any(slot.shared.item(row) for slot in slots)]

    def _by_roots(self, sharing: Iterable[int]) -> Iterable[tuple[Rows, list[int]]]:
        """Return the sharing providers grouped by their anchors, as (anchors, providers) pairs."""
        found: dict[int, tuple[Rows, list[int]]] = {}
        for row in sharing:
            roots = self._anchors[row]
            found.setdefault(id(roots), (roots, []))[1].append(row)
        return found.values()
