"""Inventories and used amounts of providers, by resource class."""

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.class_columns import ClassColumns

_NOTHING: Final[frozenset[str]] = frozenset()


class ProviderStock:
    """The columns of each resource class, which exist while any row has the class.

    Unlike `Stock` it has no holds, and the cost of a change depends on the number of classes of the
    row, not of the table: clients may create any number of classes.
    """

    def __init__(self, rows: int) -> None:
        self.classes: dict[str, ClassColumns] = {}
        self._rows = rows
        self._row_counts: Counter[str] = Counter()
        # By row, the classes that the row uses without an inventory. Few rows have any.
        self._unbacked: dict[int, AbstractSet[str]] = {}

    def resize(self, rows: int) -> None:
        """Grow every column to `rows`."""
        self._rows = rows
        for columns in self.classes.values():
            columns.resize(rows)

    def put(
        self,
        row: int,
        before: Collection[str],
        inventories: Mapping[str, Inventory],
        used: Mapping[str, int],
    ) -> None:
        """Set inventories and used amounts of a row.

        `before` contains the classes of the row's previous inventories.
        """
        self._set_unbacked(row, _NOTHING)
        for name in before:
            if name not in inventories:
                self.classes[name].clear(row)
                self._drop_row(name)
        for name, inventory in inventories.items():
            if name not in before:
                self._add_row(name)
            self.classes[name].put(row, inventory, used.get(name, 0))
        self._put_unbacked(row, inventories, used)

    def put_used(self, row: int, has: Collection[str], used: Mapping[str, int]) -> None:
        """Set the used amounts of a row that has inventories of the classes `has`."""
        for name in has:
            columns, amount = self.classes[name], used.get(name, 0)
            if columns.used.item(row) != amount:
                columns.put_used(row, amount)
        self._put_unbacked(row, has, used)

    def used(self, row: int, has: Collection[str]) -> dict[str, int]:
        """Return the used amounts of a row that has inventories of the classes `has`, by class.

        The result also contains the classes that are in use without an inventory.
        """
        names = (*has, *sorted(self._unbacked.get(row, ())))
        return {name: self.classes[name].used.item(row) for name in names}

    def clear(self, row: int, has: Collection[str]) -> None:
        """Remove everything from a row that has inventories of the classes `has`."""
        self.put(row, has, {}, {})

    def _put_unbacked(self, row: int, has: Collection[str], used: Mapping[str, int]) -> None:
        unbacked = {name for name, amount in used.items() if amount and name not in has}
        if unbacked or self._unbacked:
            self._set_unbacked(row, unbacked)
        for name in unbacked:
            self.classes[name].put_used(row, used[name])

    def _set_unbacked(self, row: int, names: AbstractSet[str]) -> None:
        before = self._unbacked.pop(row, _NOTHING)
        if names:
            self._unbacked[row] = names
        for name in names - before:
            self._add_row(name)
        for name in before - names:
            self.classes[name].clear(row)
            self._drop_row(name)

    def _add_row(self, name: str) -> None:
        self._row_counts[name] += 1
        if name not in self.classes:
            self.classes[name] = ClassColumns(self._rows)

    def _drop_row(self, name: str) -> None:
        self._row_counts[name] -= 1
        if not self._row_counts[name]:
            del self._row_counts[name], self.classes[name]
