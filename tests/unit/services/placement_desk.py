"""The services of the Placement API on a ledger."""

from collections.abc import Mapping
from dataclasses import replace

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory, StandardNames
from berth.domain.ledger.write import ConsumerUpdate
from berth.services.providers.allocations import AllocationService
from berth.services.providers.reshape import ReshapeService
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.testing.builders import make_uuid
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import TappedLedger

STANDARD = StandardNames((VCPU, MEMORY_MB, DISK_GB), ("COMPUTE_NODE",))


class PlacementDesk:
    """One process's services of the Placement API."""

    def __init__(self, ledger: TappedLedger | None = None) -> None:
        clock = VirtualClock()
        self.ledger = ledger or TappedLedger()
        self.replica = ProviderReplica(STANDARD)
        self.follower = Follower(self.ledger, clock, [self.replica])
        self.allocation_service = AllocationService(
            follower=self.follower, ledger=self.ledger, replica=self.replica
        )
        self.reshape_service = ReshapeService(
            follower=self.follower, ledger=self.ledger, replica=self.replica, clock=clock
        )

    async def provider(self, number: int = 1) -> Provider:
        """Return a provider from the up-to-date table."""
        await self.follower.catch_up()
        row = self.replica.table.row_of(make_uuid("host", number))
        assert row is not None
        return self.replica.table.record(row)

    async def held(self, number: int = 1) -> dict[str, dict[str, int]]:
        """Return what a consumer holds, by provider and class."""
        holding = await self.ledger.consumer_allocations(make_uuid("consumer", number))
        if holding is None:
            return {}
        return {uuid: dict(amounts) for uuid, amounts in holding.allocations.items()}


def share(
    number: int = 1,
    amounts: Mapping[str, int] | None = None,
    *,
    on: int = 1,
    seen: int | None = None,
) -> ConsumerUpdate:
    """Return the update by which consumer N holds amounts on a host, by default one VCPU."""
    wanted = {VCPU: 1} if amounts is None else amounts
    consumer = Consumer(make_uuid("consumer", number), "project-1", "user-1", "INSTANCE")
    return ConsumerUpdate(consumer, {make_uuid("host", on): wanted} if wanted else {}, seen)


async def dump(ledger: MemoryLedger) -> object:
    """Return the whole content of a ledger except its version."""
    snapshot = replace(await ledger.snapshot(0.0), version=0)
    return snapshot, await ledger.project_consumers("project-1")


def inventories(**totals: int) -> dict[str, Inventory]:
    """Return inventories with these totals."""
    return {name: Inventory(total) for name, total in totals.items()}
