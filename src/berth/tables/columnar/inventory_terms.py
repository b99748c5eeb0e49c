"""Terms: what inventories say beyond how much there is, kept once for all that say the same."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.interned import Interned

_FIRST = 4


class AllocationTerms(NamedTuple):
    """How the inventories of some hosts may be asked for; units are those of their class.

    `unit_max` is 0 where one allocation may ask for the whole total, as hosts report it.
    """

    reserved: int = 0
    min_unit: int = 0
    unit_max: int = 0
    step_size: int = 0
    ratio: float = 0.0


_NONE = AllocationTerms()


class InternedTerms:
    """InternedTerms by number; 0 is those of a host that has nothing of the class, all zero.

    A fleet has many totals, but few ratios, reserves and steps.

    Attributes:
        all: the terms of every number; a number that no row has stands for none in particular.
        reserved, min_unit, unit_max, step_size, ratio: each by number, for `take`.
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
        """Return the number of an inventory's terms, which one more row has from now on."""
        terms = AllocationTerms(
            inventory.reserved,
            inventory.min_unit,
            0 if inventory.max_unit == inventory.total else inventory.max_unit,
            inventory.step_size,
            inventory.allocation_ratio,
        )
        number = self._interned.take(terms)
        if self._interned.having(number) == 1:
            self._write(number, terms)
        return number

    def release(self, number: int) -> None:
        """Undo one `take`; number 0 is nobody's."""
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
