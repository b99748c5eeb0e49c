"""Manages the resource classes and traits that clients of the Placement API create."""

from dataclasses import replace
from typing import Final

import numpy as np

from berth.domain.inventory.resources import Inventory, ResourceClass, Trait
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Guard, Put, Remove, ReplaceProvider, Unit, Write
from berth.services.providers.provider_writes import (
    ProviderRefusedError,
    ProviderWrites,
    RefusalRule,
    class_guard,
    provider_guard,
    trait_guard,
)

# A class that more providers than this have cannot be renamed, because one unit rewrites them all.
RENAMED_MAX: Final = 1_000


class ResourceNames(ProviderWrites):
    """Creates, renames and removes names. Standard names always exist and cannot be changed.

    All methods also raise `UnitRejectedError` if the ledger rejects a change twice in a row for a
    reason that has no `RefusalRule`.
    """

    # ---- resource classes -----------------------------------------------------------------

    async def ensure_class(self, name: str) -> bool:
        """Create a resource class unless it exists; return whether it was created.

        Raises:
            ProviderRefusedError: every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        if self._replica.vocabulary.classes.is_known(name):
            return False
        try:
            await self.create_class(name)
        except ProviderRefusedError as error:
            if error.why is not RefusalRule.CLASS_EXISTS:
                raise
            return False
        return True

    async def create_class(self, name: str) -> None:
        """Create a resource class.

        Raises:
            ProviderRefusedError: the name is taken, or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """
        # Clients see classes in the order of their ids.
        number = await self._ledger.next_id(Kind.RESOURCE_CLASS)
        record = ResourceClass(name, number, self._clock.now_s())

        def decide(seen: int) -> Unit:
            if self._replica.vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.CLASS_EXISTS, name)
            return (Guard(class_guard(name), seen), Add(record))

        await self._save(decide)

    async def rename_class(self, old: str, new: str) -> None:
        """Rename a resource class, and the inventories of it that providers have.

        Raises:
            ProviderRefusedError: there is no such class, it is a standard one, the new name is
                taken, the class is in use, more than `RENAMED_MAX` providers have it, or every
                attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def decide(seen: int) -> Unit:
            vocabulary = self._replica.vocabulary
            self._check_class(old)
            if old == new:
                return ()
            if vocabulary.classes.is_known(new):
                raise ProviderRefusedError(RefusalRule.CLASS_EXISTS, new)
            record = vocabulary.classes.records.get(old)
            writes: list[Write] = [Guard(class_guard(name), seen) for name in (old, new)]
            if record is not None:
                writes += (Remove(Kind.RESOURCE_CLASS, old), Add(replace(record, name=new)))
            return (*writes, *self._renamed(old, new, seen))

        try:
            await self._save(decide)
        except ProviderRefusedError as error:
            # A claim may have come between the decision and the commit.
            if error.why is not RefusalRule.INVENTORY_IN_USE:
                raise
            raise ProviderRefusedError(RefusalRule.CLASS_IN_USE, old) from error

    async def remove_class(self, name: str) -> None:
        """Remove a resource class that no provider has.

        Raises:
            ProviderRefusedError: there is no such class, it is a standard one, a provider has it,
                or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def decide(seen: int) -> Unit:
            self._check_class(name)
            if self._replica.table.resource(name) is not None:
                raise ProviderRefusedError(RefusalRule.CLASS_IN_USE, name)
            return (Guard(class_guard(name), seen), Remove(Kind.RESOURCE_CLASS, name))

        await self._save(decide)

    def _check_class(self, name: str) -> None:
        vocabulary = self._replica.vocabulary
        if not vocabulary.classes.is_known(name):
            raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        if vocabulary.classes.is_standard(name):
            raise ProviderRefusedError(RefusalRule.CLASS_IS_STANDARD, name)

    def _renamed(self, old: str, new: str, seen: int) -> list[Write]:
        """Return the writes that rename a class in all providers that have it."""
        table = self._replica.table
        columns = table.resource(old)
        if columns is None:
            return []
        count = len(table)
        # A class may have usage without an inventory, after an agent has dropped the inventory.
        rows = np.flatnonzero((columns.terms[:count] != 0) | (columns.used[:count] != 0)).tolist()
        # These checks precede the writes, because each write costs a read of its record.
        if len(rows) > RENAMED_MAX:
            raise ProviderRefusedError(RefusalRule.CLASS_IS_SPREAD, old)
        if columns.used[:count].any():
            raise ProviderRefusedError(RefusalRule.CLASS_IN_USE, old)
        writes: list[Write] = []
        for record in map(table.base_record, rows):
            has: dict[str, Inventory] = {
                new if name == old else name: one for name, one in record.inventories.items()
            }
            # The agent must own the new name, or its next report would add the old one again.
            owned = record.owned_classes
            if owned is not None and old in owned:
                owned = owned - {old} | {new}
            named = replace(record, inventories=has, owned_classes=owned)
            writes += (Guard(provider_guard(record.uuid), seen), ReplaceProvider(named, raises=0))
        return writes

    # ---- traits ------------------------------------------------------------------------------

    async def ensure_trait(self, name: str) -> bool:
        """Create a trait unless it exists; return whether it was created.

        Raises:
            ProviderRefusedError: every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        if self._replica.vocabulary.traits.is_known(name):
            return False
        number = await self._ledger.next_id(Kind.TRAIT)
        record = Trait(name, number, self._clock.now_s())
        is_made = False

        def decide(seen: int) -> Unit:
            nonlocal is_made
            is_made = not self._replica.vocabulary.traits.is_known(name)
            return (Guard(trait_guard(name), seen), Put(record)) if is_made else ()

        await self._save(decide)
        return is_made

    async def remove_trait(self, name: str) -> None:
        """Remove a trait that no provider has.

        Raises:
            ProviderRefusedError: there is no such trait, it is a standard one, a provider has it,
                or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def decide(seen: int) -> Unit:
            vocabulary = self._replica.vocabulary
            if vocabulary.traits.is_standard(name):
                raise ProviderRefusedError(RefusalRule.TRAIT_IS_STANDARD, name)
            if not vocabulary.traits.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_TRAIT, name)
            if name in self._replica.table.trait_names:
                raise ProviderRefusedError(RefusalRule.TRAIT_IN_USE, name)
            return (Guard(trait_guard(name), seen), Remove(Kind.TRAIT, name))

        await self._save(decide)
