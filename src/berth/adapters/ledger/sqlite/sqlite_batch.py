"""The statements that load a batch from a SQLite file and write it there.

Python's sqlite3 releases the interpreter lock at every step of a statement, that is, for every row,
and takes it again. While another thread executes Python code, each such step costs up to 5 ms.
Every statement here therefore has a single step: rows are loaded as one row of JSON, and written by
multi-row statements. `OR ROLLBACK` spares SQLite the journal that it would keep to undo one
statement. The functions raise `sqlite3.Error` if SQLite fails.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from sqlalchemy import Table

from berth.adapters.ledger.engine.codec import encode
from berth.adapters.ledger.engine.working_set import RequiredKeys
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.loading import keys_in_order, loading_statement
from berth.adapters.ledger.sql.quota_queries import counting_statement
from berth.adapters.ledger.sql.row_batch import Row, RowBatch, Value
from berth.domain.errors import LedgerError
from berth.domain.ledger.record import Kind

Loaded = tuple[int | None, int, *tuple[str, ...]]
"""The first logged version (None if the log is empty), the newest version, and JSON texts.

The texts are those that `working_set_of` expects.
"""

_STATE: Final = "SELECT (SELECT min(first) FROM daybook), version FROM head"

# The JSON texts of claim keys, allocations, providers and inventories if a batch requires none.
_NOTHING: Final = ("[]",) * 4

# One statement has at most this many rows, so its parameters stay far below SQLite's limit of
# 32,766.
_ROWS_MAX: Final = 256

# The condition repeats the check that the batch has passed. The number of changed rows shows
# whether the capacity in the file is what the working set assumed.
_SPEND: Final = """
UPDATE OR ROLLBACK inventories SET used = used + spent.column3, generation = spent.column4
  FROM (VALUES {values}) AS spent
 WHERE provider_uuid = spent.column1 AND resource_class = spent.column2
   AND (spent.column3 <= 0 OR used + spent.column3 <= capacity)"""

# Checkpoints use this statement. It writes usage as an absolute value and never lowers a
# generation, so a step that was done before an interruption can be done again.
_USE: Final = """
UPDATE OR ROLLBACK inventories
   SET used = now.column3, generation = max(generation, now.column4)
  FROM (VALUES {values}) AS now
 WHERE provider_uuid = now.column1 AND resource_class = now.column2
   AND now.column3 <= max(used, capacity)"""

_SEE: Final = """
UPDATE OR ROLLBACK services SET last_seen_s = seen.column2
  FROM (VALUES {values}) AS seen WHERE host = seen.column1"""


def load(connection: sqlite3.Connection, required: RequiredKeys) -> Loaded:
    """Return the state of the file and the rows of the required keys, loaded by one statement."""
    all_keys = keys_in_order(required)
    if not any(all_keys):
        first, version = read_state(connection)
        return (first, version, *_NOTHING)
    parameters = tuple(encode(list(keys)) for keys in all_keys)
    row: Loaded = connection.execute(
        loading_statement("sqlite", tuple(required.records)), parameters
    ).fetchone()
    return row


def load_counted(connection: sqlite3.Connection, projects: Collection[str]) -> str:
    """Return a JSON array of `CountedRow` for the projects' instances, as the tables have them."""
    found: tuple[str] = connection.execute(
        counting_statement("sqlite"), (encode(list(projects)),)
    ).fetchone()
    return found[0]


def read_state(connection: sqlite3.Connection) -> tuple[int | None, int]:
    """Return the first logged version, or None if the log is empty, and the newest version."""
    state: tuple[int | None, int] = connection.execute(_STATE).fetchone()
    return state


def write(connection: sqlite3.Connection, batch: RowBatch) -> None:
    """Write a batch to the tables, in the one order that satisfies every constraint.

    Raises:
        LedgerError: an inventory lacks the capacity that the batch was granted; the caller must
            roll back.
    """
    # Usage is written first, because nothing else need be written if the capacity check fails.
    spent = [(*row[:3], number) for row, number in _with_generations(batch)]
    _check_spent(batch, _run(connection, _SPEND, spent))
    # Allocations are deleted before the providers that they refer to, and before the new
    # allocations of the same consumers are inserted.
    _delete(connection, schema.allocations, "consumer_uuid", batch.freed)
    _delete(connection, schema.inventories, "provider_uuid", batch.emptied)
    for kind, keys in batch.removed.items():
        _remove(connection, kind, keys)
    for name in batch.upserts:
        _write_upserts(connection, batch, name)
    for name, rows in batch.inserts.items():
        _run(connection, _insert(schema.metadata.tables[name]), rows)
    _run(connection, _SEE, batch.seen)
    connection.execute("UPDATE head SET version = ?", (batch.version,))


Step = Callable[[sqlite3.Connection], None]


def checkpoint_steps(batch: RowBatch, *, in_doubt: bool = False) -> list[Step]:
    """Return the steps that write merged batches to the tables; each may have its own transaction.

    No step writes the ledger's version, which was advanced when the batches were logged.

    Args:
        batch: the merged batches.
        in_doubt: whether some of the steps may have been done before.
    """
    kinds = {schema.KIND_OF_TABLE.get(name) for name in batch.upserts} | batch.removed.keys()
    # If `in_doubt`, the interrupted checkpoint has inserted the rows whose keys exist.
    conflict = "IGNORE" if in_doubt else "ROLLBACK"
    return [
        *(
            partial(_checkpoint_kind, batch=batch, kind=kind)
            for kind in Kind
            if kind in kinds and kind is not Kind.CONSUMER
        ),
        partial(_checkpoint_claims, batch=batch, conflict=conflict),
        partial(_checkpoint_rows, table=schema.changes, batch=batch, conflict=conflict),
        partial(_checkpoint_usage, batch=batch),
    ]


def _checkpoint_kind(connection: sqlite3.Connection, batch: RowBatch, kind: Kind) -> None:
    _remove(connection, kind, batch.removed.get(kind, []))
    _write_upserts(connection, batch, schema.RECORD_TABLES[kind].name)


def _checkpoint_claims(connection: sqlite3.Connection, batch: RowBatch, conflict: str) -> None:
    """Write consumers, their allocations and the claim keys.

    Each generation of a consumer belongs to one set of allocations, so no reader may see one
    without the other.
    """
    _checkpoint_kind(connection, batch, Kind.CONSUMER)
    _delete(connection, schema.allocations, "consumer_uuid", batch.freed)
    _checkpoint_rows(connection, schema.allocations, batch, conflict)
    _write_upserts(connection, batch, schema.claim_keys.name)
    _checkpoint_rows(connection, schema.claim_keys, batch, conflict)


def _checkpoint_rows(
    connection: sqlite3.Connection, table: Table, batch: RowBatch, conflict: str
) -> None:
    _run(connection, _insert(table, conflict), batch.inserts.get(table.name, ()))


def _checkpoint_usage(connection: sqlite3.Connection, batch: RowBatch) -> None:
    used = [(p, c, amount, number) for (p, c, _, amount), number in _with_generations(batch)]
    _check_spent(batch, _run(connection, _USE, used))
    _run(connection, _SEE, batch.seen)


def _with_generations(batch: RowBatch) -> Iterator[tuple[tuple[str, str, int, int], int]]:
    return zip(batch.spent, batch.generations, strict=True)


def _check_spent(batch: RowBatch, changed: int) -> None:
    if changed != len(batch.spent):
        raise LedgerError(
            f"only {changed} of {len(batch.spent)} inventories still have the capacity that was "
            "just checked; another program has changed the ledger's file (stop it), or the file is "
            "damaged (restore it from a backup)"
        )


def _remove(connection: sqlite3.Connection, kind: Kind, keys: list[str]) -> None:
    table = schema.RECORD_TABLES[kind]
    _delete(connection, table, schema.key_column(table).name, keys)


def _write_upserts(connection: sqlite3.Connection, batch: RowBatch, name: str) -> None:
    table, rows = schema.metadata.tables[name], batch.upserts.get(name, ())
    _run(connection, _upsert(table), rows)
    if table in schema.RARELY_CHANGED:
        _run(connection, _rewrite_rarely_changed(table), _rarely_changed(table, rows, batch.born))


def _delete(connection: sqlite3.Connection, table: Table, column: str, keys: list[str]) -> None:
    if keys:
        connection.execute(_deletion(table, column), (encode(keys),))


@cache
def _deletion(table: Table, column: str) -> str:
    among = "(SELECT value FROM json_each(?))"
    return f"DELETE FROM {table.name} WHERE {column} IN {among}"  # noqa: S608 - own names


def _run(connection: sqlite3.Connection, template: str, rows: Sequence[Row]) -> int:
    """Run a statement on rows, up to 256 at a time; return the number of rows that it changed.

    The number of rows in a statement is rounded up to a power of two, so that few distinct
    statements are prepared. The statements ignore the rows of NULL that fill the gap.
    """
    changed = 0
    remaining = iter(rows)
    while chunk := list(islice(remaining, _ROWS_MAX)):
        width, count = len(chunk[0]), 1 << (len(chunk) - 1).bit_length()
        padding: tuple[Value, ...] = (None,) * (width * (count - len(chunk)))
        parameters = (*chain.from_iterable(chunk), *padding)
        changed += connection.execute(_filled(template, width, count), parameters).rowcount
    return changed


@cache
def _filled(template: str, width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return template.format(values=", ".join([row] * count))


@cache
def _insert(table: Table, conflict: str = "ROLLBACK") -> str:
    names = ", ".join(column.name for column in table.columns)
    rows = "SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"
    return f"INSERT OR {conflict} INTO {table.name} ({names}) {rows}"


@cache
def _upsert(table: Table) -> str:
    key = schema.key_column(table).name
    kept = {key, *schema.RARELY_CHANGED.get(table, ())}
    others = [column.name for column in table.columns if column.name not in kept]
    updates = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"{_insert(table)} ON CONFLICT ({key}) DO UPDATE SET {updates}"


@cache
def _rewrite_rarely_changed(table: Table) -> str:
    """Return the statement that updates rarely changed columns in the rows where they differ.

    SQLite updates an index whenever one of its columns is assigned, even if the value is the same.
    An upsert that assigned all columns would cost a third more.
    """
    names = schema.RARELY_CHANGED[table]
    values = ", ".join(f"new.column{number}" for number in range(2, len(names) + 2))
    return (
        f"UPDATE OR ROLLBACK {table.name} SET ({', '.join(names)}) = ({values})"  # noqa: S608 - own names
        " FROM (VALUES {values}) AS new"
        f" WHERE {schema.key_column(table).name} = new.column1"
        f" AND ({', '.join(names)}) IS NOT ({values})"
    )


def _rarely_changed(table: Table, rows: Sequence[Row], born: Collection[str]) -> list[Row]:
    """Return the key and the rarely changed columns of the rows that may have existed before."""
    columns = {column.name: number for number, column in enumerate(table.columns)}
    key = columns[schema.key_column(table).name]
    picked = itemgetter(key, *(columns[name] for name in schema.RARELY_CHANGED[table]))
    return [picked(row) for row in rows if row[key] not in born]
