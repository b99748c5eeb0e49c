"""The provider table: all resource providers, roots and descendants, as columns.

The follower of the ledger's change feed writes the table, on one thread. Unlike the host table it
has no holds, because the Placement API must report the state of the ledger.
"""

from collections.abc import KeysView, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.domain.errors import NotFoundError
from berth.domain.inventory.provider import Provider
from berth.tables.columnar.bitsets import Bitset, Mask, Rows
from berth.tables.columnar.class_columns import ClassColumns, Ints
from berth.tables.columnar.column_set import grown
from berth.tables.columnar.interned import NameIds
from berth.tables.columnar.row_texts import RowsByText
from berth.tables.host.aggregate_sets import AggregateSets
from berth.tables.provider.lineage import NO_ROW, Forest, Lineage, forest_of
from berth.tables.provider.provider_records import ProviderRecords
from berth.tables.provider.provider_stock import ProviderStock
from berth.tables.provider.sharing import SHARES, Sharing, sharing_of
from berth.tables.provider.unattached import UnattachedProviders

_FIRST_ROWS: Final = 64

# A full table grows by 1/4 of its rows.
_GROWTH: Final = 4

_NO_PROVIDER: Final = Provider(uuid="", name="")


class ProviderTable:
    """Providers by row.

    Arrays are views of the first `len(table)` rows; some of these rows may be unused.

    The change feed may deliver a provider before its parent, and a parent may be removed while its
    descendants stay. A provider has a row while a chain of parents leads to a root. Otherwise it is
    *unattached*, and readers of the table do not see it.

    Unused rows have no inventories, traits or aggregates.

    Attributes:
        version: the ledger version that the table reflects.
        lineage: the parent, children and root of each row.
        by_name: the rows of the providers by name, which need not be unique.
        traits: the set of traits of each row.
        aggregates: the set of aggregate ids of each row (see `aggregate_numbers`).
    """

    def __init__(self) -> None:
        self.version = 0
        self.traits = Bitset()
        self.aggregates = AggregateSets()
        self._size = 0
        self._rows = 0
        self._alive: Mask = np.zeros(0, dtype=np.bool_)
        self._generation: Ints = np.zeros(0, dtype=np.int64)
        self._revision: Ints = np.zeros(0, dtype=np.int64)
        self._revisions = 0
        self._stock = ProviderStock(0)
        self._records = ProviderRecords()
        self._row_of: dict[str, int] = {}
        self.by_name = RowsByText()
        self.lineage = Lineage()
        self._unused: list[int] = []
        self._unattached = UnattachedProviders()
        self._aggregates = NameIds()
        self._traits = NameIds()
        self._forest: Forest | None = None
        self._sharing: Sharing | None = None
        self._resize(_FIRST_ROWS)

    def __len__(self) -> int:
        """Return the number of rows, including unused ones."""
        return self._rows

    # ---- columns ------------------------------------------------------------------------

    @property
    def all_rows(self) -> "slice[int, int, int]":
        """A selection of all rows."""
        return slice(0, self._rows)

    @property
    def alive(self) -> Mask:
        """(N,) bool, rows that hold a provider."""
        return self._alive[: self._rows]

    @property
    def parent(self) -> NDArray[np.int32]:
        """(N,) row of the parent; -1 for roots and unused rows."""
        return self.lineage.parent[: self._rows]

    @property
    def root(self) -> NDArray[np.int32]:
        """(N,) row of the root of the tree (a root's own row); -1 for unused rows."""
        return self.lineage.root[: self._rows]

    @property
    def generations(self) -> Ints:
        """(N,) generation of each provider."""
        return self._generation[: self._rows]

    @property
    def revisions(self) -> Ints:
        """(N,) revision of each row: a new, unique value whenever its record or root changes.

        Used amounts and the generation do not change it. A value derived from a row is valid while
        the row has the same revision.
        """
        return self._revision[: self._rows]

    def resource(self, name: str) -> ClassColumns | None:
        """Return the columns of a resource class, or None if no provider has the class.

        The arrays may be longer than the table: take `[:len(table)]` or index them by rows. A
        change of the table may replace the arrays, so callers must not keep them.
        """
        return self._stock.classes.get(name)

    @property
    def resource_classes(self) -> KeysView[str]:
        """The names of all classes that any provider has, unordered; a live view."""
        return self._stock.classes.keys()

    @property
    def trait_names(self) -> KeysView[str]:
        """The names of all traits that any provider has, unordered; a live view."""
        return self._traits.by_name.keys()

    @property
    def aggregate_numbers(self) -> Mapping[str, int]:
        """The integer id of each aggregate that has members, by uuid.

        The id of an aggregate that loses its last member is reused for the next new one.
        """
        return self._aggregates.by_name

    # ---- look-ups -----------------------------------------------------------------------

    def row_of(self, uuid: str) -> int | None:
        """Return the row of a provider, or None if it is unknown or unattached."""
        return self._row_of.get(uuid)

    def alive_rows(self) -> Rows:
        """Return the rows that hold a provider, ascending."""
        return np.flatnonzero(self.alive)

    @property
    def unattached(self) -> Mapping[str, Provider]:
        """The providers whose chain of parents leads to no root, by uuid; they have no rows."""
        return self._unattached.by_uuid

    def uuid(self, row: int) -> str:
        """Return the uuid of a provider.

        Raises:
            NotFoundError: the row is unused.
        """
        return self.base_record(row).uuid

    def base_record(self, row: int) -> Provider:
        """Return the record of a provider, without used amounts and with generation 0.

        The record is the same object while the row has the same revision. Equal inventories, traits
        and aggregates of several providers are the same objects.

        Raises:
            NotFoundError: the row is unused.
        """
        record = self._records.get(row)
        if record is None:
            raise NotFoundError("provider row", str(row))
        return record

    def record(self, row: int) -> Provider:
        """Return a provider as the ledger reports it.

        `used` contains every class that the provider has or uses.

        Raises:
            NotFoundError: the row is unused.
        """
        stated = self.base_record(row)
        return replace(stated, generation=self._generation.item(row), used=self.used(row))

    def used(self, row: int) -> dict[str, int]:
        """Return the used amounts of a provider for every class that it has or uses.

        Raises:
            NotFoundError: the row is unused.
        """
        return self._stock.used(row, self.base_record(row).inventories)

    def forest(self) -> Forest:
        """Return the providers by tree; cached until a tree changes."""
        if self._forest is None:
            self._forest = forest_of(self.alive, self.root)
        return self._forest

    def sharing(self) -> Sharing:
        """Return the sharing providers and the trees with which they share.

        The result is cached until traits, trees or aggregates change.
        """
        if self._sharing is None:
            rows = np.flatnonzero(self.traits.has(SHARES, self.all_rows))
            self._sharing = sharing_of(rows, self.alive_rows(), self.root, self.aggregates)
        return self._sharing

    # ---- write ----------------------------------------------------------------------------

    def reserve(self, providers: int) -> None:
        """Allocate rows for a number of providers, so that adding them copies nothing."""
        if providers > self._size:
            self._resize(providers)

    def put(self, provider: Provider) -> None:
        """Add or replace a provider; its parent may follow later."""
        row = self._row_of.get(provider.uuid)
        if row is None:
            self._unattached.put(provider)
            if provider.parent_uuid is None or provider.parent_uuid in self._row_of:
                self._attach(provider.uuid)
            return
        parent = self._parent_row(provider.parent_uuid)
        if parent == self.lineage.parent.item(row):
            self._fill(row, provider)
        # A parent that is a descendant of the provider itself would close a cycle, which has no
        # root. A later event will break the cycle.
        elif parent is None or self.lineage.is_within(parent, row):
            self._detach(row)
            self._unattached.put(provider)
        else:
            self._place(row, parent)
            self._fill(row, provider)

    def put_used(self, uuid: str, used: Mapping[str, int], generation: int | None) -> None:
        """Set all used amounts of a provider, and its generation unless that is None.

        An unknown provider is ignored.
        """
        row = self._row_of.get(uuid)
        if row is not None:
            # The row keeps its revision, because usage changes with every claim and cached
            # responses do not contain it.
            self._stock.put_used(row, self.base_record(row).inventories, used)
            if generation is not None:
                self._generation[row] = generation
        else:
            self._unattached.put_used(uuid, used, generation)

    def remove(self, uuid: str) -> None:
        """Remove a provider; its descendants become unattached. An unknown uuid is ignored."""
        row = self._row_of.get(uuid)
        if row is not None:
            self._detach(row)
        self._unattached.take(uuid)

    # ---- rows -------------------------------------------------------------------------------

    def _parent_row(self, uuid: str | None) -> int | None:
        """Return the row of a parent; `NO_ROW` if `uuid` is None, None if the parent has no row."""
        return NO_ROW if uuid is None else self._row_of.get(uuid)

    def _attach(self, uuid: str) -> None:
        """Give rows to an unattached provider whose parent has a row, and to its descendants."""
        coming = [uuid]
        while coming:
            provider = self._unattached.take(coming.pop())
            parent = None if provider is None else self._parent_row(provider.parent_uuid)
            if provider is None or parent is None:
                continue
            row = self._new_row()
            self._row_of[provider.uuid] = row
            self._alive[row] = True
            self._place(row, parent)
            self._fill(row, provider)
            coming.extend(self._unattached.below(provider.uuid))

    def _detach(self, top: int) -> None:
        """Make a provider and its descendants unattached, and free their rows."""
        # The record is built from the columns, so this must precede the clearing of the row.
        for row in self.lineage.detach(top):
            self._unattached.put(self.record(row))
            self._clear(row)

    def _place(self, row: int, parent: int) -> None:
        self.lineage.attach(row, parent)
        # The revision depends on the root, which changes for all descendants.
        for one in self.lineage.subtree(row):
            self._revision[one] = self._next_revision()
        self._forest = self._sharing = None

    def _fill(self, row: int, provider: Provider) -> None:
        """Set a row that is in its tree to the ledger's record of the provider."""
        old = self._records.get(row)
        parent = self.lineage.parent.item(row)
        above = None if parent == NO_ROW else self.uuid(parent)
        new = self._records.put(row, provider, above)
        self._generation[row] = provider.generation
        self._state(row, old or _NO_PROVIDER, new, provider.used)
        if old is not new:
            self._revision[row] = self._next_revision()

    def _clear(self, row: int) -> None:
        """Free a row."""
        old = self.base_record(row)
        self._state(row, old, _NO_PROVIDER, {})
        self._records.clear(row)
        del self._row_of[old.uuid]
        self._alive[row] = False
        self._generation[row] = 0
        # A freed row also gets a new revision, so values derived from its provider are outdated.
        self._revision[row] = self._next_revision()
        self._unused.append(row)
        self._forest = self._sharing = None

    def _state(self, row: int, old: Provider, new: Provider, used: Mapping[str, int]) -> None:
        """Update the columns and indexes of a row from the record `old` to `new`."""
        self._stock.put(row, old.inventories, new.inventories, used)
        if old is _NO_PROVIDER or new is _NO_PROVIDER or old.name != new.name:
            if old is not _NO_PROVIDER:
                self.by_name.discard(old.name, row)
            if new is not _NO_PROVIDER:
                self.by_name.add(new.name, row)
        if old.traits != new.traits:
            self.traits.put(row, new.traits)
            self._traits.take(new.traits)
            self._traits.release(old.traits)
            if (SHARES in old.traits) != (SHARES in new.traits):
                self._sharing = None
        if old.aggregates != new.aggregates:
            mine = frozenset(new.aggregates)
            # The new aggregates are taken before the old ones are released, so that aggregates in
            # both sets keep their ids.
            self._aggregates.take(mine)
            numbers = self._aggregates.by_name
            self.aggregates.put(row, frozenset(map(numbers.__getitem__, mine)))
            self._aggregates.release(frozenset(old.aggregates))
            self._sharing = None

    def _next_revision(self) -> int:
        self._revisions += 1
        return self._revisions

    def _new_row(self) -> int:
        if self._unused:
            return self._unused.pop()
        row = self._rows
        if row >= self._size:
            self._resize(row + row // _GROWTH)
        self._rows += 1
        return row

    def _resize(self, size: int) -> None:
        self._alive = grown(self._alive, size)
        self._generation = grown(self._generation, size)
        self._revision = grown(self._revision, size)
        self.lineage.resize(size)
        self._stock.resize(size)
        self.traits.resize(size)
        self.aggregates.resize(size)
        self._size = size
