"""A hash index of rows by string, with open addressing over two arrays of small integers.

A dict would store a key object, a row object and an entry per row, about two hundred bytes. This
index stores four bytes of hash and about six bytes of slots per row; the strings are stored
elsewhere.
"""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np

_EMPTY: Final = -1
# A removed row leaves a tombstone: an empty slot would end the probe sequences that pass it.
_TOMBSTONE: Final = -2
_HASH_BITS: Final = 32
_HASH_MASK: Final = 2**_HASH_BITS - 1
_FIRST_SLOTS: Final = 16

# Load factor above which probe sequences become long and the index grows.
_LOAD_MAX: Final = 0.75

# Load factor after growing.
_LOAD_AFTER_GROWTH: Final = 0.6


class TextIndex:
    """Finds the row that has a string; no two rows may have the same string.

    Slots hold rows. The home slot of a row is proportional to the hash of its string, and linear
    probing finds the next free slot from there, so the slots are nearly in hash order.
    """

    def __init__(self, has: Callable[[int, str], bool]) -> None:
        """Index strings that are stored elsewhere.

        Args:
            has: returns whether a row has the given string.
        """
        self._has = has
        self._slots = array("i", [_EMPTY]) * _FIRST_SLOTS
        self._hashes = array("I")
        self._used = 0
        self._tombstones = 0

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        return self._used

    def get(self, text: str) -> int | None:
        """Return the row that has the given string, or None if no row has it."""
        slot = self._slot_of(text)
        return None if slot is None else self._slots[slot]

    def add(self, text: str, row: int) -> None:
        """Add a row with its string, which no other row in the index may have."""
        if (self._used + self._tombstones + 1) > _LOAD_MAX * len(self._slots):
            self._rebuild(self._used + 1)
        # Python salts `hash` per process, which is harmless because the index is never stored.
        hashed = hash(text) & _HASH_MASK
        if row >= len(self._hashes):
            self._hashes.extend(array("I", [0]) * (row + 1 - len(self._hashes)))
        self._hashes[row] = hashed
        self._tombstones -= self._insert(row, hashed) == _TOMBSTONE
        self._used += 1

    def remove(self, text: str) -> None:
        """Remove the row that has the given string; an unknown string is ignored."""
        slot = self._slot_of(text)
        if slot is not None:
            self._slots[slot] = _TOMBSTONE
            self._used -= 1
            self._tombstones += 1

    def reserve(self, rows: int) -> None:
        """Grow for a number of rows, so that adding them does not rebuild the index."""
        if rows > _LOAD_AFTER_GROWTH * len(self._slots):
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

    def _insert(self, row: int, hashed: int) -> int:
        """Put a row into the next free slot, and return the slot's former value."""
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
        """Reallocate the slots for a number of rows, and insert all rows in hash order."""
        old = np.frombuffer(self._slots, dtype=np.intc)
        here = old[old >= 0]
        hashes = np.frombuffer(self._hashes, dtype=np.uintc)[here].astype(np.int64)
        size = max(_FIRST_SLOTS, int(rows / _LOAD_AFTER_GROWTH) + 1)
        order = hashes.argsort(kind="stable")
        here, homes = here[order], hashes[order] * size >> _HASH_BITS
        steps = np.arange(here.size)
        # In hash order, each row takes its home slot or the one after its predecessor, whichever is
        # later. A running maximum computes the slots of all rows.
        places = np.maximum.accumulate(homes - steps) + steps if here.size else steps
        fits = places < size
        slots = np.full(size, _EMPTY, dtype=np.intc)
        slots[places[fits]] = here[fits]
        self._slots = array("i", slots.tobytes())
        self._tombstones = 0
        rest: list[int] = here[~fits].tolist()
        for row in rest:  # Rows that do not fit at the end wrap around.
            self._insert(row, self._hashes[row])
