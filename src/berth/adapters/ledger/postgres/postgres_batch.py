"""The steps of one batch on a PostgreSQL connection: lock, load, apply, write, commit.

Every writer first locks the row of `head`, so only one transaction at a time, across all processes,
writes to the ledger, and versions become visible in order (docs/adr/0003-change-feed-order.md).
Loading a batch takes one round trip, or two if it checks a quota. Writing it takes one as well,
another if it removes something, and another if it has heartbeats.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import asyncpg
from sqlalchemy import BigInteger, Boolean, Double, Integer, Table, Text
from sqlalchemy.types import TypeEngine

from berth.adapters.ledger.engine.apply import apply_units, required_keys
from berth.adapters.ledger.engine.codec import decode_json
from berth.adapters.ledger.engine.quota_counts import CountedRow, start_counting
from berth.adapters.ledger.engine.working_set import RequiredKeys, WorkingSet
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.loading import keys_in_order, loading_statement, working_set_of
from berth.adapters.ledger.sql.quota_queries import counting_statement
from berth.adapters.ledger.sql.row_batch import Row, RowBatch, Value, row_batch_of
from berth.adapters.ledger.wal.reads import NO_HEAD
from berth.domain.errors import LedgerError
from berth.domain.ledger.change import Change
from berth.domain.ledger.write import Outcome, Unit

CHANNEL: Final = "berth_ledger"
"""The channel on which PostgreSQL notifies listeners of the newest version, in decimal digits."""

_LOCK: Final = "BEGIN; SELECT 1 FROM head FOR UPDATE"

# The condition repeats the check that the batch has passed. The number of changed rows shows
# whether the capacity in the database is what the working set assumed.
_SPEND: Final = """
UPDATE inventories SET used = used + spent.amount, generation = spent.generation
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    AS spent (provider, class, amount, generation)
 WHERE provider_uuid = spent.provider AND resource_class = spent.class
   AND (spent.amount <= 0 OR used + spent.amount <= capacity)"""

_SEE: Final = """
UPDATE services SET last_seen_s = seen.at_s
  FROM unnest($1::text[], $2::text[]) AS seen (host, at_s) WHERE services.host = seen.host"""

# Of the timelines that began before the feed does, only the newest is still needed.
_FORGET_TIMELINES: Final = """
DELETE FROM counters WHERE starts_with(kind, $1) AND last < (
  SELECT max(last) FROM counters, head WHERE starts_with(kind, $1) AND last <= feed_floor)"""

# The names are random, so that two servers which were promoted from copies of the same ledger never
# store the same one.
_BEGIN_TIMELINE: Final = """
INSERT INTO counters (kind, last) VALUES ($1::text || gen_random_uuid(), $2)
RETURNING kind"""

_PARAMETER: Final = re.compile(r"\$(\d+)")

_ARRAYS: Final[tuple[tuple[type[TypeEngine[Any]], str], ...]] = (
    (BigInteger, "bigint"),
    (Integer, "integer"),
    (Double, "float8"),
    (Boolean, "boolean"),
    (Text, "text"),
)


async def begin(connection: asyncpg.Connection) -> None:
    """Begin a transaction and take the lock that admits one writer at a time."""
    await connection.execute(_LOCK)


async def commit(connection: asyncpg.Connection, *, before: int, version: int) -> None:
    """Commit the transaction; if it has a new version, store that and notify listeners of it."""
    # All statements take one round trip. PostgreSQL delivers a notification only if and when its
    # transaction commits, so no listener can be woken before the version is visible.
    news = f"UPDATE head SET version = {version:d}; NOTIFY {CHANNEL}, '{version:d}'; "  # noqa: S608
    await connection.execute(f"{news if version != before else ''}COMMIT")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        outcomes: the outcomes of the units, in order.
        before: the ledger's version before the batch.
        version: the ledger's version after the batch.
        timeline: the newest timeline before the batch.
        changes: the changes of the batch for the feed.
    """

    outcomes: list[Outcome]
    before: int
    version: int
    timeline: str
    changes: Sequence[Change]


async def commit_batch(
    connection: asyncpg.Connection, units: Sequence[Unit], *, at_s: float
) -> BatchResult:
    """Apply units, and store what they changed in the open transaction, which `commit` must end.

    Raises:
        LedgerError: the ledger is damaged, or a unit contains something that cannot be stored.
    """
    required = required_keys(units)
    working_set, timeline = await _load(connection, required)
    if required.projects:
        text = await connection.fetchval(counting_statement("postgresql"), [*required.projects])
        start_counting(working_set, required.projects, decode_json(list[CountedRow], text))
    before = working_set.version
    outcomes = apply_units(working_set, units)
    change_set = working_set.take_changes()
    if working_set.version != before:
        rows = row_batch_of(working_set, change_set, at_s=at_s, first=before + 1)
        await _write(connection, rows)
    return BatchResult(outcomes, before, working_set.version, timeline, change_set.changes)


async def mark_timeline(connection: asyncpg.Connection, *, began: int) -> str:
    """Store that a timeline begins with the version `began`, which the transaction commits.

    Returns:
        The name of the timeline.
    """
    await connection.execute(_FORGET_TIMELINES, schema.TIMELINE)
    return str(await connection.fetchval(_BEGIN_TIMELINE, schema.TIMELINE, began))


async def _load(connection: asyncpg.Connection, required: RequiredKeys) -> tuple[WorkingSet, str]:
    """Return the required part of the ledger, and the newest timeline."""
    kinds = tuple(required.records)
    keys = [list(keys) for keys in keys_in_order(required)]
    row = await connection.fetchrow(loading_statement("postgresql", kinds), *keys)
    if row is None:
        raise LedgerError(NO_HEAD)
    version, timeline, *texts = row
    return working_set_of(kinds, version, texts), timeline


async def _write(connection: asyncpg.Connection, batch: RowBatch) -> None:
    """Write a batch, except its version, in the one order that satisfies every constraint.

    Most batches take one statement; one with removals takes two, and one with heartbeats another.

    Raises:
        LedgerError: an inventory lacks the capacity that the batch was granted.
    """
    # Rows are deleted before others with the same keys are inserted. PostgreSQL checks references
    # at the end of a statement, so their order within a statement does not matter.
    deleted = _deletions(batch)
    if deleted:
        statement = _together(tuple(_deletion(table, column) for table, column, _ in deleted))
        await connection.execute(statement, *(keys for *_, keys in deleted))
    await _write_rows(connection, batch)
    # Heartbeats come last, because the previous statement may insert the services that they update.
    if batch.seen:
        await connection.execute(_SEE, *_columns(batch.seen))


async def _write_rows(connection: asyncpg.Connection, batch: RowBatch) -> None:
    pairs = zip(batch.spent, batch.generations, strict=True)
    spent = [(*row[:3], generation) for row, generation in pairs]
    tables = schema.metadata.tables
    written: list[tuple[str, Sequence[Row]]] = [
        (_SPEND, spent),
        *((_upsert(tables[name]), rows) for name, rows in batch.upserts.items()),
        *((_insert(tables[name]), rows) for name, rows in batch.inserts.items()),
    ]
    written = [(statement, rows) for statement, rows in written if rows]
    if not written:
        return
    changed = await connection.fetchval(
        _together(tuple(statement for statement, _ in written)),
        *(column for _, rows in written for column in _columns(rows)),
    )
    if spent and changed != len(spent):
        raise LedgerError(
            f"only {changed} of {len(spent)} inventories still have the capacity that was "
            "just checked; another program has changed the database (stop it), or the database is "
            "damaged (restore it from a backup)"
        )


def _deletions(batch: RowBatch) -> list[tuple[Table, str, list[str]]]:
    """Return the rows to delete: their tables, the columns that select them, and the keys."""
    found = [
        (schema.allocations, "consumer_uuid", batch.freed),
        (schema.inventories, "provider_uuid", batch.emptied),
        *(
            (schema.RECORD_TABLES[kind], schema.key_column(schema.RECORD_TABLES[kind]).name, keys)
            for kind, keys in batch.removed.items()
        ),
    ]
    return [one for one in found if one[-1]]


def _columns(rows: Sequence[Row]) -> list[list[Value]]:
    """Return the values of the rows by column.

    With one array for each column, any number of rows takes one statement.
    """
    return [list(column) for column in zip(*rows, strict=True)]


@cache
def _together(statements: tuple[str, ...]) -> str:
    """Return one statement that does the same as several statements that change different rows.

    It takes one round trip. Its result is the number of rows that the first statement has changed.
    The parameters of all statements follow one another.
    """
    parts: list[str] = []
    first = 0
    for number, statement in enumerate(statements):
        found = [int(one) for one in _PARAMETER.findall(statement)]
        moved = _PARAMETER.sub(partial(_moved, by=first), statement)
        parts.append(f"s{number} AS ({moved} RETURNING 1)")
        first += max(found)
    return f"WITH {', '.join(parts)} SELECT count(*) FROM s0"  # noqa: S608 - own statements


def _moved(parameter: "re.Match[str]", by: int) -> str:
    return f"${int(parameter[1]) + by}"


@cache
def _deletion(table: Table, column: str) -> str:
    return f"DELETE FROM {table.name} WHERE {column} = ANY($1::text[])"  # noqa: S608 - own names


@cache
def _insert(table: Table) -> str:
    names = ", ".join(column.name for column in table.columns)
    arrays = ", ".join(
        f"${number}::{_array(column.type)}[]" for number, column in enumerate(table.columns, 1)
    )
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608 - own names


@cache
def _upsert(table: Table) -> str:
    key = schema.key_column(table).name
    others = [column.name for column in table.columns if column.name != key]
    updates = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"{_insert(table)} ON CONFLICT ({key}) DO UPDATE SET {updates}"


def _array(column_type: TypeEngine[Any]) -> str:
    return next(name for noun, name in _ARRAYS if isinstance(column_type, noun))
