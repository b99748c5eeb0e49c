"""Bringing the schema of a ledger in PostgreSQL to the version that this Berth knows.

Loaded by who has such a ledger only, since its drivers take long to load.
"""

from typing import Final

import asyncpg
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from berth.adapters.ledger.migrating import FIND_REVISION, SCHEMA, upgrade
from berth.domain.errors import LedgerError

_TIMEOUT_S: Final = 10.0

_LOCK: Final = 0x62_65_72_74_68
"""Number of the PostgreSQL advisory lock that processes which migrate take (`berth`)."""


async def is_current_postgres(url: str) -> bool:
    """Tell whether a database has the newest schema already.

    Raises:
        LedgerError: it cannot be reached.
    """
    try:
        connection = await asyncpg.connect(url, timeout=_TIMEOUT_S)
        try:
            revision = str(await connection.fetchval(FIND_REVISION))
        except asyncpg.UndefinedTableError:
            return False
        finally:
            await connection.close()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise LedgerError(f"the PostgreSQL ledger cannot be opened: {error!r}") from error
    return revision == SCHEMA


async def migrate_postgres(url: str) -> None:
    """Bring a PostgreSQL database to the newest schema.

    Raises:
        LedgerError: it is newer than this Berth, or cannot be reached or written.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(url, timeout=_TIMEOUT_S),
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _LOCK})
            await connection.run_sync(upgrade)
    except (SQLAlchemyError, OSError) as error:
        raise LedgerError(f"the PostgreSQL ledger cannot be migrated: {error}") from error
    finally:
        await engine.dispose()
