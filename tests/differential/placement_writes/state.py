"""What there is at one point of a sequence; Berth tells it, whose process this is."""

from collections.abc import Mapping
from dataclasses import dataclass

from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from tests.differential.placement_writes.universe import CONSUMERS, PROVIDERS
from tests.unit.api.placement.world import World


@dataclass(frozen=True, slots=True)
class State:
    """What requests are drawn by, so that many succeed.

    Attributes:
        providers: by uuid, with what is used of them; none whose uuid a side has made.
        holdings: of consumers, by their uuids.
        names: classes and traits that were made.
    """

    providers: Mapping[str, Provider]
    holdings: Mapping[str, ConsumerAllocations]
    names: frozenset[str]

    def room(self, uuid: str, name: str, freed: int = 0) -> range:
        """Return the amounts of a class that one could have of a provider.

        Args:
            uuid: of the provider.
            name: of the class.
            freed: what is used no more then.
        """
        provider = self.providers.get(uuid)
        found = None if provider is None else provider.inventories.get(name)
        if provider is None or found is None:
            return range(0)
        left = min(found.capacity - provider.used.get(name, 0) + freed, found.unit_max, _LARGE)
        return range(_first(found), int(left) + 1, found.step_size)


_LARGE = 40


def _first(found: Inventory) -> int:
    """Return the least amount that may be had."""
    return -(-found.min_unit // found.step_size) * found.step_size


async def state_of(world: World) -> State:
    """Look at all that there is."""
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
