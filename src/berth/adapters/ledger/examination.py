"""Facts about a ledger's store for operators, read without changing the store."""

import asyncio
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from berth.adapters.ledger.ledger_url import parse_url
from berth.domain.errors import LedgerError

_TIMEOUT_S: Final = 5.0
# An update that changes nothing takes every step of a write, up to the commit that is left out.
_PROBE: Final = "UPDATE schema_revision SET version_num = version_num"
_SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_commit", "max_connections")


@dataclass(frozen=True, slots=True)
class Examination:
    """Facts about a store.

    Attributes:
        store: the name and version of the database program.
        write_error: why a write, which was rolled back, failed; empty if it succeeded.
        clock_ahead_s: seconds by which the server's clock is ahead of this machine's; None for a
            file.
        settings: the server's settings that durability and capacity depend on, by name.
        connections: number of connections to the server that are in use.
    """

    store: str
    write_error: str = ""
    clock_ahead_s: float | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])
    connections: int = 0


async def examine_store(url: str) -> Examination:
    """Return facts about the store of a ledger that has tables.

    Args:
        url: `sqlite:///PATH` of a file that exists, or `postgresql://...`.

    Raises:
        LedgerError: the store cannot be opened; the error has no password.
    """
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        return await _examine_postgres(url)
    return await asyncio.to_thread(_examine_sqlite, Path(parsed.database or ""))


def _examine_sqlite(path: Path) -> Examination:
    # In the mode `rw` SQLite does not create a missing file.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_TIMEOUT_S, isolation_level=None
    )
    error = ""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_PROBE)
        connection.execute("ROLLBACK")
    except sqlite3.Error as failure:
        error = str(failure)
    finally:
        connection.close()
    return Examination(f"SQLite {sqlite3.sqlite_version}", error)


async def _examine_postgres(url: str) -> Examination:
    # Imported here because the drivers take long to load and a ledger in a file needs none.
    import asyncpg  # noqa: PLC0415

    from berth.adapters.ledger.postgres.postgres_connection import (  # noqa: PLC0415
        LOST,
        connect_to_primary,
    )

    try:
        connection = await connect_to_primary(url, timeout=_TIMEOUT_S, command_timeout=_TIMEOUT_S)
        try:
            return await _facts(connection, await _write_error(connection))
        finally:
            connection.terminate()
    except (*LOST, asyncpg.PostgresError) as error:
        raise LedgerError(
            f"the PostgreSQL ledger cannot be examined ({str(error) or type(error).__name__}); "
            "check the ledger URL and the server"
        ) from error


async def _write_error(connection: Any) -> str:  # noqa: ANN401 - asyncpg has no types
    import asyncpg  # noqa: PLC0415 - see above

    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(_PROBE)
    except asyncpg.PostgresError as error:
        return str(error)
    finally:
        await transaction.rollback()
    return ""


async def _facts(connection: Any, write_error: str) -> Examination:  # noqa: ANN401 - see above
    before_s = time.time()
    server_s = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
    middle_s = (before_s + time.time()) / 2
    settings = {name: str(await connection.fetchval(f"SHOW {name}")) for name in _SETTINGS}
    used = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    )
    version = await connection.fetchval("SHOW server_version")
    return Examination(
        f"PostgreSQL {version}", write_error, server_s - middle_s, settings, int(used)
    )
