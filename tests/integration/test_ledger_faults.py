"""Ledgers under faults: full disks, locks, lost connections, units that cannot be stored."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import asyncpg
import pytest

from berth.adapters.ledger import SqliteLedger, migrate, open_ledger
from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger
from berth.adapters.ledger.postgres.postgres_writer import PostgresWriter
from berth.adapters.ledger.sql.row_batch import RowBatch
from berth.adapters.ledger.sqlite.sqlite_batch import write
from berth.adapters.ledger.sqlite.transactor import Transactor
from berth.domain.errors import LedgerError, UnavailableError
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.write import Committed, Put, Rejected, Unit
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_decision,
    make_flavor,
    make_fleet,
    make_host,
    make_provider,
    make_take,
    make_uuid,
)
from berth.testing.emptying import empty

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


@pytest.fixture
async def sqlite(fresh_sqlite_url: str) -> AsyncGenerator[SqliteLedger, None]:
    """Yield an empty SQLite ledger."""
    ledger = await open_ledger(fresh_sqlite_url)
    assert isinstance(ledger, SqliteLedger)
    yield ledger
    await ledger.close()


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncGenerator[PostgresLedger, None]:
    """Yield an empty PostgreSQL ledger."""
    await migrate(postgres_url)
    await empty(postgres_url)
    ledger = await open_ledger(postgres_url)
    assert isinstance(ledger, PostgresLedger)
    yield ledger
    await ledger.close()


async def check_neighbours(ledger: Ledger, bad: Unit) -> None:
    """Check that a unit which cannot be stored fails alone in a shared transaction."""
    answers = await asyncio.gather(
        ledger.commit([(Put(make_flavor(1)),)]),
        ledger.commit([(Put(make_flavor(2)),), bad]),
        ledger.commit([(Put(make_flavor(3)),)]),
        return_exceptions=True,
    )
    assert isinstance(answers[1], LedgerError)
    assert answers[0] == [Committed(1)]
    assert answers[2] == [Committed(2)]
    assert await ledger.version() == 2


UNSTORABLE: list[Unit] = [
    (Put(replace(make_host(1), name="\ud800")),),
    (Put(replace(make_decision(1), decided_at_s=float("nan"))),),
]


@pytest.mark.parametrize("bad", UNSTORABLE, ids=["surrogate", "nan"])
async def test_sqlite_fails_only_what_cannot_be_stored(sqlite: SqliteLedger, bad: Unit) -> None:
    """Callers that share a batch with such a unit are answered as if it were not there."""
    await check_neighbours(sqlite, bad)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "bad",
    [*UNSTORABLE, (Put(replace(make_host(1), name="\x00")),)],
    ids=["surrogate", "nan", "nul"],
)
async def test_postgres_fails_only_what_cannot_be_stored(
    postgres: PostgresLedger, bad: Unit
) -> None:
    """Callers that share a batch with such a unit are answered as if it were not there."""
    await check_neighbours(postgres, bad)


async def test_a_full_disk_refuses_commits_until_it_has_space(sqlite: SqliteLedger) -> None:
    """No commit succeeds while the file cannot grow; once it can, commits succeed again."""
    await sqlite.commit(make_fleet(1))
    connection = sqlite._writer._connection
    connection.execute("PRAGMA max_page_count = 1")
    big = [(Put(replace(make_flavor(n), description="x" * 10_000)),) for n in range(20)]
    answers = await asyncio.gather(sqlite.commit(big), sqlite.commit(big), return_exceptions=True)
    assert [type(answer) for answer in answers] == [UnavailableError] * 2
    assert await sqlite.version() == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    assert await sqlite.commit([(make_take(1),)]) == [Committed(2)]


async def test_probes_name_a_full_disk(sqlite: SqliteLedger) -> None:
    """The readiness names a full disk, and is good again once there is space, without a request."""
    connection = sqlite._writer._connection
    await sqlite.commit(make_fleet(1))
    connection.execute("PRAGMA max_page_count = 1")
    assert await sqlite.write_fault() is None
    with pytest.raises(UnavailableError):
        await sqlite.commit([(Put(replace(make_flavor(1), description="x" * 100_000)),)])
    for _ in range(2):
        assert await sqlite.write_fault() == "the disk of the ledger is full"
    connection.execute("PRAGMA max_page_count = 1000000")
    assert await sqlite.write_fault() is None
    assert await sqlite.version() == 1


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["_drain", "_finish", "_roll_back", "_connected"])
async def test_the_writer_of_postgres_survives_any_error(
    postgres: PostgresLedger, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """After an error where none is expected, callers get an answer, and the next commit succeeds.

    Before, the writer's task ended, and every later request waited for ever.
    """
    reported: list[BaseException] = []
    postgres._writer._on_failure = reported.append
    await postgres.commit(make_fleet(1))
    real = getattr(PostgresWriter, step)
    faults = iter([MemoryError(), MemoryError()])

    def fail_twice(self: PostgresWriter, *values: object) -> object:
        for fault in faults:
            raise fault
        return real(self, *values)

    monkeypatch.setattr(PostgresWriter, step, fail_twice)
    # A unit that cannot be stored makes the writer roll back.
    for _ in range(2):
        with pytest.raises((LedgerError, UnavailableError)):
            await asyncio.wait_for(postgres.commit([UNSTORABLE[0]]), 10)
    assert await postgres.commit([(make_take(1),)]) == [Committed(2)]
    assert await postgres.write_fault() is None
    assert {type(error) for error in reported} <= {MemoryError}


@pytest.mark.postgres
async def test_a_cancelled_writer_of_postgres_is_replaced(
    postgres: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the writer's task is cancelled, its callers get an answer, and another task continues."""
    await postgres.commit(make_fleet(1))
    begun = asyncio.Event()
    real = PostgresWriter._finish

    async def begin(self: PostgresWriter, *values: Any) -> None:  # noqa: ANN401 - passed on
        begun.set()
        await real(self, *values)

    monkeypatch.setattr(PostgresWriter, "_finish", begin)
    writing = asyncio.create_task(postgres.commit([(make_take(1),)]))
    await begun.wait()
    postgres._writer._task.cancel()
    with pytest.raises(UnavailableError, match="recovering"):
        await writing
    assert await postgres.commit([(make_take(1),)]) == [Committed(2)]
    waiting = asyncio.create_task(postgres.commit([(make_take(2),)]))
    await asyncio.sleep(0)
    postgres._writer._task.cancel()
    with pytest.raises(UnavailableError, match="recovering"):
        await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize("step", ["checkpoint_step", "roll_back", "is_checkpoint_due"])
@pytest.mark.parametrize("fault", [MemoryError, SystemExit])
async def test_the_writer_survives_any_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: type[BaseException]
) -> None:
    """An error where none is expected is reported, loses nothing, and the next commit succeeds.

    Before, the writer's thread ended, and every later request failed while probes said 200.
    """
    reported: list[BaseException] = []
    ledger = await open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", on_failure=reported.append)
    assert isinstance(ledger, SqliteLedger)
    await ledger.commit(make_fleet(1))
    real = getattr(Transactor, step)
    raised = threading.Event()

    def fail_once(self: Transactor) -> object:
        if not raised.is_set():
            raised.set()
            raise fault
        return real.__get__(self)() if callable(real) else real.fget(self)

    patched = property(fail_once) if isinstance(real, property) else fail_once
    monkeypatch.setattr(Transactor, step, patched)
    monkeypatch.setattr("berth.adapters.ledger.sqlite.sqlite_writer._CHECKPOINT_AFTER_S", 0.0)
    # A unit that cannot be stored makes the writer roll back.
    answers = await asyncio.gather(ledger.commit([UNSTORABLE[0]]), return_exceptions=True)
    assert isinstance(answers[0], LedgerError | UnavailableError)
    # The first commit after a rollback recovers. The second one is logged and checkpointed later.
    assert await ledger.commit([(make_take(1),)]) == [Committed(2)]
    assert await ledger.commit([(make_take(2),)]) == [Committed(3)]
    assert await asyncio.to_thread(raised.wait, 10)
    assert await ledger.commit([(make_take(3),)]) == [Committed(4)]
    assert await ledger.version() == 4
    await ledger.close()
    assert [type(error) for error in reported] == [fault]


async def test_a_dead_writer_makes_the_ledger_unavailable(sqlite: SqliteLedger) -> None:
    """Probes read the version, so they report a process that can commit nothing."""
    await sqlite.commit(make_fleet(1))
    sqlite._writer._queue.put(None)
    sqlite._writer._thread.join()
    with pytest.raises(UnavailableError, match="restart Berth"):
        await sqlite.version()


async def test_a_lock_is_waited_for_and_then_given_up(sqlite: SqliteLedger, tmp_path: Path) -> None:
    """A writer that is locked out too long fails, and writes once the lock is released."""
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    sqlite._writer._connection.execute("PRAGMA busy_timeout = 20")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="locked"):
        await sqlite.commit(make_fleet(1))
    assert await sqlite.version() == 0
    other.execute("ROLLBACK")
    other.close()
    assert await sqlite.commit(make_fleet(1)) == [Committed(1)]


async def test_inventories_defend_themselves(sqlite: SqliteLedger) -> None:
    """A batch of rows that would exceed a capacity raises LedgerError and can be rolled back."""
    await sqlite.commit(make_fleet(1, vcpus=4))
    connection = sqlite._writer._connection
    spent = [(make_uuid("host", 1), "VCPU", 5, 5)]
    wrong = RowBatch(first=2, version=2, spent=spent, generations=[1])
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="damaged"):
        write(connection, wrong)
    connection.execute("ROLLBACK")
    assert await sqlite.version() == 1


async def _retried_twice_at_most(
    ask: Callable[_Asked, Awaitable[_Answer]], *args: _Asked.args, **named: _Asked.kwargs
) -> _Answer:
    """Return an answer after at most two retries, since both connections may have been lost."""
    for _ in range(2):
        with suppress(UnavailableError):
            return await ask(*args, **named)
    return await ask(*args, **named)


@pytest.mark.postgres
async def test_a_lost_connection_is_replaced(postgres: PostgresLedger, postgres_url: str) -> None:
    """After lost connections, retries claim once and waiting followers are notified."""
    await postgres.commit(make_fleet(1))
    server = await asyncpg.connect(postgres_url)
    try:
        for number in (1, 2, 3):
            await server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            (outcome,) = await _retried_twice_at_most(postgres.commit, [(make_take(number),)])
            assert outcome == Committed(number + 1)
            assert await _retried_twice_at_most(postgres.wait, number, 30.0)
    finally:
        await server.close()
    provider = await postgres.get(Provider, make_uuid("host", 1))
    assert provider is not None
    assert provider.used["VCPU"] == 3


async def take_until_refused(url: str, first: int) -> int:
    """Claim one VCPU at a time with eight concurrent callers; return how many succeeded."""
    ledger = await open_ledger(url)
    numbers = iter(range(first, first + 10_000))

    async def caller() -> int:
        taken = 0
        for number in numbers:
            (outcome,) = await ledger.commit([(make_take(number),)])
            if isinstance(outcome, Rejected):
                break
            taken += 1
        return taken

    taken = sum(await asyncio.gather(*(caller() for _ in range(8))))
    await ledger.close()
    return taken


async def check_processes(url: str) -> None:
    """Let two processes claim from one host until nothing is left, and check the sum."""
    ledger = await open_ledger(url)
    await ledger.commit([(Put(make_provider(1, vcpus=500)),)])
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, __file__, url, first, stdout=asyncio.subprocess.PIPE
        )
        for first in ("1", "100000")
    ]
    answers = await asyncio.gather(*(child.communicate() for child in children))
    assert sum(int(answer[0]) for answer in answers) == 500
    provider = await ledger.get(Provider, make_uuid("host", 1))
    assert provider is not None
    assert provider.used["VCPU"] == 500 == len(await ledger.allocations())
    assert await ledger.version() == 501
    assert {change.version for change in await ledger.changes(0)} == set(range(1, 502))
    await ledger.close()


async def test_processes_share_a_sqlite_file(tmp_path: Path) -> None:
    """Two processes with one file together claim exactly the host's capacity."""
    await check_processes(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.mark.postgres
async def test_processes_share_a_postgres_database(postgres_url: str) -> None:
    """Two processes with one database together claim exactly the host's capacity."""
    await migrate(postgres_url)
    await empty(postgres_url)
    await check_processes(postgres_url)


if __name__ == "__main__":
    print(asyncio.run(take_until_refused(sys.argv[1], int(sys.argv[2]))))  # noqa: T201 - answers
