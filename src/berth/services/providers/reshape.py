"""Reshape, which replaces inventories of providers and allocations of consumers in one unit.

This moves a resource to another provider while it is in use, for example from a compute node to one
of its child providers. The unit first gives every provider both its old and its new inventories,
then moves the allocations, and then removes the old inventories. If any step is rejected, nothing
happens.
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

# By provider uuid, the generation that the client has seen and all new inventories.
WantedInventories = Mapping[str, tuple[int, Mapping[str, Inventory]]]


class GenerationError(ConflictError):
    """The generation of a provider differs from the one that the client has seen.

    Args:
        provider_uuid: the provider.
        seen: the generation that the client has seen.
        actual: the current generation.
    """

    def __init__(self, provider_uuid: str, seen: int, actual: int) -> None:
        super().__init__(
            f"provider {provider_uuid} is at generation {actual}, not {seen}; read it again"
        )
        self.provider_uuid = provider_uuid
        self.seen = seen
        self.actual = actual


class ReshapeService(ProviderWrites):
    """Replaces inventories and allocations in one unit."""

    async def reshape(
        self, inventories: WantedInventories, shares: Sequence[ConsumerUpdate]
    ) -> None:
        """Replace inventories of providers and allocations of consumers.

        Args:
            inventories: all inventories of each named provider.
            shares: all allocations of each named consumer. Those of other consumers stay, and need
                their inventories.

        Raises:
            GenerationError: a provider has changed since the client read it.
            ProviderRefusedError: there is no such provider or class, a removed class is in use, or
                every attempt lost a race.
            AllocationRefusedError: see `AllocationService.put`.
            ConflictError: the ledger rejected the unit for another reason.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()

        def decide(seen: int) -> Unit:
            # The generations are checked first, so that the error names the provider whose
            # generation is wrong.
            self._check_generations(inventories)
            guards: list[Write] = []
            first: list[Write] = []
            last: list[Write] = []
            for uuid, (generation, wanted) in inventories.items():
                old = replace(self._stated(uuid), updated_at_s=now_s)
                guards += (Guard(provider_guard(uuid), seen), *self._new(old, wanted, seen))
                # Between the first and the last write, the provider has its old and its new
                # inventories, so that allocations can move in either direction.
                both = replace(old, inventories={**old.inventories, **wanted})
                # Only the first replacement checks and increments the generation, because the unit
                # is a single change for clients.
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
        """Return the guards on the custom classes that are new to a provider.

        Raises:
            ProviderRefusedError: a class does not exist.
        """
        vocabulary = self._replica.vocabulary
        coming = [name for name in wanted if name not in old.inventories]
        for name in coming:
            if not vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_CLASS, name)
        return class_guards([n for n in coming if not vocabulary.classes.is_standard(n)], seen)
