"""Packing: the first way that the search would try, for many rows at once.

Where groups of different kinds may share providers, giving each in turn to the provider that it
leaves with the least mostly works out. It is the very first thing that the search does, so where
it works out here the search finds it too.
"""

import numpy as np

from berth.scheduling.granular.provider_arrays import ProviderArrays
from berth.scheduling.granular.tree_request import GroupKind, TreeRequest
from berth.scheduling.rules.rule import Scores
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import Ints


def packs(ask: TreeRequest, providers: ProviderArrays) -> Mask:
    """Tell which rows have room for all groups when each takes the best fit in turn.

    Only for rows that are settled, and for groups that may share providers.
    """
    return _Packing(ask, providers).run()


class _Packing:
    """What every provider has left, roots and children of a row side by side."""

    def __init__(self, ask: TreeRequest, providers: ProviderArrays) -> None:
        self._ask = ask
        self._providers = providers
        count = providers.count
        owners = np.concatenate((np.arange(count), providers.owners))
        self._order: Rows = owners.argsort(kind="stable")
        self._owners: Rows = owners[self._order]
        self._starts: Rows = np.searchsorted(self._owners, np.arange(count))
        self._room = {name: self._read(name, "room") for name in ask.classes}
        self._free = {name: self._read(name, "free") for name in ask.classes}

    def run(self) -> Mask:
        """Place group after group."""
        packed = np.ones(self._providers.count, dtype=np.bool_)
        if not packed.size:
            return packed
        for kind in self._ask.kinds:
            able = self._join(
                self._providers.roots_fit(kind, {}), self._providers.children_fit(kind)
            )
            for _ in kind.suffixes:
                packed &= self._place(kind, able)
        return packed

    def _place(self, kind: GroupKind, able: Mask) -> Mask:
        """Place one group on every row; tell where that was possible."""
        amounts = kind.group.amounts
        remainder: Scores = np.zeros(able.size, dtype=np.float64)
        for place, amount in kind.wants:
            name = self._ask.classes[place]
            able = able & (self._room[name] >= amount)
            remainder += self._free[name] / amount
        remainder[~able] = np.inf
        least = np.minimum.reduceat(remainder, self._starts)
        best = np.flatnonzero(able & (remainder == least[self._owners]))
        owners, first = np.unique(self._owners[best], return_index=True)
        chosen = best[first]
        for name, amount in amounts.items():
            self._room[name][chosen] -= amount
            self._free[name][chosen] -= amount
        placed = np.zeros(self._providers.count, dtype=np.bool_)
        placed[owners] = True
        return placed

    def _read(self, name: str, quantity: str) -> Ints:
        providers = self._providers
        if quantity == "room":
            on_root = providers.root_room(name, providers.most)
            below = providers.child_room(name)
        else:
            on_root = providers.root_free(name, providers.most)
            below = providers.child_free(name)
        return np.concatenate((on_root, below))[self._order]

    def _join(self, roots: Mask, children: Mask) -> Mask:
        joined: Mask = np.concatenate((roots, children))[self._order]
        return joined
