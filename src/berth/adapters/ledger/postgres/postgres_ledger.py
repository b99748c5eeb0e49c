"""A ledger in PostgreSQL, for several machines, or where a PostgreSQL server already exists.

One task per process writes (`PostgresWriter`), and only one transaction across all processes writes
at a time. Reads use a pool of connections. A further connection listens for new versions. If the
URL names several servers, each connection goes to the server that is the primary at that moment.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self, TypeVar, cast

import asyncpg

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.engine.version_watch import VersionWatch
from berth.adapters.ledger.postgres.feed_read import changes_after, read_feed
from berth.adapters.ledger.postgres.own_commits import OwnCommits
from berth.adapters.ledger.postgres.postgres_batch import CHANNEL
from berth.adapters.ledger.postgres.postgres_connection import LOST, connect_to_primary
from berth.adapters.ledger.postgres.postgres_writer import (
    CLOSE_TIMEOUT_S,
    PostgresWriter,
    describe_loss,
)
from berth.adapters.ledger.postgres.timeline_watch import TimelineWatch
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sql.write_requests import TIMEOUT_S
from berth.adapters.ledger.wal.reads import (
    NO_LIMIT,
    LedgerHead,
    Read,
    SqlLedger,
    read_all,
    read_head,
    read_one,
    read_snapshot,
)
from berth.domain.errors import BerthError, FeedGapError, LedgerError, UnavailableError
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")

_READERS_MAX: Final = 4
# Each statement of a snapshot may take this many times the usual timeout.
_LONG: Final = 6
# The pause between attempts to listen. In the meantime `wait` queries the version itself.
_RECONNECT_S: Final = 0.5
# A new version is announced at most this much later because this process commits a batch.
_DEFERRED_S: Final = 0.1
# REPEATABLE READ makes all statements of a read see the same version.
_BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_DEFAULT: Final = Retention()


class PostgresLedger(SqlLedger[PostgresWriter]):
    """A ledger in a PostgreSQL database; use `PostgresLedger.open` to connect to one.

    Args:
        url: the URL of the database, as asyncpg reads it; its schema must be current.
        pool: connections for reading.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds, by which claim keys and deleted instances expire.
        timeout_s: seconds to wait for a connection, and for the answer to a statement; the
            statements of a snapshot may take six times as long.
        on_batch: see `PostgresWriter`.
        on_failure: see `PostgresWriter`.
    """

    def __init__(  # noqa: PLR0913 - the connection, the retention and the callbacks
        self,
        url: str,
        pool: asyncpg.Pool,
        *,
        retention: Retention,
        now_s: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
        on_batch: Callable[[int, float], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        super().__init__(Queries("postgresql"))
        self._url = url
        self._pool = pool
        self._timeout_s = timeout_s
        self._watch = VersionWatch()
        self._timelines = TimelineWatch()
        self._own_commits = OwnCommits(self._timelines)
        self._writer = PostgresWriter(
            url,
            retention=retention,
            now_s=now_s,
            timeout_s=timeout_s,
            own_commits=self._own_commits,
            on_version=self._watch.advance,
            on_batch=on_batch,
            on_failure=on_failure,
        )
        self._listening = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(), name="berth-ledger-listen")
        self._closed = False

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        retention: Retention = _DEFAULT,
        now_s: Callable[[], float] = time.time,
        timeout_s: float = TIMEOUT_S,
        on_batch: Callable[[int, float], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> Self:
        """Return the ledger in a database whose schema is current.

        For the arguments see `PostgresLedger`.

        Raises:
            LedgerError: the database cannot be reached, or refuses the connection.
        """
        # asyncpg logs a traceback for each failed connection, which Berth reports itself.
        logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
        try:
            pool = await asyncpg.create_pool(
                url,
                # The stubs demand a function that names every argument of `asyncpg.connect`.
                connect=cast("Any", connect_to_primary),
                min_size=1,
                max_size=_READERS_MAX,
                timeout=timeout_s,
                command_timeout=timeout_s,
                reset=_keep_session,
                server_settings={"application_name": "berth ledger reader", "jit": "off"},
            )
        except (*LOST, asyncpg.PostgresError) as error:
            raise LedgerError(
                f"the PostgreSQL ledger cannot be opened ({str(error) or type(error).__name__}); "
                "check the ledger URL and the server"
            ) from error
        return cls(
            url,
            pool,
            retention=retention,
            now_s=now_s,
            timeout_s=timeout_s,
            on_batch=on_batch,
            on_failure=on_failure,
        )

    # --- Records ---

    async def get(self, noun: type[R], key: str) -> R | None:
        """See `RecordReader.get`."""
        return await self._read(read_one(self._queries, noun, key))

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """See `RecordReader.all`."""
        limit = NO_LIMIT if limit is None else limit
        return await self._read(read_all(self._queries, noun, limit))

    # --- Feed ---

    @property
    def losses(self) -> int:
        """See `Feed.losses`."""
        return self._timelines.losses

    async def version(self) -> int:
        """See `Feed.version`."""
        return (await self._read(read_head(self._queries))).version

    async def snapshot(self, now_s: float) -> Snapshot:
        """See `Feed.snapshot`."""
        long_s = _LONG * self._timeout_s
        note_head, note_own = self._timelines.observer(), self._own_commits.observer()

        def on_head(head: LedgerHead) -> None:
            note_head(head)
            note_own(head)

        return await self._read_consistently(read_snapshot(self._queries, now_s, on_head), long_s)

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """See `Feed.changes`."""
        until = after + limit
        runs = self._own_commits.runs(after, until)
        note_head, note_own = self._timelines.observer(), self._own_commits.observer()
        async with self._reader() as connection:
            read = await read_feed(connection, after, until, runs)
        note_head(read.head)
        if not note_own(read.head) and runs:
            raise FeedGapError(
                "the ledger has lost versions that this process committed; load a snapshot"
            )
        return changes_after(after, until, read, runs)

    def news(self, after: int) -> list[Change]:
        """See `Feed.news`. The ledger knows the latest changes that this process has committed."""
        return self._own_commits.after(after)

    async def wait(self, after: int, timeout_s: float) -> bool:
        """See `Feed.wait`.

        A new version is announced after this process's batch in progress, unless that takes long.
        The follower then reads while PostgreSQL flushes the batch to the disk, and delays no other
        process that waits for the lock.
        """
        # Notifications sent while no connection listens are lost, so the version must be queried.
        if not self._listening.is_set():
            self._watch.reset(await self.version())
        is_newer = await self._watch.wait(after, timeout_s)
        if is_newer:
            await self._writer.wait_for_batch(_DEFERRED_S)
        return is_newer

    async def close(self) -> None:
        """See `Ledger.close`."""
        await self._writer.close()
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        self._listener.cancel()
        with suppress(asyncio.CancelledError):
            await self._listener
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    # --- reading ---

    async def _read(self, read: Read[T]) -> T:
        """Run a read, each statement of which sees the newest state, and return its result."""
        async with self._reader() as connection:
            return await _answered(connection, read)

    async def _read_consistently(self, read: Read[T], long_s: float) -> T:
        """Run a read on one consistent state of the ledger, and return its result.

        The first statement is short and shows whether the server answers at all; it has the usual
        timeout. Each of the others may take up to `long_s` seconds.
        """
        async with self._reader() as connection:
            await connection.execute(_BEGIN_READING)
            try:
                answer = await _answered(connection, read, long_s)
            except (BerthError, asyncpg.PostgresError):
                await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")
            return answer

    @asynccontextmanager
    async def _reader(self) -> AsyncGenerator[asyncpg.pool.PoolConnectionProxy, None]:
        if self._closed:
            raise UnavailableError(
                "the ledger is closed, because this process is stopping; try again"
            )
        try:
            async with self._pool.acquire(timeout=self._timeout_s) as connection:
                try:
                    yield connection
                except (*LOST, asyncio.CancelledError) as error:
                    # The connection does not return to the pool, because resetting it could take as
                    # long again if the server does not answer.
                    connection.terminate()
                    if not isinstance(error, asyncio.CancelledError):
                        # The other connections go to the same server, which may be gone.
                        await self._pool.expire_connections()
                    raise
        except LOST as error:
            why = describe_loss(error, self._timeout_s)
            raise UnavailableError(f"the ledger cannot be read now ({why}); try again") from error
        except asyncpg.PostgresError as error:
            raise LedgerError(
                f"PostgreSQL rejected a read of the ledger ({error}); check the server's log"
            ) from error

    # --- listening ---

    async def _listen(self) -> None:
        """Listen for new versions as long as the ledger is open, reconnecting when necessary."""
        while True:
            with suppress(*LOST, asyncpg.PostgresError):
                await self._listen_once()
            await asyncio.sleep(_RECONNECT_S)

    async def _listen_once(self) -> None:
        timeout_s = self._timeout_s
        connection = await connect_to_primary(
            self._url, timeout=timeout_s, command_timeout=timeout_s
        )
        ended = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(CHANNEL, self._on_notification)
            # The version is queried after LISTEN, because no notification of it arrives if it was
            # committed before. The watch is reset, because the database may have been restored from
            # a backup while it was unreachable, or this may be another server.
            self._watch.reset(await connection.fetchval("SELECT version FROM head"))
            self._listening.set()
            while not ended.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await ended.wait()
                # This probes the connection: if a firewall has dropped it, nothing arrives on it,
                # not even its end.
                await connection.execute("SELECT 1")
        finally:
            self._listening.clear()
            connection.terminate()

    def _on_notification(
        self, _connection: object, _pid: int, _channel: str, version: object
    ) -> None:
        self._watch.advance(int(str(version)))


async def _keep_session(connection: asyncpg.Connection) -> None:
    """Leave the session of a connection that returns to the pool as it is.

    Readers change no settings, take no advisory locks, open no cursors and do not listen. Resetting
    all this would be a second transaction for each read. The pool itself rolls back an open one.
    """


async def _answered(
    connection: asyncpg.pool.PoolConnectionProxy, read: Read[T], later_s: float | None = None
) -> T:
    timeout_s: float | None = None
    try:
        statement, parameters = next(read)
        while True:
            rows = await connection.fetch(statement.text, *parameters, timeout=timeout_s)
            timeout_s = later_s
            statement, parameters = read.send(f"[{','.join([row[0] for row in rows])}]")
    except StopIteration as done:
        answer: T = done.value
        return answer
