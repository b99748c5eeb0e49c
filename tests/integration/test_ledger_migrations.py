"""The schema of the SQL ledgers: migrations create what the code defines, and newer ones fail."""

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
from berth.adapters.ledger.schema_migration import READERS_TABLE, REVISION_TABLE, SCHEMA
from berth.adapters.ledger.sql.schema import metadata
from berth.adapters.ledger.sqlite.sqlite_file import connect
from berth.domain.errors import FeedGapError, LedgerError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.change import Change, Usage
from berth.domain.ledger.write import Committed, Guard, Reallocate
from berth.ports.ledger import InstanceQuery
from berth.testing.builders import CREATED_AT_S, make_share, make_take, make_uuid
from berth.testing.ledger_conformance.fixtures import commit, refused

# The dump of a file with schema 0002 whose write-ahead log has batches.
_OLD = Path(__file__).with_name("ledger_0002.sql")


def journal_mode_of_new(path: Path, starts: threading.Barrier) -> str:
    """Open a file at the same time as the other threads, and return its journal mode."""
    starts.wait()
    with closing(connect(path)) as connection:
        mode: tuple[str] = connection.execute("PRAGMA journal_mode").fetchone()
        return mode[0]


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    """Tell whether a name is part of the schema; the table of the readable revision is not."""
    return kind != "table" or name != READERS_TABLE


def differences(connection: Connection) -> list[Any]:
    """Return the differences between a migrated database and the schema in the code."""

    def is_here(_noun: object, name: str | None, *_: object) -> bool:
        """Return False for the index that only PostgreSQL has, in other databases."""
        return connection.dialect.name == "postgresql" or name != "ix_instances_counted"

    options = {
        "compare_type": True,
        "version_table": REVISION_TABLE,
        "include_name": _is_ours,
        "include_object": is_here,
    }
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, metadata))


def test_the_newest_migration_is_the_one_the_code_knows() -> None:
    """`SCHEMA` names the head of the migrations, which have no branches."""
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


def old_file(folder: Path) -> str:
    """Return the URL of a file that a Berth without the Placement API left when it was killed.

    The newest five of its ten versions are only in the write-ahead log, in three batches: instance
    2 was placed on the first host, instance 3 on the second and instance 4 there without a record,
    and instance 1 was freed. Before them the first host's provider was put twice.
    """
    path = folder / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_OLD.read_text("utf-8"))
        pages = connection.execute("SELECT first, last FROM daybook ORDER BY first").fetchall()
        assert pages == [(6, 6), (7, 8), (9, 10)]
    return f"sqlite:///{path}"


async def test_an_older_file_keeps_the_batches_in_its_log(tmp_path: Path) -> None:
    """Claims in the log of an older file are kept, and generations continue."""
    ledger = await open_ledger(old_file(tmp_path))
    try:
        providers = {one.name: one for one in await ledger.all(Provider)}
        used = {name: one.used for name, one in providers.items()}
        assert used == {
            "host-1": {VCPU: 2, MEMORY_MB: 64, DISK_GB: 0},
            "host-2": {VCPU: 5, MEMORY_MB: 0, DISK_GB: 0},
        }
        assert [one.generation for one in providers.values()] == [1, 0]
        names = [(one.name, one.revision) for one in await ledger.instances(InstanceQuery())]
        assert names == [("vm-3", 1), ("vm-2", 1), ("vm-1", 2)]
        holding = await ledger.consumer_allocations(make_uuid("instance", 2))
        assert holding is not None
        assert holding.consumer.project_id == "project-1"
        assert await ledger.consumer_allocations(make_uuid("instance", 1)) is None
        await commit(ledger, (make_take(5),), (Reallocate((make_share(1, on_2=3),)),))
        assert [one.generation for one in await ledger.all(Provider)] == [2, 1]
        assert (await refused(ledger, (make_take(6, on=2),))).shortages
    finally:
        await ledger.close()


async def test_followers_of_an_older_file_load_a_snapshot(tmp_path: Path) -> None:
    """The feed of an older file begins after its last version, as its usage has no generation."""
    ledger = await open_ledger(old_file(tmp_path))
    try:
        assert await ledger.version() == 10
        for after in (0, 5, 9):
            with pytest.raises(FeedGapError):
                await ledger.changes(after)
        assert await ledger.changes(10) == []
        snapshot = await ledger.snapshot(0.0)
        assert (snapshot.version, len(snapshot.instances)) == (10, 3)
        assert {one.last_seen_s for one in snapshot.services} == {CREATED_AT_S, CREATED_AT_S + 7}
        await commit(ledger, (make_take(5),))
        used = {VCPU: 3, MEMORY_MB: 64, DISK_GB: 0}
        assert await ledger.changes(10) == [Change(11, Usage(make_uuid("host", 1), used, 2))]
    finally:
        await ledger.close()


async def test_claims_and_guards_of_an_older_file_are_known(tmp_path: Path) -> None:
    """Claims and guards of an older file and its log are kept, so retries are recognised."""
    ledger = await open_ledger(old_file(tmp_path))
    try:
        again = [(make_take(number, on=2),) for number in (1, 3, 4)]
        outcomes = await ledger.commit(again)
        assert outcomes == [Committed(n, repeated=True) for n in (4, 7, 10)]
        assert (await refused(ledger, (Guard("group", 7), make_take(5)))).stale
        await commit(ledger, (Guard("group", 8, is_shared=True), make_take(5)))
    finally:
        await ledger.close()


async def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """The first process creates the schema; the others find it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledgers = await asyncio.gather(*(open_ledger(url) for _ in range(4)))
    assert [await ledger.version() for ledger in ledgers] == [0] * 4
    await asyncio.gather(*(ledger.close() for ledger in ledgers))


def test_connections_that_make_a_file_together_wait_for_each_other(tmp_path: Path) -> None:
    """Concurrent connections to a new file wait for WAL mode, which SQLite itself does not do."""
    with ThreadPoolExecutor(8) as threads:
        for n in range(100):
            path, starts = tmp_path / f"{n}.db", threading.Barrier(8)
            modes = [threads.submit(journal_mode_of_new, path, starts) for _ in range(8)]
            assert [mode.result() for mode in modes] == ["wal"] * 8


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """A file of a newer Berth is left alone, and the error names the remedy."""
    path = tmp_path / "ledger.db"
    await migrate(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="upgrade this Berth"):
        await open_ledger(f"sqlite:///{path}")


@pytest.mark.postgres
async def test_a_newer_database_is_refused(postgres_url: str) -> None:
    """A database of a newer Berth is left alone, and the error names the remedy."""
    await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(LedgerError, match="upgrade this Berth"):
            await open_ledger(postgres_url)
    finally:
        await connection.execute("UPDATE alembic_version SET version_num = $1", SCHEMA)
        await connection.close()


async def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file of another kind, a missing folder and an unreachable server are reported."""
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
    """The error names the valid forms of a ledger's URL."""
    with pytest.raises(LedgerError, match="memory:"):
        await open_ledger(url)
