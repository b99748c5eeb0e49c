"""An index of rows by text: open addressing over two arrays of small integers.

A dict would keep a key object, a row object and an entry for each row, some two hundred bytes;
this keeps four bytes of hash and about six of slots. The texts stay where the rows have theirs.
"""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

_EMPTY: Final = -1
_GONE: Final = -2
_HASH_BITS: Final = 32
_HASH_MASK: Final = 2**_HASH_BITS - 1
_FIRST_SLOTS: Final = 16
_FULL: Final = 0.75
"""Share of slots in use beyond which look-ups become slow, and the index grows."""

_ROOMY: Final = 0.6
"""Share of slots in use after it has grown."""


class TextIndex:
    """Finds the row that has a text; no two rows have the same.

    Slots hold rows. A text's place is told by its hash; what is in the way moves it on to the
    next free slot, so that slots are in the order of hashes as far as there is room.
    """

    def __init__(self, has: Callable[[int, str], bool]) -> None:
        """Index texts of which `has` tells whether a row, as `add` names them, has one."""
        self._has = has
        self._slots = array("i", [_EMPTY]) * _FIRST_SLOTS
        self._hashes = array("I")
        self._used = 0
        self._gone = 0

    def __len__(self) -> int:
        """Return how many rows are in the index."""
        return self._used

    def get(self, text: str) -> int | None:
        """Return the row that has a text, or None."""
        slot = self._slot_of(text)
        return None if slot is None else self._slots[slot]

    def add(self, text: str, row: int) -> None:
        """Note that a row has a text, which no other row in the index may have."""
        if (self._used + self._gone + 1) > _FULL * len(self._slots):
            self._rebuild(self._used + 1)
        hashed = hash(text) & _HASH_MASK
        if row >= len(self._hashes):
            self._hashes.extend(array("I", [0]) * (row + 1 - len(self._hashes)))
        self._hashes[row] = hashed
        self._gone -= self._settle(row, hashed) == _GONE
        self._used += 1

    def remove(self, text: str) -> None:
        """Forget the row that has a text; none that has it is no error."""
        slot = self._slot_of(text)
        if slot is not None:
            self._slots[slot] = _GONE
            self._used -= 1
            self._gone += 1

    def reserve(self, rows: int) -> None:
        """Make room for so many rows, so that adding them moves nothing."""
        if rows > _ROOMY * len(self._slots):
            self._rebuild(rows)

    def _slot_of(self, text: str) -> int | None:
        slots, hashes = self._slots, self._hashes
        hashed = hash(text) & _HASH_MASK
        at = hashed * len(slots) >> _HASH_BITS
        while True:
            row = slots[at]
            if row == _EMPTY:
                return None
            if row >= 0 and hashes[row] == hashed and self._has(row, text):
                return at
            at += 1
            if at == len(slots):
                at = 0

    def _settle(self, row: int, hashed: int) -> int:
        """Put a row into the next free slot, and return what that held."""
        slots = self._slots
        at = hashed * len(slots) >> _HASH_BITS
        while slots[at] >= 0:
            at += 1
            if at == len(slots):
                at = 0
        before = slots[at]
        slots[at] = row
        return before

    def _rebuild(self, rows: int) -> None:
        """Take slots for so many rows, and put all rows into them, in the order of hashes."""
        old = np.frombuffer(self._slots, dtype=np.intc)
        here = old[old >= 0]
        hashes = np.frombuffer(self._hashes, dtype=np.uintc)[here].astype(np.int64)
        size = max(_FIRST_SLOTS, int(rows / _ROOMY) + 1)
        order = hashes.argsort(kind="stable")
        here, homes = here[order], hashes[order] * size >> _HASH_BITS
        steps = np.arange(here.size)
        places = np.maximum.accumulate(homes - steps) + steps if here.size else steps
        fits = places < size
        slots = np.full(size, _EMPTY, dtype=np.intc)
        slots[places[fits]] = here[fits]
        self._slots = array("i", slots.tobytes())
        self._gone = 0
        rest: list[int] = here[~fits].tolist()
        for row in rest:  # what the end has no room for goes on at the start
            self._settle(row, self._hashes[row])
