"""The changes of a batch as plain rows that either database can store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, cast

from berth.adapters.ledger.engine.codec import BatchEncoder, encode, encode_event, event_kind
from berth.adapters.ledger.engine.listing import is_live
from berth.adapters.ledger.engine.working_set import ChangeSet, WorkingSet
from berth.adapters.ledger.sql import schema
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.record import RECORD_SPECS, Kind, RecordSpec, key_of

Value = str | int | float | bool | None
Row = tuple[Value, ...]

CLAIM_KEYS: Final = schema.claim_keys.name
CHANGES: Final = schema.changes.name
ALLOCATIONS: Final = schema.allocations.name
INVENTORIES: Final = schema.inventories.name

_TABLES: Final = {kind: table.name for kind, table in schema.RECORD_TABLES.items()}


@dataclass(slots=True)
class RowBatch:
    """Everything that a batch stores.

    The changes can be written in the order of the fields. The write-ahead log stores batches as
    maps with these field names, so renaming a field makes logs of older processes unreadable.

    Attributes:
        first: the oldest version of the batch.
        version: the newest version of the batch.
        spent: changes of usage, as (provider, class, difference, resulting usage).
        freed: the consumers whose allocations are deleted.
        emptied: the providers whose inventories are deleted, before those in `inserts` are added.
        removed: the keys of removed records by kind.
        upserts: rows to insert or replace, by table name; each has a value for every column.
        inserts: rows to insert, by table name; each has a value for every column.
        seen: heartbeats, as (host, Unix seconds as JSON text).
        born: the instances that did not exist before the batch.
        generations: the provider's generation for each row of `spent`; batches that an older
            version of Berth has logged have none.
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


def row_batch_of(
    working_set: WorkingSet, change_set: ChangeSet, *, at_s: float, first: int
) -> RowBatch:
    """Return the rows that store what a batch changed.

    Args:
        working_set: the state after the batch.
        change_set: the changes of the batch.
        at_s: the Unix time in seconds to store with claim keys.
        first: the oldest version of the batch.
    """
    batch = RowBatch(first, working_set.version)
    bodies = _write_records(batch, working_set, change_set)
    batch.born = set(change_set.born)
    batch.spent = working_set.spent(change_set)
    batch.generations = working_set.generations(batch.spent)
    batch.freed = list(change_set.freed)
    if change_set.guarded:
        batch.upserts[CLAIM_KEYS] = [(k, v, at_s) for k, v in change_set.guarded.items()]
    if change_set.taken:
        batch.inserts[ALLOCATIONS] = _allocations(working_set, change_set)
    if change_set.claimed:
        batch.inserts[CLAIM_KEYS] = [(k, v, at_s) for k, v in change_set.claimed.items()]
    batch.inserts[CHANGES] = _changes(change_set, bodies)
    batch.seen = [(host, encode(at_s)) for host, at_s in change_set.seen.items()]
    return batch


def _write_records(
    batch: RowBatch, working_set: WorkingSet, change_set: ChangeSet
) -> dict[int, str]:
    """Add the rows and removals of records; return the bodies by the identity of the record.

    A record is encoded only once, although its table and the feed both store it.
    """
    write = BatchEncoder().encode_event
    bodies: dict[int, str] = {}
    rows_of: dict[Kind, list[Row]] = {}
    for (kind, key), record in change_set.puts.items():
        if record is None:
            batch.removed.setdefault(kind, []).append(key)
            continue
        body = bodies[id(record)] = write(record)
        row = (*_COLUMNS[kind](record), body)
        if kind in rows_of:
            rows_of[kind].append(row)
        else:
            rows_of[kind] = batch.upserts[_TABLES[kind]] = [row]
    if Kind.PROVIDER in rows_of or Kind.PROVIDER in batch.removed:
        _write_inventories(batch, working_set, change_set)
    return bodies


def _write_inventories(batch: RowBatch, working_set: WorkingSet, change_set: ChangeSet) -> None:
    for (kind, key), record in change_set.puts.items():
        if kind is Kind.PROVIDER:
            batch.emptied.append(key)
            if isinstance(record, Provider):
                rows = batch.inserts.setdefault(INVENTORIES, [])
                rows.extend(_inventories(working_set, record))


def _inventories(working_set: WorkingSet, provider: Provider) -> list[Row]:
    capacity = working_set.capacities[provider.uuid]
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
            capacity.used[name],
            capacity.generation,
        )
        for name, inventory in provider.inventories.items()
    ]


def _allocations(working_set: WorkingSet, change_set: ChangeSet) -> list[Row]:
    return [
        (consumer, provider, encode(amounts))
        for consumer in change_set.taken
        for provider, amounts in working_set.held.get(consumer, {}).items()
    ]


def _changes(change_set: ChangeSet, bodies: Mapping[int, str]) -> list[Row]:
    rows: list[Row] = []
    version = seq = 0
    for change in change_set.changes:
        seq = seq + 1 if change.version == version else 0
        version, event = change.version, change.event
        body = bodies.get(id(event)) or encode_event(event)
        rows.append((version, seq, event_kind(event), body))
    return rows


# --- the columns of a record, without its body ---

_rarely_changed_of: Final = attrgetter(
    "uuid",
    "project_id",
    "name",
    "reservation_id",
    "request_id",
    "group_uuid",
    "created_at_s",
    "host",
)


def _service_columns(service: Service) -> Row:
    return (service.host, encode(service.last_seen_s))


def _instance_columns(instance: Instance) -> Row:
    flavor = instance.flavor
    return (
        *_rarely_changed_of(instance),
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


def _columns_of(spec: RecordSpec) -> Callable[[Any], Row]:
    """Return a function that reads the key and the columns of a record of a kind."""
    if not spec.columns:
        return lambda record: (key_of(record),)
    # `attrgetter` returns a tuple only when it is given several names.
    if len(spec.columns) == 1:
        value = cast("Callable[[Any], Value]", attrgetter(*spec.columns))
        return lambda record: (key_of(record), value(record))
    values = cast("Callable[[Any], Row]", attrgetter(*spec.columns))
    return lambda record: (key_of(record), *values(record))


_COLUMNS: Final[Mapping[Kind, Callable[[Any], Row]]] = {
    **{kind: _columns_of(spec) for kind, spec in RECORD_SPECS.items()},
    # The columns of these kinds are computed; `schema` lists the same kinds.
    Kind.SERVICE: _service_columns,
    Kind.INSTANCE: _instance_columns,
    Kind.MIGRATION: _migration_columns,
}
