"""Reshaping: inventories of some providers and what consumers hold, replaced in one step.

So something moves to another provider while it is in use, from a compute node to a part of it say.
It is one unit: first every provider has what it had and what it is to have, then the consumers are
moved, then the providers lose what they are not to have. Whatever is refused on the way, nothing of
it happens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.domain.errors import ConflictError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.write import (
    ConsumerUpdate,
    Guard,
    Reallocate,
    ReplaceProvider,
    Unit,
    Write,
)
from berth.services.providers.allocations import refusal_error
from berth.services.providers.provider_writes import (
    ProviderRefusedError,
    ProviderWrites,
    RefusalRule,
    UnitRejectedError,
    class_guards,
    provider_guard,
    row_in,
)

WantedInventories = Mapping[str, tuple[int, Mapping[str, Inventory]]]
"""By provider: the generation that the client has seen, and all inventories it is to have."""


class GenerationError(ConflictError):
    """A provider is at another generation than the client has seen.

    Args:
        provider_uuid: of the provider.
        seen: by the client.
        actual: what it is at.
    """

    def __init__(self, provider_uuid: str, seen: int, actual: int) -> None:
        super().__init__(f"provider {provider_uuid} is at generation {actual}, not {seen}")
        self.provider_uuid = provider_uuid
        self.seen = seen
        self.actual = actual


class ReshapeService(ProviderWrites):
    """Replaces inventories and allocations together."""

    async def reshape(
        self, inventories: WantedInventories, shares: Sequence[ConsumerUpdate]
    ) -> None:
        """Replace inventories of providers, and what some consumers hold.

        Args:
            inventories: of each provider that is named, all.
            shares: of each consumer that is named, all. What others hold stays, and so must the
                inventories of it.

        Raises:
            GenerationError: a provider has changed since.
            ProviderRefusedError: no such provider or class, or a class goes that is in use.
            AllocationRefusedError: see `Reallocating.put`.
        """
        now_s = self._clock.now_s()

        def decide(seen: int) -> Unit:
            self._check_generations(inventories)
            guards: list[Write] = []
            first: list[Write] = []
            last: list[Write] = []
            for uuid, (generation, wanted) in inventories.items():
                old = replace(self._stated(uuid), updated_at_s=now_s)
                guards += (Guard(provider_guard(uuid), seen), *self._new(old, wanted, seen))
                both = replace(old, inventories={**old.inventories, **wanted})
                first.append(ReplaceProvider(both, generation, 1 if wanted else 0))
                last.append(ReplaceProvider(replace(old, inventories=dict(wanted))))
            middle = (Reallocate(tuple(shares)),) if shares else ()
            return (*guards, *first, *middle, *last)

        try:
            await self._save(decide)
        except UnitRejectedError as error:
            given = {uuid: wanted for uuid, (_, wanted) in inventories.items()}
            raise refusal_error(error.rejected, shares, self._replica, given) from error

    def _stated(self, uuid: str) -> Provider:
        return self._replica.table.base_record(row_in(self._replica.table, uuid))

    def _check_generations(self, inventories: WantedInventories) -> None:
        table = self._replica.table
        for uuid, (seen, _) in inventories.items():
            actual = table.generations.item(row_in(table, uuid))
            if actual != seen:
                raise GenerationError(uuid, seen, actual)

    def _new(self, old: Provider, wanted: Mapping[str, Inventory], seen: int) -> list[Guard]:
        """Name the classes, not standard ones, that a provider is to have and has not."""
        vocabulary = self._replica.vocabulary
        coming = [name for name in wanted if name not in old.inventories]
        for name in coming:
            if not vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        return class_guards([n for n in coming if not vocabulary.classes.is_standard(n)], seen)
