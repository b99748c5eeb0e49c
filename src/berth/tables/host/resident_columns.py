"""The attributes of the instances on hosts, as columns with one entry per instance.

An instance has a slot while it is on a host. Texts that many instances share (project, user, image
and flavor) are interned, and names and metadata are packed bytes, so that an instance with a short
name and little metadata takes less than a hundred bytes (docs/adr/0035-attributes-of-instances.md).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.columnar.column_set import grown
from berth.tables.columnar.interned import Interned
from berth.tables.columnar.texts import Texts

Counts = NDArray[np.float64]
Ids = NDArray[np.int32]

_NAMES: Final = ("project", "user", "image", "flavor")

METADATA: Final = "metadata."
"""The prefix of the names of attributes that are values of metadata: `metadata.KEY`."""

_FIRST_SLOTS: Final = 64
# Full columns grow by 1/16 of their slots.
_GROWTH: Final = 16
_UNUSED: Final = -1

# At most this many instances wait for a slot, so the Python objects of their attributes take little
# memory.
_PENDING_MAX: Final = 1_024

# The instances of up to this many rows are read one by one, which is faster than a scan of the
# columns of all instances.
_FEW_ROWS: Final = 8

# Each key of metadata that a rule reads has a column; beyond this number, the oldest is dropped.
# Keys come from policies, so there are few, but a plugin may take them from requests.
_KEYS_MAX: Final = 16

# The name and the metadata of an instance are one text: the name, and the key and value of each
# item, separated by NUL. If one of these parts contains NUL, the text is NUL and a JSON list of the
# parts. The forms cannot be confused: JSON contains no NUL, so this text splits into two parts, and
# the other form into an odd number of parts.
_SEPARATOR: Final = "\0"
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of an instance that rules may read, in addition to its `Resident`.

    A text is empty if it is unknown, and `launched_at_s` (Unix seconds) is 0 before the first
    launch. On the other side of a move, only the project and the user are known.
    """

    project_id: str = ""
    user_id: str = ""
    image_id: str = ""
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    launched_at_s: float = 0.0


NO_ATTRIBUTES: Final = Attributes()


class TextColumn:
    """A text per slot, stored as the id of an interned text.

    Attributes:
        ids: (S,) int32, the id of the text of each slot; -1 for an unused slot.
    """

    def __init__(self, slots: int) -> None:
        self.ids: Ids = np.full(slots, _UNUSED, dtype=np.int32)
        self._texts = Interned("")

    def find(self, text: str) -> int | None:
        """Return the id of a text, or None if no slot has it."""
        return self._texts.find(text)

    def get(self, slot: int) -> str:
        """Return the text of a slot."""
        return self._texts.all[self.ids.item(slot)] or ""

    def put(self, slot: int, text: str) -> None:
        """Set the text of an unused slot."""
        self.ids[slot] = self._texts.take(text)

    def clear(self, slot: int) -> None:
        """Remove the text of a slot in use."""
        self._texts.release(self.ids.item(slot))
        self.ids[slot] = _UNUSED

    def resize(self, slots: int) -> None:
        """Grow to `slots` slots; new ones are unused."""
        self.ids = _padded(self.ids, slots)


class _Pending(NamedTuple):
    """An instance that has been put and has no slot yet."""

    row: int
    attributes: Attributes
    flavor_id: str
    counts: bool


class ResidentColumns:
    """The attributes of the instances on hosts, by slot; some slots may be unused.

    Arrays have one entry per slot; S is the number of slots. They are replaced when the columns
    grow, so a rule must not keep them between calls. `Occupants` writes the columns.

    An instance gets its slot at the next read, because most policies read no attributes, and most
    of the instances that a decision puts on hosts are removed at its end.
    """

    def __init__(self) -> None:
        self._row: Ids = np.full(_FIRST_SLOTS, _UNUSED, dtype=np.int32)
        self._counts: NDArray[np.bool_] = np.zeros(_FIRST_SLOTS, dtype=np.bool_)
        self._launched_at_s: NDArray[np.float64] = np.zeros(_FIRST_SLOTS, dtype=np.float64)
        self._by_name = {name: TextColumn(_FIRST_SLOTS) for name in _NAMES}
        self._project, self._user, self._image, self._flavor = self._by_name.values()
        self._by_key: dict[str, TextColumn] = {}
        self._texts = Texts(_FIRST_SLOTS)
        self._pending: dict[str, _Pending] = {}
        self._uuids: list[str] = []
        self._unused: list[int] = []
        # The slots of a row are a linked list: `_first` has the first slot of each row, and `_next`
        # the successor of each slot. Rows have few instances, so a search in one is fast.
        self._first: Ids = np.full(_FIRST_SLOTS, _UNUSED, dtype=np.int32)
        self._next: Ids = np.full(_FIRST_SLOTS, _UNUSED, dtype=np.int32)

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self._uuids) - len(self._unused) + len(self._pending)

    # ---- read -------------------------------------------------------------------------------

    @property
    def row(self) -> Ids:
        """(S,) int32, the row of the host; -1 for an unused slot."""
        self._settle()
        return self._row[: len(self._uuids)]

    @property
    def counts(self) -> NDArray[np.bool_]:
        """(S,) bool, True if the slot is in use and its instance is in the counts of its host.

        The other side of a resize on the same host does not count, because the instance itself
        does.
        """
        self._settle()
        return self._counts[: len(self._uuids)]

    @property
    def launched_at_s(self) -> NDArray[np.float64]:
        """(S,) float64, Unix seconds of the first launch; 0 before it."""
        self._settle()
        return self._launched_at_s[: len(self._uuids)]

    def slots(self, row: int) -> list[int]:
        """Return the slots of the instances on a row."""
        self._settle()
        found: list[int] = []
        slot = self._first.item(row) if row < self._first.size else _UNUSED
        while slot != _UNUSED:
            found.append(slot)
            slot = self._next.item(slot)
        return found

    def uuids(self, row: int) -> frozenset[str]:
        """Return the uuids of the instances on a row."""
        return frozenset([self._uuids[slot] for slot in self.slots(row)])

    def uuid(self, slot: int) -> str:
        """Return the uuid of an instance."""
        return self._uuids[slot]

    def name(self, slot: int) -> str:
        """Return the name of an instance."""
        return self._unpacked(slot)[0]

    def metadata(self, slot: int) -> dict[str, str]:
        """Return the metadata of an instance."""
        _, *items = self._unpacked(slot)
        return dict(zip(items[::2], items[1::2], strict=True))

    def attributes(self, row: int, uuid: str) -> Attributes:
        """Return the attributes of an instance on a row as they were put.

        Raises:
            KeyError: the instance is not on the row.
        """
        pending = self._pending.get(uuid)
        if pending is not None:
            return pending.attributes
        slot = self._slot(row, uuid)
        return Attributes(
            project_id=self._project.get(slot),
            user_id=self._user.get(slot),
            image_id=self._image.get(slot),
            name=self.name(slot),
            metadata=self.metadata(slot),
            launched_at_s=self._launched_at_s.item(slot),
        )

    def column(self, name: str) -> TextColumn:
        """Return the column of an attribute: `project`, `user`, `image`, `flavor`, `metadata.KEY`.

        Its `ids` may be longer than the other arrays. A text of `metadata.KEY` begins with `=`; it
        is empty for an instance without the key.

        Raises:
            ValueError: there is no attribute of this name.
        """
        self._settle()
        if name.startswith(METADATA):
            return self._of_key(name.removeprefix(METADATA))
        column = self._by_name.get(name)
        if column is None:
            known = ", ".join((*self._by_name, f"{METADATA}KEY"))
            raise ValueError(f"attribute {name!r} must be one of {known}")
        return column

    def count(self, wanted: Mapping[str, str], rows: Selection) -> Counts:
        """Return, for each row, the number of instances that have all of the wanted values.

        Args:
            wanted: values by attribute: `project`, `user`, `image` and `flavor` by id, and
                `metadata.KEY`; at least one.
            rows: K rows.

        Returns:
            (K,) float64.

        Raises:
            ValueError: there is no attribute of this name.
        """
        asked = self._asked(wanted)
        if asked is None:
            return np.zeros(count_of(rows), dtype=np.float64)
        if not isinstance(rows, slice) and rows.size <= _FEW_ROWS:
            few = (self._count_on(row, asked) for row in rows.tolist())
            return np.fromiter(few, np.float64, rows.size)
        used = len(self._uuids)
        alike = self._counts[:used].copy()
        for ids, number in asked:
            alike &= ids[:used] == number
        size = rows.stop if isinstance(rows, slice) else int(rows.max()) + 1
        tally = np.bincount(self._row[:used][alike], minlength=size).astype(np.float64)
        return tally[: rows.stop] if isinstance(rows, slice) else tally[rows]

    def count_on(self, wanted: Mapping[str, str], row: int) -> int:
        """Return `count` for a single row, as an int."""
        asked = self._asked(wanted)
        return 0 if asked is None else self._count_on(row, asked)

    def has(self, row: int, uuid: str, wanted: Mapping[str, str]) -> bool:
        """Return whether `count` counts an instance, which must be on the row.

        Raises:
            KeyError: the instance is not on the row.
        """
        asked = self._asked(wanted)
        return asked is not None and self._is_alike(self._slot(row, uuid), asked)

    def _asked(self, wanted: Mapping[str, str]) -> list[tuple[Ids, int]] | None:
        """Return ids by slot and the wanted id per attribute; None if a value occurs in no slot."""
        self._settle()
        asked: list[tuple[Ids, int]] = []
        for name, text in wanted.items():
            column = self.column(name)
            number = column.find(_present(text) if name.startswith(METADATA) else text)
            if number is None:
                return None
            asked.append((column.ids, number))
        return asked

    def _count_on(self, row: int, asked: list[tuple[Ids, int]]) -> int:
        return sum([self._is_alike(slot, asked) for slot in self.slots(row)])

    def _is_alike(self, slot: int, asked: list[tuple[Ids, int]]) -> bool:
        for ids, number in asked:
            if ids.item(slot) != number:
                return False
        return self._counts.item(slot)

    def _of_key(self, key: str) -> TextColumn:
        """Return the column of a key of metadata, which the first call fills."""
        column = self._by_key.get(key)
        if column is None:
            if len(self._by_key) >= _KEYS_MAX:
                del self._by_key[next(iter(self._by_key))]
            column = self._by_key[key] = TextColumn(self._row.size)
            for slot in np.flatnonzero(self.row != _UNUSED).tolist():
                column.put(slot, _value_of(self.metadata(slot), key))
        return column

    # ---- write ------------------------------------------------------------------------------

    def put(
        self, row: int, uuid: str, attributes: Attributes, *, flavor_id: str, counts: bool
    ) -> None:
        """Add an instance, which must not be present yet.

        Args:
            row: the row of the host.
            uuid: the instance, or the migration on the other host of a move.
            attributes: its attributes.
            flavor_id: the id of its flavor.
            counts: whether it counts as an instance of the host; see `counts`.
        """
        if len(self._pending) >= _PENDING_MAX:
            self._settle()
        self._pending[uuid] = _Pending(row, attributes, flavor_id, counts)

    def replace(self, row: int, uuid: str, attributes: Attributes) -> None:
        """Replace the attributes of an instance.

        Raises:
            KeyError: the instance is not on the row.
        """
        pending = self._pending.get(uuid)
        if pending is not None:
            self._pending[uuid] = pending._replace(attributes=attributes)
            return
        slot = self._slot(row, uuid)
        self._erase(slot)
        self._write(slot, attributes)

    def remove(self, row: int, uuid: str) -> None:
        """Remove an instance from a row.

        Raises:
            KeyError: the instance is not on the row.
        """
        if self._pending.pop(uuid, None) is not None:
            return
        slot = self._slot(row, uuid)
        self._unlink(row, slot)
        self._erase(slot)
        self._flavor.clear(slot)
        self._row[slot] = _UNUSED
        self._counts[slot] = False
        self._uuids[slot] = ""
        self._unused.append(slot)

    def _settle(self) -> None:
        """Give each pending instance a slot."""
        if not self._pending:
            return
        for uuid, (row, attributes, flavor_id, counts) in self._pending.items():
            slot = self._new_slot(uuid)
            if row >= self._first.size:
                self._first = _padded(self._first, row + row // _GROWTH + _FIRST_SLOTS)
            self._next[slot] = self._first[row]
            self._first[row] = slot
            self._row[slot] = row
            self._counts[slot] = counts
            self._flavor.put(slot, flavor_id)
            self._write(slot, attributes)
        self._pending.clear()

    def _write(self, slot: int, attributes: Attributes) -> None:
        self._project.put(slot, attributes.project_id)
        self._user.put(slot, attributes.user_id)
        self._image.put(slot, attributes.image_id)
        metadata = attributes.metadata
        if attributes.name or metadata:
            self._texts.put(slot, _packed(attributes.name, metadata))
        if attributes.launched_at_s:
            self._launched_at_s[slot] = attributes.launched_at_s
        for key, column in self._by_key.items():
            column.put(slot, _value_of(metadata, key))

    def _erase(self, slot: int) -> None:
        self._project.clear(slot)
        self._user.clear(slot)
        self._image.clear(slot)
        self._texts.clear(slot)
        self._launched_at_s[slot] = 0.0
        for column in self._by_key.values():
            column.clear(slot)

    def _slot(self, row: int, uuid: str) -> int:
        slot = self._first.item(row) if row < self._first.size else _UNUSED
        while slot != _UNUSED:
            if self._uuids[slot] == uuid:
                return slot
            slot = self._next.item(slot)
        raise KeyError(uuid)

    def _unlink(self, row: int, slot: int) -> None:
        after, before = self._next.item(slot), self._first.item(row)
        if before == slot:
            self._first[row] = after
            return
        while (one := self._next.item(before)) != slot:
            before = one
        self._next[before] = after

    def _unpacked(self, slot: int) -> list[str]:
        """Return the name of an instance, then the keys and values of its metadata."""
        text = self._texts.get(slot)
        parts = text.split(_SEPARATOR)
        return parts if len(parts) % 2 else cast("list[str]", json.loads(parts[1]))

    def _new_slot(self, uuid: str) -> int:
        if self._unused:
            slot = self._unused.pop()
            self._uuids[slot] = uuid
            return slot
        slot = len(self._uuids)
        if slot >= self._row.size:
            self._resize(slot + slot // _GROWTH + _FIRST_SLOTS)
        self._uuids.append(uuid)
        return slot

    def _resize(self, slots: int) -> None:
        self._row = _padded(self._row, slots)
        self._next = _padded(self._next, slots)
        self._counts = grown(self._counts, slots)
        self._launched_at_s = grown(self._launched_at_s, slots)
        for column in (*self._by_name.values(), *self._by_key.values()):
            column.resize(slots)
        self._texts.resize(slots)


def _padded(column: Ids, size: int) -> Ids:
    """Return a longer copy of a column; new elements are -1."""
    copy: Ids = np.full(size, _UNUSED, dtype=np.int32)
    copy[: column.size] = column
    return copy


def _packed(name: str, metadata: Mapping[str, str]) -> str:
    """Return a name and metadata as one text; see `_SEPARATOR`."""
    if not metadata and _SEPARATOR not in name:
        return name
    parts = [name, *(text for item in metadata.items() for text in item)]
    text = _SEPARATOR.join(parts)
    is_plain = text.count(_SEPARATOR) == len(parts) - 1
    return text if is_plain else _SEPARATOR + _ENCODE(parts)


def _present(value: str) -> str:
    """Return a value of metadata as its column stores it.

    The mark distinguishes an empty value from a missing one, which is stored as an empty text.
    """
    return f"={value}"


def _value_of(metadata: Mapping[str, str], key: str) -> str:
    value = metadata.get(key)
    return "" if value is None else _present(value)
