"""Writes providers into the databases of both sides, without their APIs."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any, Final

import asyncpg

from bench.errors import BenchError
from bench.placement.scenes import RATIOS, Node
from berth.adapters.ledger import open_ledger
from berth.domain.inventory.allocation import INSTANCE_TYPE, Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.write import Committed, ConsumerUpdate, Put, Reallocate, Unit
from berth.domain.uuids import named_uuid

_BATCH: Final = 500
_STANDING: Final[Mapping[str, int]] = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}


class FurnishingError(BenchError):
    """The ledger refused a provider or an allocation."""


def furnish_berth(url: str, nodes: Sequence[Node], allocations: int = 0) -> None:
    """Commit the providers to a ledger, with `allocations` consumers on each.

    Raises:
        FurnishingError: the ledger refused a provider or an allocation.
    """

    async def run() -> None:
        ledger = await open_ledger(url)
        try:
            for units in _batches(_units(nodes, allocations)):
                outcomes = await ledger.commit(units)
                refused = next((one for one in outcomes if not isinstance(one, Committed)), None)
                if refused is not None:
                    raise FurnishingError(f"the ledger refused a unit: {refused}")
        finally:
            await ledger.close()

    asyncio.run(run())


def provider_of(node: Node) -> Provider:
    """Return the ledger's record of a node."""
    inventories = {
        name: Inventory(total, max_unit=total, allocation_ratio=RATIOS.get(name, 1.0))
        for name, total in node.totals.items()
    }
    return Provider(
        node.uuid,
        node.name,
        node.parent,
        inventories=inventories,
        traits=frozenset(node.traits),
        aggregates=node.aggregates,
    )


def _units(nodes: Sequence[Node], allocations: int) -> Iterator[Unit]:
    for node in nodes:
        yield (Put(provider_of(node)),)
    for node in nodes:
        for number in range(allocations):
            uuid = named_uuid(f"bench:standing-{node.name}-{number}")
            consumer = Consumer(uuid, "bench-project", "bench-user", INSTANCE_TYPE)
            yield (Reallocate((ConsumerUpdate(consumer, {node.uuid: _STANDING}),)),)


def furnish_real(url: str, nodes: Sequence[Node]) -> None:
    """Copy the providers into the tables of OpenStack Placement, which exist and are empty."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            classes = await _ids(connection, "resource_classes")
            traits = await _ids(connection, "traits")
            for table, rows in rows_of(nodes, classes, traits).items():
                columns = list(rows[0]) if rows else []
                records = [tuple(row.values()) for row in rows]
                await connection.copy_records_to_table(table, records=records, columns=columns)
        finally:
            await connection.close()

    asyncio.run(run())


async def _ids(connection: "asyncpg.Connection[asyncpg.Record]", table: str) -> dict[str, int]:
    rows = await connection.fetch(f"SELECT name, id FROM {table}")  # noqa: S608 - ours
    return {row["name"]: row["id"] for row in rows}


def rows_of(
    nodes: Sequence[Node], classes: Mapping[str, int], traits: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of OpenStack Placement's tables, in an order that foreign keys allow.

    Args:
        nodes: the providers, parents before children.
        classes: ids of resource classes, by name.
        traits: ids of traits, by name.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    ids = {node.uuid: number for number, node in enumerate(nodes, 1)}
    parents = {node.uuid: node.parent for node in nodes}
    aggregates = {uuid: 0 for node in nodes for uuid in node.aggregates}
    aggregates = {uuid: number for number, uuid in enumerate(aggregates, 1)}
    inventory_ids = count(1)
    return {
        "resource_providers": [
            {
                "id": ids[node.uuid],
                "uuid": node.uuid,
                "name": node.name,
                "generation": 1,
                "root_provider_id": ids[_root(node.uuid, parents)],
                "parent_provider_id": ids[node.parent] if node.parent else None,
                "created_at": now,
                "updated_at": now,
            }
            for node in nodes
        ],
        "inventories": [
            {
                "id": next(inventory_ids),
                "resource_provider_id": ids[node.uuid],
                "resource_class_id": classes[name],
                "total": total,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
                "allocation_ratio": RATIOS.get(name, 1.0),
                "created_at": now,
                "updated_at": now,
            }
            for node in nodes
            for name, total in node.totals.items()
        ],
        "placement_aggregates": [
            {"id": number, "uuid": uuid, "created_at": now} for uuid, number in aggregates.items()
        ],
        "resource_provider_aggregates": [
            {"resource_provider_id": ids[node.uuid], "aggregate_id": aggregates[uuid]}
            for node in nodes
            for uuid in node.aggregates
        ],
        "resource_provider_traits": [
            {
                "trait_id": traits[name],
                "resource_provider_id": ids[node.uuid],
                "created_at": now,
            }
            for node in nodes
            for name in node.traits
        ],
    }


def _root(uuid: str, parents: Mapping[str, str | None]) -> str:
    parent = parents[uuid]
    return uuid if parent is None else _root(parent, parents)


def _batches(units: Iterator[Unit]) -> Iterator[list[Unit]]:
    while batch := list(islice(units, _BATCH)):
        yield batch
