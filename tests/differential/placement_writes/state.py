"""The records at one point of a sequence, read from Berth, which runs in this process."""

from collections.abc import Mapping
from dataclasses import dataclass

from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from tests.differential.placement_writes.universe import CONSUMERS, PROVIDERS
from tests.unit.api.placement.world import World


@dataclass(frozen=True, slots=True)
class State:
    """The records from which requests are drawn, so that many succeed.

    Attributes:
        providers: by uuid, with their usage; without those whose uuid a side has created.
        holdings: the allocations of consumers, by their uuids.
        names: the custom classes and traits.
    """

    providers: Mapping[str, Provider]
    holdings: Mapping[str, ConsumerAllocations]
    names: frozenset[str]

    def room(self, uuid: str, name: str, freed: int = 0) -> range:
        """Return the amounts of a class that a consumer can allocate from a provider.

        Args:
            uuid: the uuid of the provider.
            name: the name of the class.
            freed: the amount that the consumer frees in exchange.
        """
        provider = self.providers.get(uuid)
        found = None if provider is None else provider.inventories.get(name)
        if provider is None or found is None:
            return range(0)
        left = min(found.capacity - provider.used.get(name, 0) + freed, found.unit_max, _LARGE)
        return range(_first(found), int(left) + 1, found.step_size)


_LARGE = 40


def _first(found: Inventory) -> int:
    """Return the least amount that can be allocated."""
    return -(-found.min_unit // found.step_size) * found.step_size


async def state_of(world: World) -> State:
    """Return the current state of a world."""
    await world.parts.follower.catch_up()
    table, vocabulary = world.parts.replica.table, world.parts.replica.vocabulary
    rows = [table.row_of(uuid) for uuid in PROVIDERS]
    records = [table.record(row) for row in rows if row is not None]
    held = {uuid: await world.parts.ledger.consumer_allocations(uuid) for uuid in CONSUMERS}
    return State(
        {one.uuid: one for one in records},
        {uuid: one for uuid, one in held.items() if one is not None},
        frozenset((*vocabulary.classes.records, *vocabulary.traits.records)),
    )
