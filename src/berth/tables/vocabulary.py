"""The known resource classes and traits, and their order in responses.

The known names are the standard names, those created through the API, and every name that a
provider has, since an agent may report a name that was never created. Responses list the standard
names first, in their own order, then the created ones in order of creation, and then all others by
name.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from berth.domain.inventory.resources import ResourceClass, StandardNames, Trait
from berth.tables.provider.providers import ProviderTable

_T = TypeVar("_T", ResourceClass, Trait)


class Names(Generic[_T]):
    """The known names of resource classes, or of traits.

    Attributes:
        records: the records of the created names, by name.
        standard: the positions of the standard names, by name.
    """

    def __init__(self, standard: Iterable[str], in_use: Callable[[], Collection[str]]) -> None:
        """Create the vocabulary of one kind of name.

        Args:
            standard: the standard names, in the order of responses.
            in_use: returns the names that providers have now.
        """
        self.records: dict[str, _T] = {}
        self.standard = {name: place for place, name in enumerate(standard)}
        # This is called at each look-up, because agents may report new names at any time.
        self._in_use = in_use

    def is_known(self, name: str) -> bool:
        """Return whether a name is standard, was created, or is in use."""
        return name in self.standard or name in self.records or name in self._in_use()

    def is_standard(self, name: str) -> bool:
        """Return whether a name is a standard one."""
        return name in self.standard

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of the vocabulary, with unknown names last, sorted by name."""
        return sorted(names, key=self._place)

    def all(self) -> list[str]:
        """Return all known names, in order."""
        # Duplicates are removed, because a name may be created and also be in use.
        others: frozenset[str] = frozenset((*self.records, *self._in_use())).difference(
            self.standard
        )
        return [*self.standard, *self.in_order(others)]

    def _place(self, name: str) -> tuple[int, int, str]:
        place = self.standard.get(name)
        if place is not None:
            return 0, place, name
        record = self.records.get(name)
        # Numbers are assigned in order of creation; names in use without a record have none.
        return (2, 0, name) if record is None else (1, record.number, name)


class Vocabulary:
    """The known resource classes and traits, from the records of the feed and a provider table.

    Attributes:
        classes: the resource classes.
        traits: the traits.
    """

    def __init__(self, standard: StandardNames, table: ProviderTable) -> None:
        """Create the vocabulary.

        Args:
            standard: the standard classes and traits, in the order of responses.
            table: the providers; a class or trait is known as long as a provider has it.
        """
        self._table = table
        self.classes = Names[ResourceClass](standard.classes, lambda: table.resource_classes)
        self.traits = Names[Trait](standard.traits, lambda: table.trait_names)

    # ---- look-ups -----------------------------------------------------------------------

    def find_traits(
        self,
        prefix: str | None = None,
        among: Collection[str] | None = None,
        *,
        associated: bool | None = None,
    ) -> list[str]:
        """Return known traits, in order.

        Args:
            prefix: return only traits that begin with this.
            among: return only traits among these; unknown ones are left out.
            associated: True returns only traits that a provider has, False only those that no
                provider has.
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
        """Add or replace a created resource class or trait."""
        if isinstance(record, ResourceClass):
            self.classes.records[record.name] = record
        else:
            self.traits.records[record.name] = record

    def remove_class(self, name: str) -> None:
        """Remove a created resource class; an unknown name is ignored."""
        self.classes.records.pop(name, None)

    def remove_trait(self, name: str) -> None:
        """Remove a created trait; an unknown name is ignored."""
        self.traits.records.pop(name, None)
