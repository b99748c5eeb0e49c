"""Opening a ledger by its URL."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from berth.adapters.ledger.memory import MemoryLedger
from berth.adapters.ledger.migrating import is_current_sqlite, migrate_sqlite, parse_url
from berth.adapters.ledger.retention import Retention
from berth.adapters.ledger.sqlite import SqliteLedger
from berth.ports.ledger import Ledger

MEMORY: Final = "memory:"

_DEFAULT: Final = Retention()


async def open_ledger(
    url: str,
    *,
    retention: Retention = _DEFAULT,
    now_s: Callable[[], float] = time.time,
    on_batch: Callable[[int, float], None] | None = None,
) -> Ledger:
    """Open a ledger, with its schema made or brought up to date.

    Args:
        url: `memory:`, `sqlite:///PATH` (four slashes for an absolute path) or
            `postgresql://USER@HOST/DATABASE`.
        retention: how much of the past to keep.
        now_s: tells Unix time in seconds.
        on_batch: told of each batch, perhaps in another thread: its units, and the seconds that
            its commit took. Nobody is told of a ledger in memory, which has no batches.

    Raises:
        LedgerError: the URL is none of these, or the store cannot be opened, or its schema is
            newer than this Berth.
    """
    if url == MEMORY:
        return MemoryLedger(retention=retention, now_s=now_s)
    await migrate(url)
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        from berth.adapters.ledger.postgres import PostgresLedger  # noqa: PLC0415 - see `migrate`

        return await PostgresLedger.open(url, retention=retention, now_s=now_s, on_batch=on_batch)
    return SqliteLedger(
        Path(parsed.database or ""), retention=retention, now_s=now_s, on_batch=on_batch
    )


async def migrate(url: str) -> None:
    """Bring a ledger's schema to the newest; a ledger in memory has none.

    Raises:
        LedgerError: see `open_ledger`.
    """
    if url == MEMORY:
        return
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        # Not at the top: its drivers take long to load, and a ledger in a file needs none.
        from berth.adapters.ledger import migrating_postgres as postgres  # noqa: PLC0415

        if not await postgres.is_current_postgres(url):
            await postgres.migrate_postgres(url)
        return
    path = Path(parsed.database or "")
    if not await asyncio.to_thread(is_current_sqlite, path):
        await asyncio.to_thread(migrate_sqlite, path)
