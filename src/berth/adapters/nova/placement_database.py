"""Reads Placement's database: provider trees, inventories, traits, and all allocations."""

from collections import defaultdict
from collections.abc import Mapping

from berth.adapters.nova.nova_tables import Row, TableReader
from berth.adapters.nova.placement_api import CUSTOM, PlacementRecords, provider_of
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.inventory.resources import Inventory


async def read_placement_database(tables: TableReader) -> PlacementRecords:
    """Return the records of Placement's database.

    Raises:
        InvalidInputError: the schema is not that of a supported Placement release.
    """
    classes = {
        row["id"]: row["name"] for row in await tables.rows("SELECT id, name FROM resource_classes")
    }
    rows = await tables.rows("SELECT id, uuid, name, parent_provider_id FROM resource_providers")
    uuids = {row["id"]: row["uuid"] for row in rows}
    inventories = await _inventories(tables, classes)
    traits = await _texts(
        tables,
        "SELECT r.resource_provider_id AS owner, t.name AS text FROM resource_provider_traits r"
        " JOIN traits t ON t.id = r.trait_id",
    )
    aggregates = await _texts(
        tables,
        "SELECT r.resource_provider_id AS owner, a.uuid AS text"
        " FROM resource_provider_aggregates r JOIN placement_aggregates a ON a.id = r.aggregate_id",
    )
    found = PlacementRecords()
    found.providers = [
        provider_of(
            row["uuid"],
            row["name"],
            uuids.get(row["parent_provider_id"]),
            inventories.get(row["id"], {}),
            frozenset(traits.get(row["id"], [])),
            tuple(sorted(aggregates.get(row["id"], []))),
        )
        for row in rows
    ]
    found.holdings = await _holdings(tables, uuids, classes)
    found.resource_classes = [name for name in classes.values() if name.startswith(CUSTOM)]
    names = await tables.rows("SELECT name FROM traits ORDER BY id")
    found.traits = [row["name"] for row in names if row["name"].startswith(CUSTOM)]
    return found


async def _inventories(
    tables: TableReader, classes: Mapping[int, str]
) -> dict[int, dict[str, Inventory]]:
    """Return the inventories of each provider, by the number of the provider."""
    found: defaultdict[int, dict[str, Inventory]] = defaultdict(dict)
    for row in await tables.rows("SELECT * FROM inventories"):
        found[row["resource_provider_id"]][classes[row["resource_class_id"]]] = Inventory(
            total=row["total"],
            reserved=row["reserved"],
            min_unit=row["min_unit"],
            max_unit=row["max_unit"],
            step_size=row["step_size"],
            allocation_ratio=row["allocation_ratio"],
        )
    return dict(found)


async def _texts(tables: TableReader, statement: str) -> dict[int, list[str]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for row in await tables.rows(statement):
        found[row["owner"]].append(row["text"])
    return dict(found)


async def _holdings(
    tables: TableReader, uuids: Mapping[int, str], classes: Mapping[int, str]
) -> list[ConsumerAllocations]:
    """Return the allocations of all consumers, ordered by consumer."""
    held: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    rows = await tables.rows(
        "SELECT consumer_id, resource_provider_id, resource_class_id, used FROM allocations"
    )
    for row in rows:
        provider = uuids[row["resource_provider_id"]]
        amounts = held[row["consumer_id"]].setdefault(provider, {})
        amounts[classes[row["resource_class_id"]]] = row["used"]
    owners = await tables.rows(
        "SELECT c.uuid, p.external_id AS project_id, u.external_id AS user_id, t.name AS type"
        " FROM consumers c JOIN projects p ON p.id = c.project_id JOIN users u ON u.id = c.user_id"
        " LEFT JOIN consumer_types t ON t.id = c.consumer_type_id"
    )
    consumers = {row["uuid"]: _consumer(row) for row in owners}
    return [
        ConsumerAllocations(consumers.get(uuid) or Consumer(uuid, "", ""), allocations)
        for uuid, allocations in sorted(held.items())
    ]


def _consumer(row: Row) -> Consumer:
    return Consumer(row["uuid"], row["project_id"], row["user_id"], row["type"])
