"""Several processes that write to one PostgreSQL ledger, and followers that know their commits."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import asyncpg
import pytest

from berth.adapters.ledger import MemoryLedger, migrate, open_ledger
from berth.adapters.ledger.postgres import postgres_ledger
from berth.adapters.ledger.postgres.feed_read import FeedRead, read_feed
from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger
from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Kind, key_of
from berth.domain.ledger.write import Free, Guard, Put, Remove, Take, Unit
from berth.services.replica.follower import Follower
from berth.testing.builders import (
    make_claim,
    make_decision,
    make_flavor,
    make_fleet,
    make_instance,
    make_uuid,
)
from berth.testing.emptying import empty
from berth.testing.virtual_time import VirtualClock

pytestmark = pytest.mark.postgres

_HOSTS = 3
_ALL = 1_000_000
_WAITING = """
SELECT count(*) FROM pg_locks
 WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"""


class Copy:
    """A subscriber that keeps the changes since the version that it was loaded at."""

    def __init__(self) -> None:
        self.since = 0
        self.changes: list[Change] = []

    def load(self, snapshot: Snapshot) -> None:
        """Begin at the version of the snapshot."""
        self.since, self.changes = snapshot.version, []

    def apply(self, changes: Sequence[Change]) -> None:
        """Keep changes."""
        self.changes += changes


class Process:
    """A ledger with its follower."""

    def __init__(self, ledger: PostgresLedger) -> None:
        self.ledger = ledger
        self.copy = Copy()
        self.follower = Follower(ledger, VirtualClock(), [self.copy])

    async def follow(self) -> bool:
        """Do one turn of `Follower.run`; return whether it needed no read."""
        if await self.follower._apply_known_changes():
            return True
        await self.follower.catch_up()
        return False


@pytest.fixture
async def processes(postgres_url: str) -> AsyncGenerator[list[Process], None]:
    """Yield three processes on one empty database with a fleet."""
    await migrate(postgres_url)
    await empty(postgres_url)
    async with AsyncExitStack() as stack:
        started: list[Process] = []
        for _ in range(3):
            ledger = await open_ledger(postgres_url)
            assert isinstance(ledger, PostgresLedger)
            stack.push_async_callback(ledger.close)
            started.append(Process(ledger))
        await started[0].ledger.commit(make_fleet(_HOSTS))
        for one in started:
            await one.follower.start()
        yield started


async def test_own_commits_reach_the_follower_without_a_read(processes: list[Process]) -> None:
    """Once a read has seen the first commit of the connection, the next ones are known."""
    one, other, _ = processes
    await one.ledger.commit([(Put(make_flavor(1)),)])
    await one.follow()
    await one.ledger.commit([(Put(make_flavor(2)),), (Put(make_flavor(3)),)])
    assert await one.follow()
    assert one.follower.version == await one.ledger.version()
    # A commit of another process must be read, and so must the own one after it.
    await other.ledger.commit([(Put(make_flavor(4)),)])
    await one.ledger.commit([(Put(make_flavor(5)),)])
    assert not await one.follow()
    assert one.copy.changes == await one.ledger.changes(one.copy.since, _ALL)


async def test_a_read_beside_others_returns_only_their_versions(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL does not send the versions that the process has committed itself."""
    one, other, _ = processes
    # The first commit on each connection begins a timeline, which a read must have seen.
    for process in (other, one):
        await process.ledger.commit([(Put(make_flavor(1)),)])
    await one.follow()
    sent: list[object] = []

    async def recording(*arguments: Any) -> FeedRead:  # noqa: ANN401 - those of `read_feed`
        read = await read_feed(*arguments)
        sent.extend(row[0] for row in read.rows)
        return read

    monkeypatch.setattr(postgres_ledger, "read_feed", recording)
    first = one.follower.version + 1
    for number, process in enumerate((one, other, one, one, other, one), 2):
        await process.ledger.commit([(Put(make_flavor(number)),)])
    await one.follower.catch_up()
    assert sent == [first + 1, first + 4]
    monkeypatch.undo()
    assert one.copy.changes == await other.ledger.changes(one.copy.since, _ALL)


async def test_a_process_follows_others_after_its_own_batch(
    processes: list[Process], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for the lock of a batch, so new versions are announced once its commit is sent.

    A batch that takes long delays them for a limited time.
    """
    one, other, _ = processes
    before = one.follower.version
    await other.ledger.commit([(Put(make_flavor(1)),)])
    rival = await asyncpg.connect(postgres_url)
    async with rival.transaction():
        await rival.execute("SELECT 1 FROM head FOR UPDATE")
        committing = asyncio.create_task(one.ledger.commit([(Put(make_flavor(2)),)]))
        await until_it_blocks(rival)
        monkeypatch.setattr(postgres_ledger, "_DEFERRED_S", 0.01)
        assert await one.ledger.wait(before, 5.0)
        monkeypatch.setattr(postgres_ledger, "_DEFERRED_S", 60.0)
        waiting = asyncio.create_task(one.ledger.wait(before, 5.0))
        done, _ = await asyncio.wait({waiting, committing}, timeout=0.05)
        assert not done
    await rival.close()
    async with asyncio.timeout(30.0):
        assert await waiting
    await committing
    assert await one.ledger.wait(before, 0.0)


async def test_nothing_is_known_after_the_connection_is_lost(
    processes: list[Process], postgres_url: str
) -> None:
    """After a broken connection the follower reads, because versions may have been lost."""
    one = processes[0]
    await one.ledger.commit([(Put(make_flavor(1)),)])
    await one.follow()
    await one.ledger.commit([(Put(make_flavor(2)),)])
    await break_connections(postgres_url)
    await commit_until_stored(one.ledger, [(Put(make_flavor(3)),)])
    assert one.ledger.news(one.follower.version) == []
    assert not await one.follow()
    assert one.copy.changes == await one.ledger.changes(one.copy.since, _ALL)


@pytest.mark.parametrize("seed", range(6))
async def test_any_interleaving_equals_one_writer_in_memory(
    processes: list[Process], postgres_url: str, seed: int
) -> None:
    """Units that three processes commit in turns have the outcomes and changes of one ledger.

    Between them, connections break and followers follow. Every follower ends with the same feed.
    """
    rng, memory = Random(seed), MemoryLedger()
    await memory.commit(make_fleet(_HOSTS))
    for number in range(60):
        one = rng.choice(processes)
        if rng.random() < 0.05:
            await break_connections(postgres_url)
            await commit_until_stored(one.ledger, [])
        units = [random_unit(rng, number * 10 + index) for index in range(rng.randint(1, 4))]
        assert await commit_until_stored(one.ledger, units) == await memory.commit(units)
        if rng.random() < 0.6:
            await rng.choice(processes).follow()
    expected = await memory.changes(0, _ALL)
    for one in processes:
        await one.follow()
        await one.follow()
        assert one.copy.changes == [each for each in expected if each.version > one.copy.since]
        assert one.ledger.losses == 0
    assert await processes[0].ledger.snapshot(0.0) == await memory.snapshot(0.0)


def random_unit(rng: Random, number: int) -> Unit:
    """Return a unit that may conflict with others: few hosts, instances, claims and guards."""
    instance, host = rng.randint(1, 8), rng.randint(1, _HOSTS)
    guard = Guard(f"group {rng.randint(1, 2)}", rng.randint(0, 100), is_shared=rng.random() < 0.5)
    claim = make_claim(instance, on=host, amounts={"VCPU": rng.randint(1, 9)})
    units: list[Unit] = [
        (Take(claim), Put(make_instance(instance)), Put(make_decision(number))),
        (guard, Put(make_flavor(number))),
        (Free(make_uuid("instance", instance)),),
        (Remove(Kind.INSTANCE, make_uuid("instance", instance)),),
        (Put(make_flavor(number)), Remove(Kind.FLAVOR, key_of(make_flavor(number)))),
    ]
    return rng.choice(units)


async def until_it_blocks(connection: asyncpg.Connection) -> None:
    """Wait until another connection waits for a lock that this one has."""
    for _ in range(1_000):
        if await connection.fetchval(_WAITING):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no connection waits")


async def break_connections(url: str) -> None:
    """Break all connections of ledgers to a database."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


async def commit_until_stored(ledger: PostgresLedger, units: list[Unit]) -> list[object]:
    """Commit units; repeat that if the connection was broken before the transaction began."""
    for _ in range(5):
        try:
            return [*await ledger.commit(units)]
        except UnavailableError:
            continue
    raise AssertionError("the ledger stays unavailable")
