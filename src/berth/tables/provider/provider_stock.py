"""Provider stock: what every provider has of each resource class, and what of it is used."""

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.class_columns import ClassColumns

_NOTHING: Final[frozenset[str]] = frozenset()


class ProviderStock:
    """Columns by resource class, for as long as any row has something of the class.

    Unlike `Stock` it holds nothing on top of what the ledger says, and what it does to a row
    costs as much as the row has classes, however many there are in all.
    """

    def __init__(self, rows: int) -> None:
        self.classes: dict[str, ClassColumns] = {}
        self._rows = rows
        self._having: Counter[str] = Counter()
        self._beyond: dict[int, AbstractSet[str]] = {}
        """Classes that are used of a row which has no inventory of them; hardly any row."""

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
        """Set a row, which had inventories of the classes `before`, to others."""
        self._set_beyond(row, _NOTHING)
        for name in before:
            if name not in inventories:
                self.classes[name].clear(row)
                self._leave(name)
        for name, inventory in inventories.items():
            if name not in before:
                self._come(name)
            self.classes[name].put(row, inventory, used.get(name, 0))
        self._put_beyond(row, inventories, used)

    def put_used(self, row: int, has: Collection[str], used: Mapping[str, int]) -> None:
        """Set what is used of a row, which has inventories of the classes `has`."""
        for name in has:
            columns, amount = self.classes[name], used.get(name, 0)
            if columns.used.item(row) != amount:
                columns.put_used(row, amount)
        self._put_beyond(row, has, used)

    def used(self, row: int, has: Collection[str]) -> dict[str, int]:
        """Return what is used of a row by class: of all that it has, and of what is used beyond."""
        names = (*has, *sorted(self._beyond.get(row, ())))
        return {name: self.classes[name].used.item(row) for name in names}

    def clear(self, row: int, has: Collection[str]) -> None:
        """Set a row, which has inventories of the classes `has`, to having nothing."""
        self.put(row, has, {}, {})

    def _put_beyond(self, row: int, has: Collection[str], used: Mapping[str, int]) -> None:
        beyond = {name for name, amount in used.items() if amount and name not in has}
        if beyond or self._beyond:
            self._set_beyond(row, beyond)
        for name in beyond:
            self.classes[name].put_used(row, used[name])

    def _set_beyond(self, row: int, names: AbstractSet[str]) -> None:
        before = self._beyond.pop(row, _NOTHING)
        if names:
            self._beyond[row] = names
        for name in names - before:
            self._come(name)
        for name in before - names:
            self.classes[name].clear(row)
            self._leave(name)

    def _come(self, name: str) -> None:
        self._having[name] += 1
        if name not in self.classes:
            self.classes[name] = ClassColumns(self._rows)

    def _leave(self, name: str) -> None:
        self._having[name] -= 1
        if not self._having[name]:
            del self._having[name], self.classes[name]
