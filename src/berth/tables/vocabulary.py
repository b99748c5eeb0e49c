"""The vocabulary: which resource classes and traits are known, and in which order they are told.

Known are the standard names, those that somebody made, and every name that any provider has: an
agent may report a name that nobody has made. That is their order, too: standard names in their
own, then those made as they were made, then all others by name.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from berth.domain.inventory.resources import ResourceClass, StandardNames, Trait
from berth.tables.provider.providers import ProviderTable

_T = TypeVar("_T", ResourceClass, Trait)


class Names(Generic[_T]):
    """The names of one noun.

    Attributes:
        records: what somebody made, by name.
        standard: the place of each standard name among them.
    """

    def __init__(self, standard: Iterable[str], in_use: Callable[[], Collection[str]]) -> None:
        """Know standard names, and those that `in_use` returns when it is asked."""
        self.records: dict[str, _T] = {}
        self.standard = {name: place for place, name in enumerate(standard)}
        self._in_use = in_use

    def is_known(self, name: str) -> bool:
        """Tell whether a name is known."""
        return name in self.standard or name in self.records or name in self._in_use()

    def is_standard(self, name: str) -> bool:
        """Return whether a name is a standard one."""
        return name in self.standard

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of the vocabulary; names not known count as others."""
        return sorted(names, key=self._place)

    def all(self) -> list[str]:
        """Return all names, in order."""
        others: frozenset[str] = frozenset((*self.records, *self._in_use())).difference(
            self.standard
        )
        return [*self.standard, *self.in_order(others)]

    def _place(self, name: str) -> tuple[int, int, str]:
        place = self.standard.get(name)
        if place is not None:
            return 0, place, name
        record = self.records.get(name)
        return (2, 0, name) if record is None else (1, record.number, name)


class Vocabulary:
    """The classes and traits that are known, by the records of the feed and a provider table."""

    def __init__(self, standard: StandardNames, table: ProviderTable) -> None:
        """Know the standard names and those that providers of a table have, then and later."""
        self._table = table
        self.classes = Names[ResourceClass](standard.classes, lambda: table.resource_classes)
        self.traits = Names[Trait](standard.traits, lambda: table.trait_names)

    # ---- look up ------------------------------------------------------------------------

    def find_traits(
        self,
        prefix: str | None = None,
        among: Collection[str] | None = None,
        *,
        associated: bool | None = None,
    ) -> list[str]:
        """Return the traits that are known, in order.

        Args:
            prefix: only those that begin so.
            among: only these.
            associated: only those that a provider has, or (False) only those that none has.
        """
        if among is None:
            found = self.traits.all()
        else:
            found = self.traits.in_order(filter(self.traits.is_known, frozenset(among)))
        if prefix is not None:
            found = [name for name in found if name.startswith(prefix)]
        if associated is not None:
            mine = self._table.trait_names
            found = [name for name in found if (name in mine) is associated]
        return found

    # ---- write ----------------------------------------------------------------------------

    def put(self, record: ResourceClass | Trait) -> None:
        """Add a resource class or trait that somebody made, or replace it."""
        if isinstance(record, ResourceClass):
            self.classes.records[record.name] = record
        else:
            self.traits.records[record.name] = record

    def remove_class(self, name: str) -> None:
        """Forget a resource class that somebody made; none of that name is no error."""
        self.classes.records.pop(name, None)

    def remove_trait(self, name: str) -> None:
        """Forget a trait that somebody made; none of that name is no error."""
        self.traits.records.pop(name, None)
