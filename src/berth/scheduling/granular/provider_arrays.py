"""The capacities of the roots and children of many rows, as arrays."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from berth.scheduling.granular.tree_request import GroupKind, TreeRequest
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns, Ints
from berth.tables.host.hosts import HostTable


class ProviderArrays:
    """The providers of K rows: their roots, (K,), and their C children, (C,).

    Attributes:
        count: the number of rows, K.
        owners: (C,) for each child, the index of its row.
        unsettled: (K,) bool, True for rows on which a child may have to serve the unsuffixed group
            in a way that affects other groups, which only a search can decide.
        most: by class, (K,), the greatest amount that the unsuffixed group may take from each root;
            only for classes that it has in common with suffixed groups.
        least: like `most`, the least amount. On settled rows without a suitable child, the two are
            equal.
    """

    def __init__(self, hosts: HostTable, request: TreeRequest, rows: Selection) -> None:
        self._hosts = hosts
        self._trees = hosts.trees
        self._rows = rows
        self._slots, self.owners, self.count = hosts.trees.branches(rows)
        self.unsettled = np.zeros(self.count, dtype=np.bool_)
        self.most: dict[str, Ints] = {}
        self.least: dict[str, Ints] = {}
        self._weigh_unsuffixed(request)

    def _weigh_unsuffixed(self, request: TreeRequest) -> None:
        needs = request.needs
        shared = {request.classes[place] for place in request.shared}
        for name in needs.amounts if needs.traits_forbidden else shared:
            amount = needs.amounts[name]
            below = self.any_child(_fits(self._trees.resource(name), amount, self._slots))
            root = _fits(self._hosts.resource(name), amount, self._rows)
            # If the root cannot supply the class and a child can, the choice of the child affects
            # the other groups.
            self.unsettled |= ~root & below
            if name in shared:
                self.most[name] = np.where(root, amount, 0)
                self.least[name] = np.where(root & ~below, amount, 0)
        if self._slots.size:
            for names in (*({name} for name in needs.traits_required), *needs.traits_any):
                self.unsettled |= self._lacks(names)

    def _lacks(self, names: AbstractSet[str]) -> Mask:
        """Return the rows whose root has none of the traits while a child has one."""
        root = self._hosts.traits.has_any(names, self._rows)
        return ~root & self.any_child(self._trees.traits.has_any(names, self._slots))

    # ---- children -----------------------------------------------------------------------------

    def children_fit(self, kind: GroupKind) -> Mask:
        """Return, for each child, whether it could serve one group of a kind."""
        group = kind.group
        fits = np.ones(self._slots.size, dtype=np.bool_)
        for name, amount in group.amounts.items():
            fits &= _fits(self._trees.resource(name), amount, self._slots)
        for name in group.traits_required:
            fits &= self._trees.traits.has(name, self._slots)
        for name in group.traits_forbidden:
            fits &= ~self._trees.traits.has(name, self._slots)
        return fits

    def child_room(self, name: str) -> Ints:
        """Return, for each child, the largest amount of a class that one allocation can take."""
        return _of(self._trees.resource(name), "room", self._slots)

    def child_free(self, name: str) -> Ints:
        """Return the free amount of a class on each child: (C,); may be negative."""
        return _of(self._trees.resource(name), "free", self._slots)

    def any_child(self, children: Mask) -> Mask:
        """Return, for each row, whether it has any of the given children."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.owners[children]] = True
        return found

    def count_children(self, children: Mask) -> Ints:
        """Return, for each row, the number of its children among the given ones."""
        return np.bincount(self.owners[children], minlength=self.count)

    def sum_children(self, values: Ints) -> Ints:
        """Return, for each row, the sum of the values of its children."""
        sums = np.bincount(self.owners, weights=values, minlength=self.count)
        return sums.astype(np.int64)

    # ---- roots --------------------------------------------------------------------------------

    def roots_fit(self, kind: GroupKind, taken: Mapping[str, Ints]) -> Mask:
        """Return, for each root, whether it could serve a group of a kind besides `taken`."""
        group = kind.group
        fits = np.ones(self.count, dtype=np.bool_)
        for name, amount in group.amounts.items():
            fits &= _fits(self._hosts.resource(name), amount, self._rows)
            if name in taken:
                fits &= self.root_room(name, taken) >= amount
        for name in group.traits_required:
            fits &= self._hosts.traits.has(name, self._rows)
        for name in group.traits_forbidden:
            fits &= ~self._hosts.traits.has(name, self._rows)
        return fits

    def root_room(self, name: str, taken: Mapping[str, Ints]) -> Ints:
        """Return, for each root, the largest amount that one allocation can take after `taken`."""
        room = _of(self._hosts.resource(name), "room", self._rows)
        return room - taken[name] if name in taken else room

    def root_free(self, name: str, taken: Mapping[str, Ints]) -> Ints:
        """Return the free amount of a class on each root, less `taken`: (K,); may be negative."""
        free = _of(self._hosts.resource(name), "free", self._rows)
        return free - taken[name] if name in taken else free


def asked_of(name: str, kinds: Sequence[GroupKind]) -> int:
    """Return the total demand of groups of these kinds for a class."""
    return sum(kind.count * kind.group.amounts.get(name, 0) for kind in kinds)


def _fits(columns: ClassColumns | None, amount: int, rows: Selection) -> Mask:
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.bool_)
    return columns.fits(amount, rows)


def _of(columns: ClassColumns | None, quantity: str, rows: Selection) -> Ints:
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.int64)
    values: Ints = getattr(columns, quantity)[rows]
    return values
