"""The child providers of hosts: GPUs, NUMA cells, network cards.

Each child provider of a host in the table has a *slot*, as a host has a row: its inventories and
traits are in columns by slot. The change feed may deliver a child before its parent or its host,
and a host may be removed while its children stay. Such children have no slot until a chain of
parents leads to a host of the table.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import add_amounts
from berth.tables.columnar.bitsets import Bitset, Rows, Selection
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.columnar.journal import Journal
from berth.tables.host.stock import Stock

_FIRST_SLOTS = 64
_NO_SLOTS: Rows = np.empty(0, dtype=np.intp)


class Branches(NamedTuple):
    """The child providers of the selected rows, grouped by row.

    `slots` is (C,). `owners` is (C,), the index of each slot's row in the selection. `rows` is the
    number of selected rows.
    """

    slots: Rows
    owners: Rows
    rows: int


class Trees:
    """Child providers by slot, updated by the events of the feed in any order.

    Args:
        journal: receives the rows whose children change.
        row_of: returns the row of a host by its uuid; None for an unknown host.

    Attributes:
        traits: the set of traits of each slot.
    """

    def __init__(self, journal: Journal, row_of: Callable[[str], int | None]) -> None:
        self.traits = Bitset()
        self.traits.resize(_FIRST_SLOTS)
        self._journal = journal
        self._row_of = row_of
        self._stock = Stock(_FIRST_SLOTS)
        self._size = _FIRST_SLOTS
        self._known: dict[str, Provider] = {}
        self._below: dict[str, set[str]] = {}
        self._slot_of: dict[str, int] = {}
        self._uuids: list[str] = []
        self._rows: list[int] = []
        self._unused: list[int] = []
        self._on_row: dict[int, list[int]] = {}
        self._pending_holds: dict[str, dict[str, int]] = {}
        self._arrays: dict[int, Rows] = {}
        self._all_slots: tuple[Rows, Rows] | None = None

    def __len__(self) -> int:
        """Return the number of child providers of hosts in the table."""
        return len(self._slot_of)

    # ---- look-ups -----------------------------------------------------------------------

    def resource(self, name: str) -> ClassColumns | None:
        """Return the columns of a resource class by slot, or None if no child ever had it."""
        return self._stock.classes.get(name)

    @property
    def resource_classes(self) -> tuple[str, ...]:
        """The names of all classes that any child has had."""
        return tuple(self._stock.classes)

    def on_row(self, row: int) -> tuple[int, ...]:
        """Return the slots of the children of a row, ordered by (name, uuid)."""
        return tuple(self._on_row.get(row, ()))

    def uuids_on(self, row: int) -> tuple[str, ...]:
        """Return the uuids of the children of a row, in the order of their slots in `on_row`."""
        return tuple(self._uuids[slot] for slot in self._on_row.get(row, ()))

    def provider(self, slot: int) -> Provider:
        """Return the provider in a slot, as the ledger reports it."""
        return self._known[self._uuids[slot]]

    @property
    def held_by_slot(self) -> Mapping[int, Mapping[str, int]]:
        """The amounts on hold by slot and class; slots without a hold are missing."""
        return self._stock.held_by_row

    def used(self, slot: int) -> dict[str, int]:
        """Return the used amounts of a slot by class, including holds and without zeros."""
        return self._stock.used(slot)

    def branches(self, rows: Selection) -> Branches:
        """Return the child providers of the given rows, grouped by row."""
        if isinstance(rows, slice):
            # Every full evaluation selects all rows, so the arrays of this selection are cached
            # until a child is added, removed or reordered.
            if self._all_slots is None:
                here = np.array(sorted(self._on_row), dtype=np.intp)
                below = self.branches(here)
                self._all_slots = below.slots, here[below.owners]
            return Branches(*self._all_slots, rows.stop)
        found = [self._slots_on(row) for row in rows.tolist()]
        if not found:
            return Branches(_NO_SLOTS, _NO_SLOTS, 0)
        owners = np.repeat(np.arange(len(found)), [slots.size for slots in found])
        return Branches(np.concatenate(found), owners, len(found))

    # ---- write: events of the ledger --------------------------------------------------------

    def put(self, provider: Provider) -> None:
        """Add or replace a child provider; its parent or host may follow later."""
        uuid = provider.uuid
        old = self._known.get(uuid)
        # The whole subtree moves to the new parent, so it must lose its slots first.
        if old is not None and old.parent_uuid != provider.parent_uuid:
            self.remove(uuid)
        self._known[uuid] = provider
        self._below.setdefault(provider.parent_uuid or "", set()).add(uuid)
        slot = self._slot_of.get(uuid)
        if slot is None:
            row = self._host_row(provider.parent_uuid)
            if row is not None:
                self._attach(uuid, row)
        else:
            self._fill(slot, provider)
            self._sort(self._rows[slot])

    def put_used(self, uuid: str, used: Mapping[str, int]) -> None:
        """Set the used amounts that the ledger reports for a child; holds are added.

        An unknown uuid is ignored.
        """
        provider = self._known.get(uuid)
        if provider is None:
            return
        self._known[uuid] = replace(provider, used=used)
        slot = self._slot_of.get(uuid)
        if slot is not None:
            self._stock.put_used(slot, used)
            self._journal.record(self._rows[slot], "used")

    def remove(self, uuid: str) -> Provider | None:
        """Remove and return a child provider, or return None if it is unknown.

        Its descendants have no slots until it is added again.
        """
        provider = self._known.get(uuid)
        if provider is None:
            return None
        # Holds outlive the removal, since `put` removes a child to move it to another parent.
        self._detach(uuid, keep_held=True)
        del self._known[uuid]
        siblings = self._below[provider.parent_uuid or ""]
        siblings.discard(uuid)
        if not siblings:
            del self._below[provider.parent_uuid or ""]
        return provider

    def attach_host(self, host_uuid: str, row: int) -> None:
        """Give slots to the descendants of a host that was just added."""
        for uuid in self._below.get(host_uuid, ()):
            self._attach(uuid, row)

    def detach_host(self, host_uuid: str) -> None:
        """Free the slots of the descendants of a host that is being removed; their holds end."""
        for uuid in self._below.get(host_uuid, ()):
            self._detach(uuid, keep_held=False)

    # ---- write: decisions of this process ---------------------------------------------------

    def hold(self, uuid: str, amounts: Mapping[str, int]) -> None:
        """Count amounts of a child as used in addition to those that the ledger reports."""
        slot = self._slot_of.get(uuid)
        if slot is None:
            # A child without a slot may get one while the hold lasts.
            self._pending_holds[uuid] = add_amounts(self._pending_holds.get(uuid, {}), amounts)
        else:
            self._stock.hold(slot, amounts)
            self._journal.record(self._rows[slot], "used")

    def release_hold(self, uuid: str, amounts: Mapping[str, int]) -> None:
        """Undo one `hold` with equal arguments; amounts that are not on hold are ignored."""
        slot = self._slot_of.get(uuid)
        if slot is not None:
            self._stock.release_hold(slot, amounts)
            self._journal.record(self._rows[slot], "used")
        elif uuid in self._pending_holds:
            held = self._pending_holds.pop(uuid)
            less = {name: amount - amounts.get(name, 0) for name, amount in held.items()}
            left = {name: amount for name, amount in less.items() if amount > 0}
            if left:
                self._pending_holds[uuid] = left

    def _slots_on(self, row: int) -> Rows:
        """Return the slots of a row as an array, cached until its children change."""
        slots = self._arrays.get(row)
        if slots is None:
            mine = self._on_row.get(row)
            slots = _NO_SLOTS if mine is None else np.array(mine, dtype=np.intp)
            if mine is not None:
                self._arrays[row] = slots
        return slots

    def _host_row(self, uuid: str | None) -> int | None:
        """Return the row of the host at the end of a provider's chain of parents, or None."""
        # A state between two events may contain a cycle of parents.
        climbed: set[str] = set()
        while uuid is not None and uuid not in climbed:
            row = self._row_of(uuid)
            if row is not None:
                return row
            climbed.add(uuid)
            provider = self._known.get(uuid)
            uuid = None if provider is None else provider.parent_uuid
        return None

    def _subtree(self, uuid: str) -> Iterator[str]:
        """Yield a provider and its descendants, each once even if they form a cycle."""
        found = {uuid: None}
        waiting = [uuid]
        while waiting:
            one = waiting.pop()
            yield one
            for child in self._below.get(one, ()):
                if child not in found:
                    found[child] = None
                    waiting.append(child)

    def _attach(self, uuid: str, row: int) -> None:
        for one in self._subtree(uuid):
            provider = self._known.get(one)
            # The subtree of a host's uuid begins with the host itself, and descendants may have
            # been attached before.
            if provider is None or one in self._slot_of:
                continue
            slot = self._slot_of[one] = self._new_slot()
            self._uuids[slot] = one
            self._rows[slot] = row
            self._on_row.setdefault(row, []).append(slot)
            self._fill(slot, provider)
            held = self._pending_holds.pop(one, None)
            if held is not None:
                self._stock.hold(slot, held)
        self._sort(row)

    def _detach(self, uuid: str, *, keep_held: bool) -> None:
        for one in self._subtree(uuid):
            slot = self._slot_of.pop(one, None)
            if slot is None:
                continue
            held = self._stock.held(slot)
            if keep_held and held:
                self._pending_holds[one] = held
            self._stock.clear(slot)
            self.traits.put(slot, ())
            row = self._rows[slot]
            self._on_row[row].remove(slot)
            if not self._on_row[row]:
                del self._on_row[row]
            self._unused.append(slot)
            self._arrays.pop(row, None)
            self._all_slots = None
            self._note(row)

    def _fill(self, slot: int, provider: Provider) -> None:
        self._stock.put(slot, provider.inventories, provider.used)
        self.traits.put(slot, provider.traits)
        self._note(self._rows[slot])

    def _sort(self, row: int) -> None:
        """Sort the children of a row, so that their order does not depend on that of the events."""
        self._on_row[row].sort(key=self._identity)
        self._arrays.pop(row, None)
        self._all_slots = None

    def _identity(self, slot: int) -> tuple[str, str]:
        uuid = self._uuids[slot]
        return self._known[uuid].name, uuid

    def _note(self, row: int) -> None:
        # Rules read children through the row of their host, so that row counts as changed.
        self._journal.record(row, "used")
        self._journal.record(row, "traits")

    def _new_slot(self) -> int:
        if self._unused:
            return self._unused.pop()
        slot = len(self._uuids)
        if slot >= self._size:
            self._size *= 2
            self._stock.resize(self._size)
            self.traits.resize(self._size)
        self._uuids.append("")
        self._rows.append(-1)
        return slot
