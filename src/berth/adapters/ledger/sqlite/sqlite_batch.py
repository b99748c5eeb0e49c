"""What a batch reads and writes on a SQLite connection.

Python's sqlite3 gives the interpreter lock away and takes it back at every step of a statement,
that is for every row. Beside a thread that is busy with Python each time costs up to 5 ms, so
here every statement is one step, whatever the size of the batch: what is loaded comes as one row
of JSON, and rows are written by one multi-row statement. `OR ROLLBACK` spares SQLite the journal
that it would keep to undo such a statement alone.
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
"""The first version in the daybook, the newest of all, and texts of JSON."""

_STATE: Final = "SELECT (SELECT min(first) FROM daybook), version FROM head"

_NOTHING: Final = ("[]",) * 4
"""Claim keys, allocations, providers and inventories of a batch that needs none."""

_ROWS_MAX: Final = 256
"""Rows of one statement: 256 x 13 columns stay far below SQLite's 32,766 parameters."""

_SPEND: Final = """
UPDATE OR ROLLBACK inventories SET used = used + spent.column3, generation = spent.column4
  FROM (VALUES {values}) AS spent
 WHERE provider_uuid = spent.column1 AND resource_class = spent.column2
   AND (spent.column3 <= 0 OR used + spent.column3 <= capacity)"""

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
    """Load what judging needs, in one step."""
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
    """Return what the instances of projects count for, as the table of instances has them."""
    found: tuple[str] = connection.execute(
        counting_statement("sqlite"), (encode(list(projects)),)
    ).fetchone()
    return found[0]


def read_state(connection: sqlite3.Connection) -> tuple[int | None, int]:
    """Return the first version in the daybook and the newest of all, as `load` does."""
    state: tuple[int | None, int] = connection.execute(_STATE).fetchone()
    return state


def write(connection: sqlite3.Connection, batch: RowBatch) -> None:
    """Write down what a batch did, in the one order that keeps every constraint satisfied.

    Raises:
        LedgerError: an inventory had no room for what was judged to fit: nothing is committed.
    """
    spent = [(*row[:3], number) for row, number in _with_generations(batch)]
    _check_spent(batch, _run(connection, _SPEND, spent))
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
    """Return what writes down what pages came to, table by table, each in any transaction.

    The version is left alone, since it counted already when the pages were written.

    Args:
        batch: what the pages came to.
        in_doubt: some of the steps may have been done before.
    """
    kinds = {schema.KIND_OF_TABLE.get(name) for name in batch.upserts} | batch.removed.keys()
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
    """Write allocations together with consumers, whose generations say which they go with."""
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
            f"{changed} of {len(batch.spent)} inventories had the room that was counted on; "
            "the ledger's file was changed by something else, or is damaged"
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
    """Run a statement on rows, many at a time; return how many rows it changed.

    The number of rows is rounded up to a power of two, with rows of NULL that the statements
    pass over, so that few different statements are ever prepared.
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
    """Write settled columns where they differ after all.

    SQLite writes every index whose column is assigned, though to the same value; an upsert that
    left nothing out would cost a third more.
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
    """Return key and settled columns of the rows that may have been there before."""
    columns = {column.name: number for number, column in enumerate(table.columns)}
    key = columns[schema.key_column(table).name]
    picked = itemgetter(key, *(columns[name] for name in schema.RARELY_CHANGED[table]))
    return [picked(row) for row in rows if row[key] not in born]
