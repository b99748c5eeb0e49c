"""Greedy packing: the first arrangement that the search would try, computed for many rows together.

Groups that may share providers usually fit if each in turn goes to the provider with the smallest
remainder. The search tries this arrangement first, so it also succeeds on every row on which
packing succeeds.
"""

import numpy as np

from berth.scheduling.granular.provider_arrays import ProviderArrays
from berth.scheduling.granular.tree_request import GroupKind, TreeRequest
from berth.scheduling.rules.rule import Scores
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import Ints


def packs(request: TreeRequest, providers: ProviderArrays) -> Mask:
    """Return, for each row, whether all groups fit if each in turn takes the best provider left.

    The result is valid only for settled rows and for groups that may share providers.
    """
    return _Packing(request, providers).run()


class _Packing:
    """The remaining capacity of every provider; the providers of each row are adjacent."""

    def __init__(self, request: TreeRequest, providers: ProviderArrays) -> None:
        self._request = request
        self._providers = providers
        count = providers.count
        owners = np.concatenate((np.arange(count), providers.owners))
        # A stable sort keeps the root before the children of its row, as in the search.
        self._order: Rows = owners.argsort(kind="stable")
        self._owners: Rows = owners[self._order]
        self._starts: Rows = np.searchsorted(self._owners, np.arange(count))
        self._room = {name: self._read(name, "room") for name in request.classes}
        self._free = {name: self._read(name, "free") for name in request.classes}

    def run(self) -> Mask:
        """Place the groups one after another; return the rows on which all of them fit."""
        packed = np.ones(self._providers.count, dtype=np.bool_)
        if not packed.size:
            return packed
        for kind in self._request.kinds:
            able = self._join(
                self._providers.roots_fit(kind, {}), self._providers.children_fit(kind)
            )
            for _ in kind.suffixes:
                packed &= self._place(kind, able)
        return packed

    def _place(self, kind: GroupKind, able: Mask) -> Mask:
        """Place one group on every row; return the rows on which it fits."""
        amounts = kind.group.amounts
        remainder: Scores = np.zeros(able.size, dtype=np.float64)
        for place, amount in kind.wants:
            name = self._request.classes[place]
            able = able & (self._room[name] >= amount)
            remainder += self._free[name] / amount
        remainder[~able] = np.inf
        least = np.minimum.reduceat(remainder, self._starts)
        # Among equal remainders, the first provider of the row is chosen, as in the search.
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
