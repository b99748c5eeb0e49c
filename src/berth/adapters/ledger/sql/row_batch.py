"""What a judged batch writes down, as plain rows that either database can take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from berth.adapters.ledger.engine.codec import BatchEncoder, encode, encode_event, event_kind
from berth.adapters.ledger.engine.listing import is_live
from berth.adapters.ledger.engine.working_set import ChangeSet, WorkingSet
from berth.adapters.ledger.sql import schema
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.record import Kind
from berth.domain.zones.zone import Zone

Value = str | int | float | bool | None
Row = tuple[Value, ...]

CLAIM_KEYS: Final = schema.claim_keys.name
CHANGES: Final = schema.changes.name
ALLOCATIONS: Final = schema.allocations.name
INVENTORIES: Final = schema.inventories.name


_TABLES: Final = {kind: table.name for kind, table in schema.RECORD_TABLES.items()}


@dataclass(slots=True)
class RowBatch:
    """All that a batch writes down. The order of the fields is the order to write them in.

    `spent` holds (provider, class, difference of used, used); `freed` consumers;
    `removed` keys by kind; `seen` (host, last_seen_s). `emptied` names providers whose
    inventories are replaced by the rows of `inserts`. `upserts` and `inserts` hold rows by the
    name of their table, a value for each column in order. `born` names instances that were not
    there before. `first` is the oldest version in it. `generations` are those of the providers,
    one for each row of `spent`; pages of older Berths have none.
    """

    first: int
    version: int
    spent: list[tuple[str, str, int, int]] = field(default_factory=list[tuple[str, str, int, int]])
    freed: list[str] = field(default_factory=list[str])
    emptied: list[str] = field(default_factory=list[str])
    removed: dict[Kind, list[str]] = field(default_factory=dict[Kind, list[str]])
    upserts: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    inserts: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    seen: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    born: set[str] = field(default_factory=set[str])
    generations: list[int] = field(default_factory=list[int])


def row_batch_of(books: WorkingSet, dirt: ChangeSet, *, at_s: float, first: int) -> RowBatch:
    """Write what a batch did as rows.

    Args:
        books: as they stand after the batch.
        dirt: what the batch did.
        at_s: the time that claim keys bear.
        first: the oldest version of the batch.
    """
    sheets = RowBatch(first, books.version)
    bodies = _write_records(sheets, books, dirt)
    sheets.born = set(dirt.born)
    sheets.spent = books.spent(dirt)
    sheets.generations = books.generations(sheets.spent)
    sheets.freed = list(dirt.freed)
    if dirt.guarded:
        sheets.upserts[CLAIM_KEYS] = [(k, v, at_s) for k, v in dirt.guarded.items()]
    if dirt.taken:
        sheets.inserts[ALLOCATIONS] = _allocations(books, dirt)
    if dirt.claimed:
        sheets.inserts[CLAIM_KEYS] = [(k, v, at_s) for k, v in dirt.claimed.items()]
    sheets.inserts[CHANGES] = _changes(dirt, bodies)
    sheets.seen = [(host, encode(at_s)) for host, at_s in dirt.seen.items()]
    return sheets


def _write_records(sheets: RowBatch, books: WorkingSet, dirt: ChangeSet) -> dict[int, str]:
    """Write the rows of records; return their bodies by the id of the record.

    A record is encoded once, although it is stored and told to the feed too.
    """
    write = BatchEncoder().encode_event
    bodies: dict[int, str] = {}
    rows_of: dict[Kind, list[Row]] = {}
    for (kind, key), record in dirt.puts.items():
        if record is None:
            sheets.removed.setdefault(kind, []).append(key)
            continue
        body = bodies[id(record)] = write(record)
        row = (*_COLUMNS[kind](record), body)
        if kind in rows_of:
            rows_of[kind].append(row)
        else:
            rows_of[kind] = sheets.upserts[_TABLES[kind]] = [row]
    if Kind.PROVIDER in rows_of or Kind.PROVIDER in sheets.removed:
        _write_inventories(sheets, books, dirt)
    return bodies


def _write_inventories(sheets: RowBatch, books: WorkingSet, dirt: ChangeSet) -> None:
    for (kind, key), record in dirt.puts.items():
        if kind is Kind.PROVIDER:
            sheets.emptied.append(key)
            if isinstance(record, Provider):
                rows = sheets.inserts.setdefault(INVENTORIES, [])
                rows.extend(_inventories(books, record))


def _inventories(books: WorkingSet, provider: Provider) -> list[Row]:
    room = books.rooms[provider.uuid]
    return [
        (
            provider.uuid,
            name,
            inventory.total,
            inventory.reserved,
            inventory.min_unit,
            inventory.max_unit,
            inventory.step_size,
            inventory.allocation_ratio,
            inventory.capacity,
            room.used[name],
            room.generation,
        )
        for name, inventory in provider.inventories.items()
    ]


def _allocations(books: WorkingSet, dirt: ChangeSet) -> list[Row]:
    return [
        (consumer, provider, encode(amounts))
        for consumer in dirt.taken
        for provider, amounts in books.held.get(consumer, {}).items()
    ]


def _changes(dirt: ChangeSet, bodies: Mapping[int, str]) -> list[Row]:
    rows: list[Row] = []
    version = seq = 0
    for change in dirt.changes:
        seq = seq + 1 if change.version == version else 0
        version, event = change.version, change.event
        body = bodies.get(id(event)) or encode_event(event)
        rows.append((version, seq, event_kind(event), body))
    return rows


# --- the columns of a record, without its body ---


def _service_columns(service: Service) -> Row:
    return (service.host, encode(service.last_seen_s))


def _aggregate_columns(aggregate: Aggregate) -> Row:
    return (str(aggregate.aggregate_id), aggregate.name)


_settled_of: Final = attrgetter(
    "uuid",
    "project_id",
    "name",
    "reservation_id",
    "request_id",
    "group_uuid",
    "created_at_s",
    "host",
)


def _instance_columns(instance: Instance) -> Row:
    flavor = instance.flavor
    return (
        *_settled_of(instance),
        str(instance.status),
        instance.updated_at_s,
        is_live(instance),
        instance.revision,
        *(instance.counts_as or (flavor.vcpus, flavor.memory_mb)),
        instance.revision,
    )


def _migration_columns(migration: Migration) -> Row:
    return (
        migration.uuid,
        migration.number,
        migration.instance_uuid,
        str(migration.kind),
        migration.status,
        migration.source.host,
        migration.destination.host,
        migration.project_id,
        migration.user_id,
        migration.created_at_s,
        migration.updated_at_s,
        not migration.has_ended,
    )


def _zone_columns(zone: Zone) -> Row:
    return (str(zone.zone_id), zone.name)


def _quota_columns(quota: Quota) -> Row:
    return (quota.project_id,)


_COLUMNS: Final[Mapping[Kind, Callable[[Any], Row]]] = {
    Kind.HOST: attrgetter("uuid", "name", "node"),
    Kind.SERVICE: _service_columns,
    Kind.PROVIDER: attrgetter("uuid", "name", "parent_uuid", "generation"),
    Kind.AGGREGATE: _aggregate_columns,
    Kind.SERVER_GROUP: attrgetter("uuid", "name"),
    Kind.FLAVOR: attrgetter("flavor_id", "name"),
    Kind.INSTANCE: _instance_columns,
    Kind.PENDING_REQUEST: attrgetter("request.request_id", "accepted_at_s"),
    Kind.DECISION: attrgetter("request_id", "decided_at_s"),
    Kind.CONSUMER: attrgetter("uuid", "project_id", "user_id", "generation"),
    Kind.RESOURCE_CLASS: attrgetter("name", "number"),
    Kind.TRAIT: attrgetter("name", "number"),
    Kind.MIGRATION: _migration_columns,
    Kind.ACTION: attrgetter("key", "instance_uuid", "started_at_s"),
    Kind.QUOTA: _quota_columns,
    Kind.ZONE: _zone_columns,
    Kind.ERRAND: attrgetter("instance_uuid", "project_id", "reservation_id", "request_id"),
}
