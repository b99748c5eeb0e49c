"""Migration of a PostgreSQL ledger to the schema of this version of Berth.

This module is imported only for such ledgers, because the drivers take long to load.
"""

from typing import Any, Final

import asyncpg
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from berth.adapters.ledger.postgres.postgres_connection import LOST, connect_to_primary
from berth.adapters.ledger.schema_migration import FIND_READABLE_BY, FIND_REVISION, Schema, upgrade
from berth.domain.errors import LedgerError

_TIMEOUT_S: Final = 10.0

# The key of the advisory lock that migrating processes take: `berth` in ASCII.
_LOCK: Final = 0x62_65_72_74_68


async def schema_of_postgres(url: str) -> Schema | None:
    """Return the schema of a database, or None if it has no tables.

    Raises:
        LedgerError: the database cannot be reached, or refuses the connection.
    """
    try:
        connection = await connect_to_primary(url, timeout=_TIMEOUT_S, command_timeout=_TIMEOUT_S)
        try:
            revision = await _ask(connection, FIND_REVISION)
            return Schema.of(revision, await _ask(connection, FIND_READABLE_BY))
        finally:
            await connection.close()
    except (*LOST, asyncpg.PostgresError) as error:
        raise LedgerError(
            f"the PostgreSQL ledger cannot be opened ({str(error) or type(error).__name__}); check "
            "the ledger URL and the server"
        ) from error


async def _ask(connection: Any, query: str) -> str | None:  # noqa: ANN401 - asyncpg has no types
    try:
        found = await connection.fetchval(query)
    except asyncpg.UndefinedTableError:
        return None
    return None if found is None else str(found)


async def migrate_postgres(url: str) -> None:
    """Migrate a PostgreSQL database to the newest schema.

    Raises:
        LedgerError: the schema is too new for this version of Berth, or the database cannot be
            reached or written.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect_to_primary(url, timeout=_TIMEOUT_S),
    )
    try:
        async with engine.begin() as connection:
            # If several processes start together, one of them migrates; the others wait for the
            # lock and then find the schema current. The lock ends with the transaction.
            await connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _LOCK})
            await connection.run_sync(upgrade)
    except (SQLAlchemyError, *LOST) as error:
        raise LedgerError(
            f"the PostgreSQL ledger cannot be migrated ({error}); check that its user may change "
            "the schema"
        ) from error
    finally:
        await engine.dispose()
