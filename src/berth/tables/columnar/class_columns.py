"""The columns of one resource class: the inventory and the usage of each row."""

import numpy as np
from numpy.typing import NDArray

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.column_set import ColumnSet
from berth.tables.columnar.derived import DerivedFloats, DerivedInts, RowIndex
from berth.tables.columnar.inventory_terms import InternedTerms
from berth.tables.columnar.schema import CLASS_COLUMNS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SmallFloats = NDArray[np.float32]
SmallInts = NDArray[np.int32]


class ClassColumns(ColumnSet):
    """Inventory and usage of one resource class for all rows (see `schema.CLASS_COLUMNS`).

    `total`, `used`, `capacity` and `room` are arrays, because rules read them for every decision.
    The rest of an inventory (ratio, reserve, units, step) has few distinct values in a fleet: each
    distinct combination is stored once, `terms` contains its id for each row, and the corresponding
    columns are derived.
    """

    total: Ints
    used: Ints
    capacity: Ints
    room: Ints
    terms: SmallInts

    def __init__(self, rows: int) -> None:
        super().__init__(CLASS_COLUMNS, rows)
        # Rows whose min_unit or step_size is above 1. Most fleets have none, and `fits` then skips
        # two comparisons per row.
        self.stepped: set[int] = set()
        terms = self._terms = InternedTerms()
        self.reserved = DerivedInts(lambda at: terms.reserved.take(self.terms[at]))
        self.min_unit = DerivedInts(lambda at: terms.min_unit.take(self.terms[at]))
        self.step_size = DerivedInts(lambda at: terms.step_size.take(self.terms[at]))
        self.ratio = DerivedFloats(lambda at: terms.ratio.take(self.terms[at]))
        self.unit_max = DerivedInts(self._unit_max)
        # The one-row forms avoid NumPy, whose cost per call exceeds that of the arithmetic.
        self.free = DerivedInts(
            lambda at: self.capacity[at] - self.used[at],
            lambda row: self.capacity.item(row) - self.used.item(row),
        )
        self.physical_free = DerivedInts(
            lambda at: self.total[at] - self.taken(at),
            self._physical_free_of,
        )
        self.ratio_free = DerivedFloats(
            lambda at: self.total[at] * self.ratio[at] - self.taken(at),
            self._ratio_free_of,
        )

    def put(self, row: int, inventory: Inventory, amount: int = 0) -> None:
        """Set the inventory of a row, and the amount of it that is used."""
        self._terms.release(self.terms.item(row))
        self.terms[row] = self._terms.take(inventory)
        self.total[row] = inventory.total
        self.capacity[row] = inventory.capacity
        self.put_used(row, amount)
        if inventory.min_unit > 1 or inventory.step_size > 1:
            self.stepped.add(row)
        else:
            self.stepped.discard(row)

    def put_used(self, row: int, amount: int) -> None:
        """Set the used amount of a row, and update the room for one more allocation."""
        room = self.capacity.item(row) - amount
        unit_max = self._terms.all[self.terms.item(row)].unit_max or self.total.item(row)
        if room > unit_max:  # noqa: PLR1730 - calling `min` takes a quarter of the time
            room = unit_max
        self.used[row] = amount
        self.room[row] = room

    def put_used_of(self, rows: Rows, amounts: Ints) -> Mask:
        """Set the used amounts of several rows, and return which of them changed.

        Args:
            rows: (K,) distinct rows.
            amounts: (K,) the used amounts, in the unit of the class.

        Returns:
            (K,) bool.
        """
        changed: Mask = self.used[rows] != amounts
        rows, amounts = rows[changed], amounts[changed]
        self.used[rows] = amounts
        self.room[rows] = np.minimum(self.capacity[rows] - amounts, self.unit_max[rows])
        return changed

    def inventory(self, row: int) -> Inventory:
        """Return the inventory of a row; a `max_unit` of 0 is replaced by the total."""
        terms = self._terms.all[self.terms.item(row)]
        return Inventory(
            total=self.total.item(row),
            reserved=terms.reserved,
            min_unit=terms.min_unit,
            max_unit=self.unit_max.item(row),
            step_size=terms.step_size,
            allocation_ratio=terms.ratio,
        )

    def clear(self, row: int) -> None:
        """Remove the inventory and the usage of a row."""
        self._terms.release(self.terms.item(row))
        super().clear(row)
        self.stepped.discard(row)

    def fits(self, amount: int, rows: Selection) -> Mask:
        """Return, for each row, whether one allocation of `amount` fits.

        Args:
            amount: in the unit of the class, at least 1.
            rows: rows to test.
        """
        fits: Mask = self.room[rows] >= amount
        if self.stepped:
            # A row without an inventory has no room, and its step of 0 cannot be a divisor.
            step = np.maximum(self.step_size[rows], 1)
            fits &= (amount >= self.min_unit[rows]) & (amount % step == 0)
        return fits

    def taken(self, at: RowIndex) -> Ints:
        """Return the sums of the reserved and used amounts of K rows: (K,), in the class's unit."""
        taken: Ints = self.reserved[at] + self.used[at]
        return taken

    def _physical_free_of(self, row: int) -> int:
        reserved = self._terms.all[self.terms.item(row)].reserved
        return self.total.item(row) - (reserved + self.used.item(row))

    def _ratio_free_of(self, row: int) -> float:
        terms = self._terms.all[self.terms.item(row)]
        taken = terms.reserved + self.used.item(row)
        return self.total.item(row) * terms.ratio - taken

    def _unit_max(self, at: RowIndex) -> Ints:
        asked = self._terms.unit_max.take(self.terms[at])
        # For a single row `where` returns an array without dimensions, which `[()]` makes a scalar,
        # like the value of any other column for a single row.
        most: Ints = np.where(asked > 0, asked, self.total[at])[()]
        return most
