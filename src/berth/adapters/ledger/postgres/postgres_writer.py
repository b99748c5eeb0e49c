"""The one task of a process that writes to a PostgreSQL ledger.

It commits whatever waits in one transaction, as `sqlite_writer` does. When the connection is
lost, those who wait are told that their units may or may not have been committed, and the next
batch connects anew.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import asyncpg

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.postgres.postgres_batch import begin, commit, commit_batch
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sql.write_requests import (
    TIMEOUT_S,
    UNITS_MAX,
    WriteRequest,
    answers_of,
    deliver,
    failures_of,
    units_of,
)
from berth.domain.errors import UnavailableError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Unit

LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""What says that the server cannot do it now, and nothing about what it was asked."""

_SETTINGS: Final = {
    "application_name": "berth ledger",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Every statement here looks rows up by their keys, however few the statistics say there are: a
plan made when a table was small would read all of it when it has grown."""

FAREWELL_S: Final = 2.0
"""How long a server may take to hear that we leave; all is committed by then."""

_WAITS: Final = ("lock_timeout", "idle_in_transaction_session_timeout")


def why_lost(error: BaseException, timeout_s: float) -> str:
    """Say why the server cannot do it, in words that anybody may read: no address, no user."""
    if isinstance(error, TimeoutError):
        return f"PostgreSQL has not answered in {timeout_s:g} s"
    if isinstance(error, OSError):
        return f"PostgreSQL cannot be reached ({type(error).__name__})"
    return f"PostgreSQL cannot do it ({type(error).__name__})"


class PostgresWriter:
    """Takes jobs and answers them when they are durable.

    Args:
        url: of the database, as asyncpg reads it.
        retention: how much of the past to keep.
        now_s: tells Unix time in seconds.
        timeout_s: how long to wait for a connection, and for other writers; twice as long for the
            answer to a statement.
        on_version: called with the newest version after each batch.
        on_batch: called with the units of a batch that was committed, and the seconds that took.
    """

    def __init__(
        self,
        url: str,
        *,
        retention: Retention,
        now_s: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
        on_version: Callable[[int], None],
        on_batch: Callable[[int, float], None] | None = None,
    ) -> None:
        self._url = url
        self._retention = retention
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._on_version = on_version
        self._on_batch = on_batch
        queries = Queries("postgresql")
        self._trims = queries.trims()
        self._next_id = queries.next_id()
        self._jobs: deque[WriteRequest] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._connection: asyncpg.Connection | None = None
        self._task = asyncio.create_task(self._run(), name="berth-ledger")

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit units; those of a caller who is cancelled are committed all the same.

        Raises:
            UnavailableError: the ledger is closed, or the server cannot be reached or is busy.
            LedgerError: these units cannot be stored.
        """
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._submit(WriteRequest(units, None, answer))
        return await answer

    async def next_id(self, kind: Kind) -> int:
        """Draw the next number of a kind.

        Raises:
            UnavailableError: the ledger is closed, or the server cannot be reached or is busy.
        """
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._submit(WriteRequest((), kind, answer))
        return await answer

    async def close(self) -> None:
        """Finish what was accepted, then disconnect."""
        self._closing = True
        self._wake.set()
        await asyncio.shield(self._task)

    def _submit(self, job: WriteRequest) -> None:
        if self._closing:
            raise UnavailableError("the ledger is closed")
        self._jobs.append(job)
        self._wake.set()

    async def _run(self) -> None:
        while not (self._closing and not self._jobs):
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                await self._batch()
        await self._disconnect()

    async def _batch(self) -> None:
        jobs: list[WriteRequest] = []
        began_s = time.monotonic()
        try:
            connection = await self._connected()
            await begin(connection)
            jobs = self._drain()
            await self._finish(connection, jobs)
        except Exception as error:  # noqa: BLE001 - goes to those who asked
            await self._give_up(jobs or self._drain(), error)
            return
        units = sum(len(job.units) for job in jobs) if self._on_batch is not None else 0
        if self._on_batch is not None and units:
            self._on_batch(units, time.monotonic() - began_s)

    def _drain(self) -> list[WriteRequest]:
        """Take what waits, as late as can be: while the lock was waited for, more has come."""
        jobs: list[WriteRequest] = []
        count = 0
        while self._jobs and count < UNITS_MAX:
            jobs.append(self._jobs.popleft())
            count += len(jobs[-1].units)
        return jobs

    async def _finish(self, connection: asyncpg.Connection, jobs: list[WriteRequest]) -> None:
        """Do the jobs in the transaction that is open, commit it, and answer."""
        now_s = self._now_s()
        outcomes, before, version = await commit_batch(connection, units_of(jobs), at_s=now_s)
        if self._retention.is_due(before, version):
            values = self._retention.edges(version, now_s)
            for statement in self._trims:
                await connection.execute(statement.text, *statement.bind(**values))
        numbers = [
            await connection.fetchval(self._next_id.text, *self._next_id.bind(kind=job.counter))
            for job in jobs
            if job.counter is not None
        ]
        await commit(connection, before=before, version=version)
        deliver(answers_of(jobs, outcomes, numbers))
        self._on_version(version)

    async def _give_up(self, jobs: list[WriteRequest], error: Exception) -> None:
        """Roll back and answer with the error; or find the one job that is at fault."""
        if isinstance(error, LOST):
            self._drop()
            why = why_lost(error, self._timeout_s)
            gone = UnavailableError(f"the ledger cannot be written now: {why}")
            gone.__cause__ = error
            deliver(failures_of(jobs, gone))
            return
        await self._roll_back()
        if len(jobs) == 1:
            deliver(failures_of(jobs, error))
            return
        for job in jobs:
            await self._alone(job)

    async def _alone(self, job: WriteRequest) -> None:
        try:
            connection = await self._connected()
            await begin(connection)
            await self._finish(connection, [job])
        except Exception as error:  # noqa: BLE001 - goes to the one who asked
            await self._give_up([job], error)

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is not None and self._connection.is_closed():
            self._drop()
        if self._connection is None:
            self._connection = await asyncpg.connect(
                self._url,
                timeout=self._timeout_s,
                # More than what the server itself waits for others, which it says in words.
                command_timeout=2 * self._timeout_s,
                server_settings={**_SETTINGS, **dict.fromkeys(_WAITS, f"{self._timeout_s:g}s")},
            )
        return self._connection

    async def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                await self._connection.execute("ROLLBACK")
            except LOST:
                self._drop()

    async def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(*LOST):
                await self._connection.close(timeout=FAREWELL_S)
        self._drop()

    def _drop(self) -> None:
        """Let go of the connection without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
