"""What each host has of one resource class, as columns."""

import numpy as np
from numpy.typing import NDArray

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.columnar.column_set import ColumnSet
from berth.tables.columnar.derived import DerivedFloats, DerivedInts, RowIndex
from berth.tables.columnar.inventory_terms import InternedTerms
from berth.tables.columnar.schema import CLASS_COLUMNS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SmallFloats = NDArray[np.float32]
SmallInts = NDArray[np.int32]


class ClassColumns(ColumnSet):
    """What each host has of one resource class (see `schema.CLASS_COLUMNS`).

    The capacity that ratios and reserves make is worked out once, and what changes with every
    claim is kept; what an inventory says beyond its total is kept once for all that say the same,
    by `terms`, and the rest is worked out when it is read.
    """

    total: Ints
    used: Ints
    capacity: Ints
    room: Ints
    terms: SmallInts

    def __init__(self, rows: int) -> None:
        super().__init__(CLASS_COLUMNS, rows)
        self.stepped: set[int] = set()
        """Rows whose min_unit or step_size is not 1; most fleets have none."""
        terms = self._terms = InternedTerms()
        self.reserved = DerivedInts(lambda at: terms.reserved.take(self.terms[at]))
        self.min_unit = DerivedInts(lambda at: terms.min_unit.take(self.terms[at]))
        self.step_size = DerivedInts(lambda at: terms.step_size.take(self.terms[at]))
        self.ratio = DerivedFloats(lambda at: terms.ratio.take(self.terms[at]))
        self.unit_max = DerivedInts(self._unit_max)
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
        """Set a row to an inventory of which that amount is used."""
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
        """Set what is used of a row, and what there is room for."""
        room = self.capacity.item(row) - amount
        unit_max = self._terms.all[self.terms.item(row)].unit_max or self.total.item(row)
        if room > unit_max:  # noqa: PLR1730 - calling `min` takes a quarter of the time
            room = unit_max
        self.used[row] = amount
        self.room[row] = room

    def inventory(self, row: int) -> Inventory:
        """Return the inventory of a row; `max_unit` is filled in."""
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
        """Set a row to having nothing of this class."""
        self._terms.release(self.terms.item(row))
        super().clear(row)
        self.stepped.discard(row)

    def fits(self, amount: int, rows: Selection) -> Mask:
        """Tell for each of the rows whether one allocation of `amount` may be made.

        Args:
            amount: in the unit of the class, at least 1.
            rows: rows to look at.
        """
        fits: Mask = self.room[rows] >= amount
        if self.stepped:
            # A class that a row does not have has step 0, and no room either.
            step = np.maximum(self.step_size[rows], 1)
            fits &= (amount >= self.min_unit[rows]) & (amount % step == 0)
        return fits

    def taken(self, at: RowIndex) -> Ints:
        """Return what is reserved or used of rows."""
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
        most: Ints = np.where(asked > 0, asked, self.total[at])[()]
        return most
