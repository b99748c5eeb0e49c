"""The terms of inventories (reserve, units, step, ratio), with equal combinations stored once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.interned import Interned

_FIRST = 4


class AllocationTerms(NamedTuple):
    """The parts of an inventory other than its total; amounts are in the unit of the class.

    `unit_max` is 0 if one allocation may take the whole total, as in most reports of hosts.
    """

    reserved: int = 0
    min_unit: int = 0
    unit_max: int = 0
    step_size: int = 0
    ratio: float = 0.0


_NONE = AllocationTerms()


class InternedTerms:
    """Terms by id; id 0 is for rows without an inventory, with all terms zero.

    A fleet has many totals, but few ratios, reserves and steps.

    Attributes:
        all: the terms of each id; undefined for ids that are not in use.
        reserved, min_unit, unit_max, step_size, ratio: arrays by id.
    """

    def __init__(self) -> None:
        self._interned = Interned(_NONE)
        self.all = [_NONE]
        self.reserved: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        self.min_unit: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        self.unit_max: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        self.step_size: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)
        self.ratio: NDArray[np.float64] = np.zeros(_FIRST, dtype=np.float64)

    def take(self, inventory: Inventory) -> int:
        """Return the id of an inventory's terms, and count one more row that has them."""
        terms = AllocationTerms(
            inventory.reserved,
            inventory.min_unit,
            # A limit that equals the total is stored as 0, because otherwise every distinct total
            # would need terms of its own.
            0 if inventory.max_unit == inventory.total else inventory.max_unit,
            inventory.step_size,
            inventory.allocation_ratio,
        )
        number = self._interned.take(terms)
        if self._interned.row_count(number) == 1:
            self._write(number, terms)
        return number

    def release(self, number: int) -> None:
        """Undo one `take`; id 0 is ignored."""
        if number:
            self._interned.release(number)

    def _write(self, number: int, terms: AllocationTerms) -> None:
        if number >= self.reserved.size:
            for name in AllocationTerms._fields:
                column = getattr(self, name)
                setattr(self, name, np.concatenate((column, np.zeros_like(column))))
        self.all[number : number + 1] = [terms]
        for name, value in zip(AllocationTerms._fields, terms, strict=True):
            getattr(self, name)[number] = value
