"""What clients of the Placement API set on a provider: inventories, traits and aggregates."""

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
    """Sets the inventories of providers. Allocations stay, even above a smaller inventory."""

    def __init__(self, revisions: ProviderRevisions, replica: ProviderReplica) -> None:
        self._revisions = revisions
        self._replica = replica

    async def set_all(
        self, uuid: str, inventories: Mapping[str, Inventory], generation: int | None
    ) -> Provider:
        """Replace all inventories of a provider.

        Args:
            uuid: the provider.
            inventories: by resource class.
            generation: the generation that the client has seen, or None for any.

        Raises:
            ProviderRefusedError: there is no such provider or class, the generation differs, or a
                class in use is left out.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            return self._revised(old, inventories, seen)

        return await self._revisions.revise(uuid, generation, change)

    async def add(self, uuid: str, name: str, inventory: Inventory) -> Provider:
        """Add an inventory of a class that the provider does not have.

        Raises:
            ProviderRefusedError: there is no such provider or class, or the provider has the class.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            if name in old.inventories:
                raise ProviderRefusedError(RefusalRule.INVENTORY_EXISTS, uuid, (name,))
            return self._revised(old, {**old.inventories, name: inventory}, seen)

        return await self._revisions.revise(uuid, None, change)

    async def set_one(
        self, uuid: str, name: str, inventory: Inventory, generation: int
    ) -> Provider:
        """Replace the inventory of one class, which the provider has.

        Raises:
            ProviderRefusedError: there is no such provider or class, the generation differs, or
                the provider has no inventory of the class.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            self._check_has(old, name)
            return self._revised(old, {**old.inventories, name: inventory}, seen)

        return await self._revisions.revise(uuid, generation, change)

    async def remove_one(self, uuid: str, name: str) -> Provider:
        """Remove the inventory of one class.

        Raises:
            ProviderRefusedError: there is no such provider or class, the provider has no
                inventory of the class, or some of it is used.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:
            self._check_has(old, name)
            left = {key: one for key, one in old.inventories.items() if key != name}
            return self._revised(old, left, seen)

        return await self._revisions.revise(uuid, None, change)

    def _revised(
        self, old: Provider, inventories: Mapping[str, Inventory], seen: int
    ) -> ProviderRevision:
        """Return a provider with other inventories.

        A class of the provider cannot be removed concurrently, and standard classes never are, so
        only the other classes need guards.

        Raises:
            ProviderRefusedError: there is no such class, or a class in use is left out.
        """
        vocabulary = self._replica.vocabulary
        # Only added classes can be unknown; the provider's own were checked when it got them.
        coming = [name for name in inventories if name not in old.inventories]
        for name in coming:
            if not vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        self._check_free(old, inventories)
        # Standard names cannot be removed, so they need no guard.
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
        """Check that no class in use is left out; the ledger checks it again in the commit."""
        table = self._replica.table
        used = table.used(row_in(table, old.uuid))
        in_use = tuple(name for name, amount in used.items() if amount and name not in staying)
        if in_use:
            raise ProviderRefusedError(RefusalRule.INVENTORY_IN_USE, old.uuid, in_use)


class Associations:
    """Sets the traits and the aggregates of providers."""

    def __init__(self, revisions: ProviderRevisions, replica: ProviderReplica) -> None:
        self._revisions = revisions
        self._replica = replica

    async def set_traits(
        self, uuid: str, traits: Sequence[str], generation: int | None
    ) -> Provider:
        """Replace the traits of a provider; equal ones change nothing.

        Args:
            uuid: the provider.
            traits: existing traits, custom or standard.
            generation: the generation that the client has seen, or None for any.

        Raises:
            ProviderRefusedError: there is no such provider or trait, or the generation differs.
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
        """Replace the aggregates of a provider.

        Args:
            uuid: the provider.
            aggregates: any uuids, each once.
            generation: the generation that the client has seen, which is then raised; None for any,
                which is then kept.

        Raises:
            ProviderRefusedError: there is no such provider, or the generation differs.
        """

        def change(old: Provider, seen: int) -> ProviderRevision:  # noqa: ARG001 - relies on nothing else
            record = replace(old, aggregates=tuple(aggregates))
            return ProviderRevision(record, raises=0 if generation is None else 1)

        return await self._revisions.revise(uuid, generation, change)
