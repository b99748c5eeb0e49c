"""Functions that open or migrate the ledger at a URL."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.ledger_url import parse_url
from berth.adapters.ledger.memory import MemoryLedger
from berth.adapters.ledger.schema_migration import (
    Schema,
    migrate_sqlite,
    schema_of_sqlite,
)
from berth.adapters.ledger.sql.write_requests import TIMEOUT_S
from berth.adapters.ledger.sqlite.sqlite_ledger import SqliteLedger
from berth.ports.ledger import Ledger

MEMORY: Final = "memory:"
"""The URL of a ledger in memory."""

_DEFAULT: Final = Retention()


async def open_ledger(
    url: str,
    *,
    retention: Retention = _DEFAULT,
    now_s: Callable[[], float] = time.time,
    timeout_s: float = TIMEOUT_S,
    on_batch: Callable[[int, float], None] | None = None,
    on_failure: Callable[[BaseException], None] | None = None,
) -> Ledger:
    """Return an open ledger, after creating or migrating its schema.

    Args:
        url: `memory:`, `sqlite:///PATH` (four slashes for an absolute path) or
            `postgresql://USER@HOST/DATABASE`; several hosts, separated by commas, are a primary and
            its replicas.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds.
        timeout_s: seconds that a PostgreSQL server may take to answer; unused by other ledgers.
        on_batch: called after each batch, possibly in another thread, with the number of its units
            and the seconds that its commit took. Never called for a ledger in memory, which has no
            batches.
        on_failure: called with an error of the writer that no caller receives, possibly in another
            thread. Never called for a ledger in memory.

    Raises:
        LedgerError: the URL has none of these forms, the store cannot be opened, or its schema is
            too new for this version of Berth.
    """
    if url == MEMORY:
        return MemoryLedger(retention=retention, now_s=now_s)
    await migrate(url)
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger  # noqa: PLC0415 - see below

        return await PostgresLedger.open(
            url,
            retention=retention,
            now_s=now_s,
            timeout_s=timeout_s,
            on_batch=on_batch,
            on_failure=on_failure,
        )
    return SqliteLedger(
        Path(parsed.database or ""),
        retention=retention,
        now_s=now_s,
        on_batch=on_batch,
        on_failure=on_failure,
    )


async def migrate(url: str) -> None:
    """Migrate a ledger to the newest schema known here, unless its schema is as new or newer.

    Raises:
        LedgerError: see `open_ledger`; a newer schema is an error only if this version of Berth
            cannot use it.
    """
    found = await schema_of(url)
    if found is not None:
        found.check()
    if url == MEMORY or (found is not None and found.serves):
        return
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        from berth.adapters.ledger.postgres import postgres_migration  # noqa: PLC0415 - see `schema_of`

        await postgres_migration.migrate_postgres(url)
    else:
        await asyncio.to_thread(migrate_sqlite, Path(parsed.database or ""))


async def schema_of(url: str) -> Schema | None:
    """Return the schema of a ledger, or None if it has no tables or is in memory.

    Raises:
        LedgerError: the URL is invalid, or the store cannot be opened.
    """
    if url == MEMORY:
        return None
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        # Imported here because the drivers take long to load and a ledger in a file needs none.
        from berth.adapters.ledger.postgres import postgres_migration  # noqa: PLC0415

        return await postgres_migration.schema_of_postgres(url)
    return await asyncio.to_thread(schema_of_sqlite, Path(parsed.database or ""))
