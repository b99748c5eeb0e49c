"""Stock: what every host has of each resource class, what is used of it, and what is held."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.class_columns import ClassColumns

UsageSavepoint: TypeAlias = list[tuple[ClassColumns, int, int]]
"""What was used of a row, and the room that it had, by class."""


class Stock:
    """Columns by resource class; a class gets its own when the first host has it.

    What is held counts as used on top of what the ledger says.
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
        """Return what is used of a row by class, held amounts too, zeros left out."""
        used = {name: columns.used.item(row) for name, columns in self.classes.items()}
        return {name: amount for name, amount in used.items() if amount}

    def inventories(self, row: int) -> dict[str, Inventory]:
        """Return the inventories of a row; `max_unit` is filled in."""
        classes = self.classes.items()
        return {name: columns.inventory(row) for name, columns in classes if columns.terms[row]}

    def put(self, row: int, inventories: Mapping[str, Inventory], used: Mapping[str, int]) -> None:
        """Set a row to inventories, of which the ledger says that so much is used."""
        self._add_classes(inventories)
        self._add_classes(used)
        held = self._held.get(row, {})
        for name, columns in self.classes.items():
            amount = used.get(name, 0) + held.get(name, 0)
            inventory = inventories.get(name)
            if inventory is not None:
                columns.put(row, inventory, amount)
                continue
            columns.clear(row)
            if amount:
                columns.put_used(row, amount)

    def put_used(self, row: int, used: Mapping[str, int]) -> bool:
        """Set what the ledger says is used of a row, by class; tell whether that changed any."""
        self._add_classes(used)
        held = self._held.get(row, {})
        changed = False
        for name, columns in self.classes.items():
            amount = used.get(name, 0) + held.get(name, 0)
            if columns.used.item(row) != amount:
                columns.put_used(row, amount)
                changed = True
        return changed

    def clear(self, row: int) -> None:
        """Set a row to having nothing, with nothing held."""
        self._held.pop(row, None)
        for columns in self.classes.values():
            columns.clear(row)

    def held(self, row: int) -> dict[str, int]:
        """Return what is held of a row by class."""
        return dict(self._held.get(row, {}))

    def hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Count amounts as used on top of what the ledger says."""
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
        """Undo `hold`; None is all. What is not held there any more is left alone."""
        held = self._held.get(row)
        if held is None:
            return
        wanted = dict(held) if amounts is None else amounts
        self.hold(row, {n: -min(a, held.get(n, 0)) for n, a in wanted.items()})

    def try_use(self, row: int, amounts: Mapping[str, int]) -> UsageSavepoint:
        """Use more of a row for a moment, faster than `hold` does; `restore_used` undoes it."""
        loan: UsageSavepoint = []
        for name, amount in amounts.items():
            columns = self.classes.get(name)
            if columns is not None:
                used, room = columns.used.item(row), columns.room.item(row)
                loan.append((columns, used, room))
                columns.put_used(row, used + amount)
        return loan

    def restore_used(self, row: int, loan: UsageSavepoint) -> None:
        """Undo the last `try_use` of a row; nothing else may have changed it since."""
        for columns, used, room in loan:
            columns.used[row] = used
            columns.room[row] = room

    def confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """End a hold whose amounts the ledger counts from now on: what is used stays."""
        held = self._held.get(row, {})
        for name, amount in amounts.items():
            left = held.pop(name, 0) - amount
            if left > 0:
                held[name] = left
        if not held:
            self._held.pop(row, None)

    def undo_confirm_hold(self, row: int, amounts: Mapping[str, int]) -> None:
        """Use less of a row: the ledger does not count what was handed over to it."""
        for name, amount in amounts.items():
            columns = self.classes.get(name)
            if columns is not None:
                columns.put_used(row, columns.used.item(row) - amount)

    def _add_classes(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.classes:
                columns = self.classes[name] = ClassColumns(self._rows)
                for row, held in self._held.items():
                    columns.put_used(row, held.get(name, 0))
