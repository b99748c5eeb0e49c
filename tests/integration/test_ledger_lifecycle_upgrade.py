"""A ledger from before migrations and actions existed keeps its content and gains both."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from berth.adapters.ledger import Retention, open_ledger
from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.quota import Footprint
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Committed, Guard, Put, QuotaCheck, Reallocate, Unit
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.testing.builders import (
    make_action,
    make_consumer,
    make_decision,
    make_fleet,
    make_instance,
    make_migration,
    make_pending_request,
    make_share,
    make_take,
)
from berth.testing.ledger_conformance.claims import HOST_1, HOST_2, used_of
from berth.testing.ledger_conformance.fixtures import commit, refused
from berth.testing.ledger_conformance.transfers import LEAVES, MOVE, VM, arrives, holds

# The dump of a file with schema 0003, in which `UNITS` were committed; see `old_file`.
_OLD = Path(__file__).with_name("ledger_0003.sql")

_HERE = make_instance(1, host="host-1")
UNITS: list[Unit] = [
    *make_fleet(2, vcpus=8),
    (make_take(1), Put(_HERE), Put(make_decision(1))),
    (
        make_take(2, on=2, amounts={VCPU: 3}),
        Put(make_instance(2, host="host-2")),
        Put(make_decision(2)),
    ),
    (Reallocate((make_share(1, on_1=2, on_2=1),)),),
    (Put(replace(_HERE, revision=1, status=Status.ACTIVE)),),
    (Put(make_pending_request(3)), Put(make_instance(3))),
    (Guard("group", 6),),
]


def old_file(folder: Path) -> str:
    """Return the URL of a file that an older Berth left when it was killed.

    The newest five of its eight versions are only in the write-ahead log, in three batches.
    """
    path = folder / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_OLD.read_text("utf-8"))
        pages = connection.execute("SELECT first, last FROM daybook ORDER BY first").fetchall()
        assert pages == [(4, 4), (5, 6), (7, 8)]
    return f"sqlite:///{path}"


def make_schema(connection: Connection) -> None:
    """Create the older schema in an empty database."""
    config = Config()
    config.set_main_option("script_location", "berth.adapters.ledger:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "0003")


async def old_database(url: str) -> str:
    """Commit `UNITS` to a database with the older schema, and return its URL.

    This Berth writes more columns of each instance, so they are added for the commit and dropped.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url)
    )
    async with engine.begin() as connection:
        await connection.run_sync(make_schema)
    await engine.dispose()
    newer = ("vcpus", "memory_mb", "counted_revision")
    added = ", ".join(f"ADD COLUMN {name} bigint" for name in newer)
    await _run(url, f"ALTER TABLE instances {added}")
    ledger = await PostgresLedger.open(url, retention=Retention(), now_s=lambda: 7.0)
    await commit(ledger, *UNITS)
    await ledger.close()
    dropped = ", ".join(f"DROP COLUMN {name}" for name in newer)
    await _run(url, f"ALTER TABLE instances {dropped}")
    return url


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def check(ledger: Ledger) -> None:
    """Check that all of `UNITS` is stored, and begin to move an instance."""
    assert await ledger.version() == 8
    assert (await used_of(ledger, HOST_1), await used_of(ledger, HOST_2)) == ({VCPU: 3}, {VCPU: 4})
    found = await ledger.instances(InstanceQuery())
    assert [(one.name, one.revision) for one in found] == [("vm-3", 1), ("vm-2", 1), ("vm-1", 2)]
    assert {(one.action, one.migration_uuid) for one in found} == {(None, None)}
    assert await ledger.project_footprint("project-1") == (3, 3, 3 * 512)
    within = QuotaCheck("project-1", Footprint(instances=3, vcpus=-1, memory_mb=-1))
    assert (await refused(ledger, (Put(make_instance(9)), within))).excess
    assert await ledger.all(PendingRequest) == [make_pending_request(3)]
    assert await ledger.all(Consumer) == [replace(make_consumer(1), generation=1)]
    assert (await ledger.snapshot(0.0)).migrations == ()
    assert [change.version for change in await ledger.changes(3)][-1] == 8
    assert await ledger.commit([(make_take(2, on=2),)]) == [Committed(4, repeated=True)]
    assert (await refused(ledger, (Guard("group", 7), LEAVES))).stale
    assert await ledger.migrations(MigrationQuery()) == []
    move, moved = make_migration(1), replace(_HERE, revision=2, migration_uuid=MOVE.uuid)
    moves: Unit = (LEAVES, arrives(2, 4), Put(moved), Put(move), Put(make_action(1)))
    assert await commit(ledger, moves) == 9
    assert await ledger.get(Instance, VM) == replace(moved, revision=3)
    assert await ledger.actions(VM) == [make_action(1)]
    assert (await ledger.snapshot(0.0)).migrations == (move,)
    assert (await holds(ledger, VM), await holds(ledger, MOVE.uuid)) == (
        {HOST_2: {VCPU: 4}},
        {HOST_1: {VCPU: 1}},
    )


async def test_an_older_file_goes_on_with_moves(tmp_path: Path) -> None:
    """An older file keeps its records and logged batches, stores a move, and survives a restart."""
    url = old_file(tmp_path)
    ledger = await open_ledger(url)
    try:
        await check(ledger)
    finally:
        await ledger.close()
    ledger = await open_ledger(url)
    try:
        assert await ledger.migrations(MigrationQuery(host="host-2")) == [make_migration(1)]
        assert await ledger.all(PendingRequest) == [make_pending_request(3)]
    finally:
        await ledger.close()


async def test_the_first_write_to_an_older_file_may_be_a_move(tmp_path: Path) -> None:
    """A first write may transfer allocations that are only in the file's write-ahead log."""
    ledger = await open_ledger(old_file(tmp_path))
    try:
        second = replace(LEAVES, consumer_uuid=make_instance(2).uuid)
        await commit(ledger, (second, Put(make_migration(1, of=2))))
        assert await holds(ledger, MOVE.uuid) == {HOST_2: {VCPU: 3}}
        assert await used_of(ledger, HOST_2) == {VCPU: 4}
    finally:
        await ledger.close()


@pytest.mark.postgres
async def test_an_older_database_goes_on_with_moves(bare_postgres_url: str) -> None:
    """An older database keeps its records and its whole feed, and stores a move."""
    ledger = await open_ledger(await old_database(bare_postgres_url))
    try:
        await check(ledger)
        assert (await ledger.changes(0))[0].version == 1
    finally:
        await ledger.close()


@pytest.mark.postgres
async def test_a_row_by_an_older_berth_counts_by_its_body(bare_postgres_url: str) -> None:
    """A row that an older Berth has changed is counted by its body, not by its stale columns."""
    ledger = await open_ledger(bare_postgres_url)
    try:
        await commit(ledger, (Put(replace(make_instance(1), counts_as=(4, 2_049))),))
        assert await ledger.project_footprint("project-1") == (1, 4, 2_049)
        later = ((2, "[5,2050]", (1, 5, 2_050)), (3, "null", (1, 1, 512)))
        for revision, said, expected in later:
            await _run(
                bare_postgres_url,
                f"UPDATE instances SET revision = {revision}, body ="  # noqa: S608 - own values
                f" regexp_replace(body, '\"counts_as\":\\[[^]]*\\]', '\"counts_as\":{said}')",
            )
            assert await ledger.project_footprint("project-1") == expected
            within = QuotaCheck(
                "project-1", Footprint(instances=-1, vcpus=expected[1], memory_mb=-1)
            )
            assert (await refused(ledger, (Put(make_instance(2)), within))).excess
    finally:
        await ledger.close()
