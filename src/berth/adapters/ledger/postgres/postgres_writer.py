"""The task that writes to a PostgreSQL ledger; each process has one.

It commits all waiting requests in one transaction, as `sqlite_writer` does. If the connection is
lost, the callers get an UnavailableError, since their units may or may not have been committed, and
the next batch connects again, perhaps to another server. The first version that a connection
commits begins a timeline (docs/adr/0031-timelines.md).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import asyncpg

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.postgres.own_commits import OwnCommits
from berth.adapters.ledger.postgres.postgres_batch import (
    begin,
    commit,
    commit_batch,
    mark_timeline,
)
from berth.adapters.ledger.postgres.postgres_connection import LOST, connect_to_primary
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sql.write_requests import (
    SPACE_TEST,
    TIMEOUT_S,
    UNITS_MAX,
    WriteRequest,
    answers_of,
    bound_heartbeats,
    deliver,
    failures_of,
    units_of,
)
from berth.domain.errors import UnavailableError

# These settings make every statement of the writer look up rows by their keys. A plan made while a
# table was small would otherwise scan the whole table after it has grown. JIT compilation is off
# because it would take longer than such statements.
_SETTINGS: Final = {
    "application_name": "berth ledger",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

# PostgreSQL compresses bodies above 2 kB. Its default, `pglz`, takes as much CPU time as the rest
# of an insert. Servers without LZ4, and those before PostgreSQL 14, keep their default.
_COMPRESS: Final = """
SELECT set_config('default_toast_compression', 'lz4', false) FROM pg_settings
 WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"""

CLOSE_TIMEOUT_S: Final = 2.0
"""Seconds that the server may take to close connections on which nothing is pending."""

_RECOVERING: Final = (
    "the ledger cannot be written to now, because its writer is recovering from an error; try again"
)
_WAITS: Final = ("lock_timeout", "idle_in_transaction_session_timeout")


def describe_loss(error: BaseException, timeout_s: float) -> str:
    """Return why the server cannot answer, without addresses or names, which users must not see."""
    if isinstance(error, TimeoutError):
        return f"PostgreSQL did not answer within {timeout_s:g} s"
    if isinstance(error, OSError):
        return f"PostgreSQL cannot be reached ({type(error).__name__})"
    return f"PostgreSQL cannot answer the request ({type(error).__name__})"


def describe_fault(error: BaseException) -> str:
    """Return why writes are not stored, in words for the readiness probe."""
    if isinstance(error, asyncpg.DiskFullError):
        return "the disk of the ledger is full"
    return "the ledger cannot be written"


class PostgresWriter:
    """Accepts write requests, and answers them once they are durable.

    Args:
        url: the URL of the database, as asyncpg reads it.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds.
        timeout_s: seconds to wait for a connection and for other writers; a statement may take
            twice as long.
        own_commits: receives each committed batch.
        on_version: called with the newest version after each batch.
        on_batch: called with the number of units in a committed batch and the seconds that its
            commit took.
        on_failure: called with an error that no caller receives.

    Attributes:
        fault: the reason why the latest batch was not stored, if the server was the cause; None
            otherwise.
    """

    def __init__(  # noqa: PLR0913 - the connection, the retention and the callbacks
        self,
        url: str,
        *,
        retention: Retention,
        now_s: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
        own_commits: OwnCommits,
        on_version: Callable[[int], None],
        on_batch: Callable[[int, float], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._url = url
        self._retention = retention
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._own_commits = own_commits
        self._on_version = on_version
        self._on_batch = on_batch
        self._on_failure = on_failure
        self.fault: str | None = None
        queries = Queries("postgresql")
        self._trims = queries.trims()
        self._next_id = queries.next_id()
        self._heartbeats = queries.save_heartbeats()
        self._requests: deque[WriteRequest] = deque()
        self._wake = asyncio.Event()
        # Clear from the time when a batch asks for the lock until its commit is sent.
        self._has_sent = asyncio.Event()
        self._has_sent.set()
        self._closing = False
        self._connection: asyncpg.Connection | None = None
        # The newest version that the connection has committed; None if it has committed none.
        self._committed: int | None = None
        self._task = asyncio.create_task(self._run(), name="berth-ledger")

    async def close(self) -> None:
        """Finish the accepted requests, then disconnect."""
        self._closing = True
        self._wake.set()
        await asyncio.wait({self._task})

    def submit(self, request: WriteRequest) -> None:
        """See `WriteQueue.submit`."""
        if self._closing:
            raise UnavailableError(
                "the ledger is closed, because this process is stopping; try again"
            )
        self._requests.append(request)
        self._wake.set()
        if self._task.done():
            # Only a cancellation ends the task early. Without a new task, no request would ever be
            # answered.
            self._task = asyncio.create_task(self._run(), name="berth-ledger")

    async def _run(self) -> None:
        try:
            while not (self._closing and not self._requests):
                await self._wake.wait()
                self._wake.clear()
                while self._requests:
                    await self._commit_or_recover()
            await self._disconnect()
        finally:
            # A connection and requests are left only if the task was cancelled.
            self._drop()
            deliver(failures_of(self._requests, UnavailableError(_RECOVERING)))
            self._requests.clear()

    async def _commit_or_recover(self) -> None:
        """Do the same as `_commit_batch`; after an unexpected error, recover and continue."""
        try:
            await self._commit_batch()
        except Exception as error:  # noqa: BLE001 - without this task the process could not write
            # The server rolls back what the connection has begun.
            self._drop()
            if self._on_failure is not None:
                with suppress(Exception):
                    self._on_failure(error)

    async def wait_for_batch(self, timeout_s: float) -> None:
        """Wait until the commit of the batch in progress is sent, for at most `timeout_s` seconds.

        Other processes wait for the lock of the batch, so work that can wait should not delay it.
        """
        if not self._has_sent.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._has_sent.wait()

    async def _commit_batch(self) -> None:
        requests: list[WriteRequest] = []
        began_s = time.monotonic()
        self._has_sent.clear()
        try:
            connection = await self._connected()
            await begin(connection)
            requests = self._drain()
            await self._finish(connection, requests)
        except Exception as error:  # noqa: BLE001 - is passed on to the callers
            requests = requests or self._drain()
            try:
                await self._fail(requests, error)
            finally:
                # `deliver` skips the requests that have been answered.
                deliver(failures_of(requests, UnavailableError(_RECOVERING)))
            return
        except asyncio.CancelledError:
            self._drop()
            deliver(failures_of(requests, UnavailableError(_RECOVERING)))
            raise
        finally:
            self._has_sent.set()
        units = sum(len(request.units) for request in requests) if self._on_batch is not None else 0
        if self._on_batch is not None and units:
            self._on_batch(units, time.monotonic() - began_s)

    def _drain(self) -> list[WriteRequest]:
        """Remove and return waiting requests, up to about `UNITS_MAX` units.

        It is called after the lock is taken, so that requests which arrived during the wait for the
        lock are in the same batch.
        """
        requests: list[WriteRequest] = []
        count = 0
        while self._requests and count < UNITS_MAX:
            requests.append(self._requests.popleft())
            count += len(requests[-1].units)
        return requests

    async def _finish(self, connection: asyncpg.Connection, requests: list[WriteRequest]) -> None:
        """Carry out the requests in the open transaction, commit it, and answer the requests."""
        now_s = self._now_s()
        result = await commit_batch(connection, units_of(requests), at_s=now_s)
        before, version, timeline = result.before, result.version, result.timeline
        if self._retention.is_due(before, version):
            values = self._retention.trim_parameters(version, now_s)
            for statement in self._trims:
                await connection.execute(statement.text, *statement.bind(**values))
        if any(request.tests_space for request in requests):
            await connection.execute(";".join(SPACE_TEST))
        if version != before and not self._is_in_order(before):
            timeline = await mark_timeline(connection, began=before + 1)
        numbers = [
            await connection.fetchval(self._next_id.text, *self._next_id.bind(kind=request.counter))
            for request in requests
            if request.counter is not None
        ]
        for request in requests:
            if request.heartbeats is not None:
                for text, parameters in bound_heartbeats(self._heartbeats, request.heartbeats):
                    await connection.execute(text, *parameters)
        # This process does nothing more for the lock; the disk takes longer than all that it did.
        self._has_sent.set()
        # When this returns, PostgreSQL has flushed its log, so the requests are answered only then.
        await commit(connection, before=before, version=version)
        self.fault = None
        if version != before:
            self._committed = version
            self._own_commits.add(before, version, timeline, result.changes)
        deliver(answers_of(requests, result.outcomes, numbers))
        self._on_version(version)

    def _is_in_order(self, before: int) -> bool:
        """Return whether the ledger, at version `before`, has all that the connection committed.

        It may have lost some if it was restored from a backup, or if a proxy has connected this
        connection to another server.
        """
        return self._committed is not None and self._committed <= before

    async def _fail(self, requests: list[WriteRequest], error: Exception) -> None:
        """Roll back, then fail the requests, or retry each alone to find the cause of the error."""
        if isinstance(error, LOST):
            self._drop()
            self.fault = describe_fault(error)
            why = describe_loss(error, self._timeout_s)
            gone = UnavailableError(f"the ledger cannot be written to now ({why}); try again")
            gone.__cause__ = error
            deliver(failures_of(requests, gone))
            return
        await self._roll_back()
        if len(requests) == 1:
            deliver(failures_of(requests, error))
            return
        # Units of one caller that cannot be stored must not fail those of the others.
        for request in requests:
            await self._retry_alone(request)

    async def _retry_alone(self, request: WriteRequest) -> None:
        try:
            connection = await self._connected()
            await begin(connection)
            await self._finish(connection, [request])
        except Exception as error:  # noqa: BLE001 - is passed on to the caller
            await self._fail([request], error)

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is not None and self._connection.is_closed():
            self._drop()
        if self._connection is None:
            self._committed = None
            self._connection = await connect_to_primary(
                self._url,
                timeout=self._timeout_s,
                # A statement may take longer than `lock_timeout`, so that a wait for other writers
                # ends with an error of the server and the connection stays usable.
                command_timeout=2 * self._timeout_s,
                server_settings={**_SETTINGS, **dict.fromkeys(_WAITS, f"{self._timeout_s:g}s")},
            )
            await self._connection.execute(_COMPRESS)
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
                await self._connection.close(timeout=CLOSE_TIMEOUT_S)
        self._drop()

    def _drop(self) -> None:
        """Discard the connection without telling the server."""
        self._own_commits.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
