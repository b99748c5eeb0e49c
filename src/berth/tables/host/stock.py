"""Inventories, used amounts and holds of every row, by resource class."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.class_columns import ClassColumns

_NOTHING: Final[Mapping[str, int]] = {}

UsageSavepoint: TypeAlias = list[tuple[ClassColumns, int, int]]
"""The used amount and the room of a row in the columns of each class, before `Stock.try_use`."""


class Stock:
    """The columns of each resource class; a class gets columns with the first row that has it.

    Except after `try_use`, `used` in the columns is the ledger's amount plus the row's hold. The
    hold is also stored separately, so that it can be added to a new amount from the ledger.
    """

    def __init__(self, rows: int) -> None:
        self.classes: dict[str, ClassColumns] = {}
        self._rows = rows
        self._held: dict[int, dict[str, int]] = {}

    def resize(self, rows: int) -> None:
        """Grow every column to `rows`."""
        self._rows = rows
        for columns in self.classes.values():
            columns.resize(rows)

    def used(self, row: int) -> dict[str, int]:
        """Return the used amounts of a row by class, including holds and without zeros."""
        used = {name: columns.used.item(row) for name, columns in self.classes.items()}
        return {name: amount for name, amount in used.items() if amount}

    def inventories(self, row: int) -> dict[str, Inventory]:
        """Return the inventories of a row by class; a `max_unit` of 0 is replaced by the total."""
        classes = self.classes.items()
        return {name: columns.inventory(row) for name, columns in classes if columns.terms[row]}

    def put(self, row: int, inventories: Mapping[str, Inventory], used: Mapping[str, int]) -> None:
        """Set the inventories of a row, and the amounts that the ledger reports as used."""
        self._add_classes(inventories)
        self._add_classes(used)
        held = self._held.get(row, {})
        for name, columns in self.classes.items():
            amount = used.get(name, 0) + held.get(name, 0)
            inventory = inventories.get(name)
            if inventory is not None:
                columns.put(row, inventory, amount)
                continue
            # The ledger or a hold may have amounts of a class without an inventory. They are kept,
            # because the inventory may follow.
            columns.clear(row)
            if amount:
                columns.put_used(row, amount)

    def put_used(self, row: int, used: Mapping[str, int]) -> bool:
        """Set the amounts that the ledger reports as used; return whether any column changed."""
        self._add_classes(used)
        held = self._held.get(row, {})
        changed = False
        for name, columns in self.classes.items():
            amount = used.get(name, 0) + held.get(name, 0)
            if columns.used.item(row) != amount:
                columns.put_used(row, amount)
                changed = True
        return changed

    def put_used_of(self, used_by_row: Mapping[int, Mapping[str, int]]) -> list[int]:
        """Do the same as `put_used` for several rows; return the rows in which a column changed."""
        rows = np.array([*used_by_row], dtype=np.intp)
        each = [*used_by_row.values()]
        self._add_classes(dict.fromkeys(name for used in each for name in used))
        held = [self._held.get(row, _NOTHING) for row in used_by_row]
        pairs = [*zip(each, held, strict=True)]
        changed = np.zeros(len(rows), dtype=np.bool_)
        for name, columns in self.classes.items():
            amounts = [used.get(name, 0) + more.get(name, 0) for used, more in pairs]
            changed |= columns.put_used_of(rows, np.array(amounts, dtype=np.int64))
        found: list[int] = rows[changed].tolist()
        return found

    def clear(self, row: int) -> None:
        """Remove the inventories, the usage and the hold of a row."""
        self._held.pop(row, None)
        for columns in self.classes.values():
            columns.clear(row)

    def held(self, row: int) -> dict[str, int]:
        """Return the amounts that are on hold on a row, by class."""
        return dict(self._held.get(row, {}))

    @property
    def held_by_row(self) -> Mapping[int, Mapping[str, int]]:
        """The amounts on hold by row and class; rows without a hold are missing."""
        return self._held

    def hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Count amounts as used in addition to those that the ledger reports."""
        held = self._held.get(row)
        if held is None:
            held = self._held[row] = {}
        for name, amount in amounts.items():
            left = held.get(name, 0) + amount
            if left:
                held[name] = left
            else:
                held.pop(name, None)
            columns = self.classes.get(name)
            if columns is not None:
                columns.put_used(row, columns.used.item(row) + amount)
        if not held:
            del self._held[row]

    def release_hold(self, row: int, amounts: Mapping[str, int] | None = None) -> None:
        """Undo one `hold`, or release the whole hold of a row if `amounts` is None.

        Amounts that are not on hold are ignored, so a late or repeated release frees nothing that
        others use.
        """
        held = self._held.get(row)
        if held is None:
            return
        wanted = dict(held) if amounts is None else amounts
        self.hold(row, {n: -min(a, held.get(n, 0)) for n, a in wanted.items()})

    def try_use(self, row: int, amounts: Mapping[str, int]) -> UsageSavepoint:
        """Count amounts as used for one decision, and return the savepoint for `restore_used`.

        This is faster than `hold`, because the amounts are not stored by row.
        """
        loan: UsageSavepoint = []
        for name, amount in amounts.items():
            columns = self.classes.get(name)
            if columns is not None:
                used, room = columns.used.item(row), columns.room.item(row)
                loan.append((columns, used, room))
                columns.put_used(row, used + amount)
        return loan

    def restore_used(self, row: int, loan: UsageSavepoint) -> None:
        """Undo the last `try_use` of a row; nothing else may have changed the row since."""
        for columns, used, room in loan:
            columns.used[row] = used
            columns.room[row] = room

    def confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """End a hold without changing the used amounts, which the ledger counts from now on."""
        held = self._held.get(row, {})
        for name, amount in amounts.items():
            left = held.pop(name, 0) - amount
            if left > 0:
                held[name] = left
        if not held:
            self._held.pop(row, None)

    def undo_confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Subtract amounts of a `confirm_hold` that the ledger turned out not to count."""
        for name, amount in amounts.items():
            columns = self.classes.get(name)
            if columns is not None:
                columns.put_used(row, columns.used.item(row) - amount)

    def _add_classes(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.classes:
                columns = self.classes[name] = ClassColumns(self._rows)
                # A hold may be older than the first inventory of its class.
                for row, held in self._held.items():
                    columns.put_used(row, held.get(name, 0))
