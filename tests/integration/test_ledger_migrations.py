"""The schema of the SQL ledgers: made by migrations, the same as in the code, never too new."""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.ledger.migrating import SCHEMA
from berth.adapters.ledger.sql.schema import metadata
from berth.adapters.ledger.sql.sqlite_file import connect
from berth.domain.errors import LedgerError


def journal_mode_of_new(path: Path, starts: threading.Barrier) -> str:
    """Open a file at the moment when the others do, and tell how it keeps its journal."""
    starts.wait()
    with closing(connect(path)) as connection:
        mode: tuple[str] = connection.execute("PRAGMA journal_mode").fetchone()
        return mode[0]


def differences(connection: Connection) -> list[Any]:
    """Compare a migrated database with the schema in the code."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, metadata))


def test_the_newest_migration_is_the_one_the_code_knows() -> None:
    """`SCHEMA` names the head of the migrations, which are one line without branches."""
    config = Config()
    config.set_main_option("script_location", "berth.adapters.ledger:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA]


async def test_migrations_make_the_sqlite_schema(tmp_path: Path) -> None:
    """A migrated file has the tables, columns and indexes of the schema in the code."""
    path = tmp_path / "ledger.db"
    await migrate(f"sqlite:///{path}")
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert differences(connection) == []
    engine.dispose()


@pytest.mark.postgres
async def test_migrations_make_the_postgres_schema(postgres_url: str) -> None:
    """A migrated database has the tables, columns and indexes of the schema in the code."""
    await migrate(postgres_url)
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(postgres_url)
    )
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Whoever comes first makes the schema; the others find it made."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledgers = await asyncio.gather(*(open_ledger(url) for _ in range(4)))
    assert [await ledger.version() for ledger in ledgers] == [0] * 4
    await asyncio.gather(*(ledger.close() for ledger in ledgers))


def test_connections_that_make_a_file_together_wait_for_each_other(tmp_path: Path) -> None:
    """Turning a new file into a write-ahead log is where SQLite says busy without waiting."""
    with ThreadPoolExecutor(8) as threads:
        for n in range(100):
            path, starts = tmp_path / f"{n}.db", threading.Barrier(8)
            modes = [threads.submit(journal_mode_of_new, path, starts) for _ in range(8)]
            assert [mode.result() for mode in modes] == ["wal"] * 8


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """A file of a newer Berth is left alone, and the error says what to do."""
    path = tmp_path / "ledger.db"
    await migrate(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="upgrade this one"):
        await open_ledger(f"sqlite:///{path}")


@pytest.mark.postgres
async def test_a_newer_database_is_refused(postgres_url: str) -> None:
    """A database of a newer Berth is left alone, and the error says what to do."""
    await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(LedgerError, match="upgrade this one"):
            await open_ledger(postgres_url)
    finally:
        await connection.execute("UPDATE alembic_version SET version_num = $1", SCHEMA)
        await connection.close()


async def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file of another kind, a missing folder and a server that is not there are told."""
    (tmp_path / "text").write_text("no database, but long enough to be mistaken for one" * 100)
    for url in (
        f"sqlite:///{tmp_path / 'text'}",
        f"sqlite:///{tmp_path / 'missing' / 'ledger.db'}",
        "postgresql://postgres@127.0.0.1:1/nothing",
    ):
        with pytest.raises(LedgerError):
            await open_ledger(url)


@pytest.mark.parametrize("url", ["", "ledger.db", "mysql://host/db", "sqlite://", "postgresql://"])
async def test_what_is_no_ledger_url_is_refused(url: str) -> None:
    """The error names the forms that a ledger's URL may have."""
    with pytest.raises(LedgerError, match="memory:"):
        await open_ledger(url)
