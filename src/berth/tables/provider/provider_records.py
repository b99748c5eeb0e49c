"""Provider records by row, in which equal parts of several records are shared."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.interned import Pool

_Items: TypeAlias = frozenset[tuple[str, Inventory]]

_NOTHING: Final[Mapping[str, int]] = {}


class ProviderRecords:
    """Records by row, without used amounts and generation, which change with every claim.

    A compute node has about a hundred traits, but a fleet has few distinct sets of them; the same
    is true of inventories. Sharing them saves most of the memory of a record.
    """

    def __init__(self) -> None:
        self._all: list[Provider | None] = []
        self._inventories: Pool[_Items, Mapping[str, Inventory]] = Pool()
        self._sets: Pool[frozenset[str], frozenset[str]] = Pool()
        self._lists: Pool[tuple[str, ...], tuple[str, ...]] = Pool()

    def get(self, row: int) -> Provider | None:
        """Return the record of a row, or None if it has none."""
        return self._all[row] if 0 <= row < len(self._all) else None

    def put(self, row: int, provider: Provider, parent_uuid: str | None) -> Provider:
        """Set the record of a row, and return the stored one.

        If the new record equals the stored one, the stored object is kept.

        Args:
            row: a row that has or had a record, or the next new row.
            provider: the provider as the ledger reports it.
            parent_uuid: a string equal to the provider's `parent_uuid`; it is stored in its place,
                so that children share one object.
        """
        if row == len(self._all):
            self._all.append(None)
        old, new = self._all[row], self._take(provider, parent_uuid)
        if old is not None:
            self._release(old)
            # Callers recognise an unchanged record by its identity.
            if old == new:
                return old
        self._all[row] = new
        return new

    def clear(self, row: int) -> None:
        """Remove the record of a row."""
        old = self._all[row]
        if old is not None:
            self._release(old)
        self._all[row] = None

    def _take(self, provider: Provider, parent_uuid: str | None) -> Provider:
        has, owned_parent = provider.inventories, provider.owned_parent_uuid
        return replace(
            provider,
            parent_uuid=parent_uuid,
            generation=0,
            inventories=self._inventories.take(frozenset(has.items()), has),
            used=_NOTHING,
            traits=self._sets.take(provider.traits, provider.traits),
            aggregates=self._lists.take(provider.aggregates, provider.aggregates),
            owned_traits=self._take_set(provider.owned_traits),
            owned_classes=self._take_set(provider.owned_classes),
            owned_parent_uuid=parent_uuid if owned_parent == parent_uuid else owned_parent,
        )

    def _take_set(self, names: frozenset[str] | None) -> frozenset[str] | None:
        return None if names is None else self._sets.take(names, names)

    def _release(self, record: Provider) -> None:
        self._inventories.release(frozenset(record.inventories.items()))
        self._lists.release(record.aggregates)
        for names in (record.traits, record.owned_traits, record.owned_classes):
            if names is not None:
                self._sets.release(names)
