"""Reads of tables that may lag behind a daybook: what both SQL ledgers answer alike."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from berth.adapters.ledger.sql.queries import HoldingsBy, Queries
from berth.adapters.ledger.wal.reads import (
    Read,
    read_actions,
    read_allocations,
    read_errands,
    read_footprint,
    read_holdings,
    read_instances,
    read_migrations,
    read_status_counts,
)
from berth.domain.compute.footprint import Footprint
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.inventory.allocation import Allocation
from berth.domain.inventory.consumer import Holding
from berth.domain.zones.zone import Errand
from berth.ports.ledger import InstanceQuery, MigrationQuery

T = TypeVar("T")


class SettledReads(ABC):
    """Reads that see every write acknowledged before the call.

    Args:
        queries: statements in the words of the database.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    @abstractmethod
    async def _ask(self, read: Read[T]) -> T:
        """Answer a read's questions, when all that was committed before is in the tables."""

    # --- Records ---

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return the instances that match, newest first."""
        return await self._ask(read_instances(self._queries, query))

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """Return the migrations that match, newest first."""
        return await self._ask(read_migrations(self._queries, query))

    async def actions(self, instance_uuid: str) -> list[Action]:
        """Return what was asked of an instance, newest first."""
        return await self._ask(read_actions(self._queries, instance_uuid))

    async def errands(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[Errand]:
        """Return what was sent to child zones, in order of the instances' uuids."""
        return await self._ask(
            read_errands(self._queries, project_id=project_id, reservation_id=reservation_id)
        )

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """Return what is allocated, in order of consumer and provider."""
        return await self._ask(
            read_allocations(
                self._queries, consumer_uuid=consumer_uuid, provider_uuid=provider_uuid
            )
        )

    async def status_counts(self) -> Mapping[str, int]:
        """Return how many instances have each status, those that are deleted left out."""
        return await self._ask(read_status_counts(self._queries))

    # --- Holdings ---

    async def holding(self, consumer_uuid: str) -> Holding | None:
        """Return a consumer with all that it holds; None when it holds nothing."""
        found = await self._holdings("consumer_uuid", consumer_uuid)
        return found[0] if found else None

    async def holders(self, provider_uuid: str) -> list[Holding]:
        """Return who holds something of a provider, and only that, in order of consumers."""
        return await self._holdings("provider_uuid", provider_uuid)

    async def project_holdings(self, project_id: str, user_id: str | None = None) -> list[Holding]:
        """Return all that consumers of a project hold, or those of one user in it."""
        found = await self._holdings("project_id", project_id)
        return [one for one in found if user_id in {None, one.consumer.user_id}]

    async def project_footprint(self, project_id: str) -> Footprint:
        """Return what all instances of a project come to that are not deleted."""
        return await self._ask(read_footprint(self._queries, project_id))

    async def _holdings(self, by: HoldingsBy, key: str) -> list[Holding]:
        return await self._ask(read_holdings(self._queries, by, key))
