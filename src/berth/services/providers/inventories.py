"""Sets the inventories, traits and aggregates of providers for clients of the Placement API."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.services.providers.provider_writes import (
    ProviderRefusedError,
    ProviderRevision,
    ProviderRevisions,
    RefusalRule,
    class_guards,
    row_in,
    trait_guards,
)
from berth.services.replica.provider_replica import ProviderReplica


class Inventories:
    """Sets the inventories of providers. Allocations stay even if they exceed a new inventory.

    All methods also raise `UnitRejectedError` if the ledger rejects a change twice in a row for a
    reason that has no `RefusalRule`.

    Args:
        revisions: changes the records of providers.
        replica: knows the resource classes.
    """

    def __init__(self, revisions: ProviderRevisions, replica: ProviderReplica) -> None:
        self._revisions = revisions
        self._replica = replica

    async def set_all(
        self, uuid: str, inventories: Mapping[str, Inventory], generation: int | None
    ) -> Provider:
        """Replace all inventories of a provider and return the provider.

        Args:
            uuid: the provider.
            inventories: the new inventories by resource class.
            generation: the generation that the client has seen, or None for any.

        Raises:
            ProviderRefusedError: there is no such provider or class, the generation differs, a
                class in use is left out, or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            return self._revised(old, inventories, seen)

        return await self._revisions.revise(uuid, generation, change)

    async def add(self, uuid: str, name: str, inventory: Inventory) -> Provider:
        """Add an inventory of a class that a provider does not have, and return the provider.

        Raises:
            ProviderRefusedError: there is no such provider or class, the provider has the class, or
                every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            if name in old.inventories:
                raise ProviderRefusedError(RefusalRule.INVENTORY_EXISTS, uuid, (name,))
            return self._revised(old, {**old.inventories, name: inventory}, seen)

        return await self._revisions.revise(uuid, None, change)

    async def set_one(
        self, uuid: str, name: str, inventory: Inventory, generation: int
    ) -> Provider:
        """Replace a provider's inventory of one class, and return the provider.

        Args:
            uuid: the provider.
            name: the resource class.
            inventory: the new inventory.
            generation: the generation that the client has seen.

        Raises:
            ProviderRefusedError: there is no such provider or class, the generation differs, the
                provider has no inventory of the class, or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            self._check_has(old, name)
            return self._revised(old, {**old.inventories, name: inventory}, seen)

        return await self._revisions.revise(uuid, generation, change)

    async def remove_one(self, uuid: str, name: str) -> Provider:
        """Remove a provider's inventory of one class, and return the provider.

        Raises:
            ProviderRefusedError: there is no such provider or class, the provider has no inventory
                of the class, the inventory is in use, or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            self._check_has(old, name)
            left = {key: one for key, one in old.inventories.items() if key != name}
            return self._revised(old, left, seen)

        return await self._revisions.revise(uuid, None, change)

    def _revised(
        self, old: Provider, inventories: Mapping[str, Inventory], seen: int
    ) -> ProviderRevision:
        """Return the revision that replaces a provider's inventories.

        Classes that the provider already has cannot be removed concurrently, and standard classes
        cannot be removed at all, so only added custom classes need guards.

        Raises:
            ProviderRefusedError: there is no such class, or a class in use is left out.
        """
        vocabulary = self._replica.vocabulary
        # Only added classes can be unknown; the others were checked when the provider got them.
        coming = [name for name in inventories if name not in old.inventories]
        for name in coming:
            if not vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        self._check_free(old, inventories)
        made = [name for name in coming if not vocabulary.classes.is_standard(name)]
        return ProviderRevision(
            replace(old, inventories=dict(inventories)), class_guards(made, seen)
        )

    def _check_has(self, old: Provider, name: str) -> None:
        if not self._replica.vocabulary.classes.is_known(name):
            raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        if name not in old.inventories:
            raise ProviderRefusedError(RefusalRule.NO_INVENTORY, old.uuid, (name,))

    def _check_free(self, old: Provider, staying: Collection[str]) -> None:
        """Check that no class in use is left out; the ledger checks this again in the commit."""
        table = self._replica.table
        used = table.used(row_in(table, old.uuid))
        in_use = tuple(name for name, amount in used.items() if amount and name not in staying)
        if in_use:
            raise ProviderRefusedError(RefusalRule.INVENTORY_IN_USE, old.uuid, in_use)


class Associations:
    """Sets the traits and the aggregates of providers.

    All methods also raise `UnitRejectedError` if the ledger rejects a change twice in a row for a
    reason that has no `RefusalRule`.

    Args:
        revisions: changes the records of providers.
        replica: knows the traits.
    """

    def __init__(self, revisions: ProviderRevisions, replica: ProviderReplica) -> None:
        self._revisions = revisions
        self._replica = replica

    async def set_traits(
        self, uuid: str, traits: Sequence[str], generation: int | None
    ) -> Provider:
        """Replace the traits of a provider and return the provider; equal traits change nothing.

        Args:
            uuid: the provider.
            traits: existing traits, custom or standard.
            generation: the generation that the client has seen, or None for any.

        Raises:
            ProviderRefusedError: there is no such provider or trait, the generation differs, or
                every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """
        wanted = frozenset(traits)

        def change(old: Provider, seen: int) -> ProviderRevision:
            vocabulary = self._replica.vocabulary
            unknown = tuple(
                name for name in dict.fromkeys(traits) if not vocabulary.traits.is_known(name)
            )
            if unknown:
                raise ProviderRefusedError(RefusalRule.NO_TRAIT, uuid, unknown)
            # Placement keeps the generation when the traits do not change.
            if wanted == old.traits:
                return ProviderRevision(None)
            made = [n for n in sorted(wanted - old.traits) if not vocabulary.traits.is_standard(n)]
            return ProviderRevision(replace(old, traits=wanted), trait_guards(made, seen))

        return await self._revisions.revise(uuid, generation, change)

    async def set_aggregates(
        self, uuid: str, aggregates: Sequence[str], generation: int | None
    ) -> Provider:
        """Replace the aggregates of a provider and return the provider.

        Args:
            uuid: the provider.
            aggregates: the uuids of the aggregates, which need not exist; each only once.
            generation: the generation that the client has seen, or None for any. With None the
                generation does not change.

        Raises:
            ProviderRefusedError: there is no such provider, the generation differs, or every
                attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:  # noqa: ARG001 - see `revise`
            record = replace(old, aggregates=tuple(aggregates))
            return ProviderRevision(record, raises=0 if generation is None else 1)

        return await self._revisions.revise(uuid, generation, change)
