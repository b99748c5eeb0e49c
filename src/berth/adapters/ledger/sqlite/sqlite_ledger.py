"""A ledger in a SQLite file: durable, with nothing to install. The default.

One thread per process writes (`SqliteWriter`). Short reads run on the event loop itself, since
switching threads costs more than they do; long reads run on two reader threads. In WAL mode readers
and the writer never wait for one another. Several processes may open the same file.

A committed batch may be in the write-ahead log (the table `daybook`) for up to two seconds before
it reaches the other tables (`Transactor`). This process serves its own logged batches from memory
(`CommitCache`); any other read of a table that may lag checkpoints the log first.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar, cast

from berth.adapters.ledger.engine.listing import check_in_feed, kind_of_noun
from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.engine.version_watch import VersionWatch
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sqlite.sqlite_file import WalFileWatch, connect, run_in_transaction
from berth.adapters.ledger.sqlite.sqlite_writer import SqliteWriter
from berth.adapters.ledger.wal.commit_cache import CommitCache, CommitNotice
from berth.adapters.ledger.wal.reads import (
    NO_LIMIT,
    LedgerHead,
    Read,
    SqlLedger,
    read_all,
    read_beside_head,
    read_changes,
    read_one,
    read_snapshot,
)
from berth.adapters.ledger.wal.write_ahead_log import DEFERRED_KINDS
from berth.domain.errors import LedgerError, UnavailableError
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Kind, Record

R = TypeVar("R", bound=Record)
T = TypeVar("T")

# Threads for long reads, each with a connection.
_READERS: Final = 2
# Changes of up to so many versions are read on the event loop.
_FEW_VERSIONS: Final = 100

# Polls without a waiter before polling stops.
_IDLE_POLLS: Final = 100
_POLL_S: Final = 0.01
_QUIET_POLL_S: Final = 0.05
# If no other process has committed for so long, polls become less frequent. Each one wakes a
# process that sleeps, which at ten times the rate costs a percent of a core.
_QUIET_S: Final = 10.0
_DEFAULT: Final = Retention()

_HEAD: Final = """
SELECT version, feed_floor, coalesce((SELECT min(first) FROM daybook) - 1, version) FROM head"""

# Kinds whose tables may lag behind the log: usage and heartbeats are checkpointed, too.
_LAGGING_KINDS: Final = DEFERRED_KINDS | {Kind.PROVIDER, Kind.SERVICE}


class SqliteLedger(SqlLedger[SqliteWriter]):
    """Keeps the ledger in one file. `open_ledger` creates it and migrates its schema.

    Args:
        path: the database file, with the schema in place.
        retention: how much history to keep.
        now_s: returns Unix time in seconds, by which claim keys expire.
        on_batch: see `SqliteWriter`.
    """

    def __init__(
        self,
        path: Path,
        *,
        retention: Retention = _DEFAULT,
        now_s: Callable[[], float] = time.time,
        on_batch: Callable[[int, float], None] | None = None,
    ) -> None:
        super().__init__(Queries("sqlite"))
        self._watch = VersionWatch()
        self._commit_cache = CommitCache()
        # The newest version that any caller has seen: no answer may be older.
        self._shown = 0
        self._inline = connect(path)
        self._trace = WalFileWatch(path)
        self._connections: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for _ in range(_READERS):
            self._connections.put(connect(path))
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="berth-ledger-read")
        self._writer = SqliteWriter(
            path, retention=retention, now_s=now_s, on_notice=self._on_notice, on_batch=on_batch
        )
        self._poller: asyncio.Task[None] | None = None
        self._heard_at_s = 0.0
        self._others_at_s = 0.0
        self._closed = False

    def _on_notice(self, notice: CommitNotice) -> None:
        self._heard_at_s = asyncio.get_running_loop().time()
        self._commit_cache.add(notice)
        self._watch.advance(notice.version)

    # --- Records ---

    async def get(self, noun: type[R], key: str) -> R | None:
        """Return the record with that key, or None."""
        kind = kind_of_noun(noun)
        if kind not in _LAGGING_KINDS:
            return self._read_inline(read_one(self._queries, noun, key))
        head, record = self._read_inline(read_beside_head(self._queries, noun, key))
        if head.checkpointed == head.version:
            return record
        # The commit cache has no usage of providers, and no batches of other processes.
        if kind is Kind.PROVIDER or not self._is_own(head):
            await self._writer.checkpoint()
            return self._read_inline(read_one(self._queries, noun, key))
        return cast("R | None", self._commit_cache.get(kind, key, record, head.checkpointed))

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """Return all records of a kind in order of their keys; decisions newest first."""
        if kind_of_noun(noun) in _LAGGING_KINDS:
            await self._ensure_checkpointed()
        limit = NO_LIMIT if limit is None else limit
        return await self._read_in_thread(read_all(self._queries, noun, limit))

    # --- Feed ---

    async def version(self) -> int:
        """Return the newest committed version; 0 for an empty ledger."""
        head = self._head()
        known = self._commit_cache.version if self._is_own(head) else head.version
        self._shown = max(self._shown, known)
        return self._shown

    async def snapshot(self, now_s: float) -> Snapshot:
        """Return the whole live state as of one version."""
        return await self._read(read_snapshot(self._queries, now_s))

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """Return the changes after a version, oldest first, in whole versions."""
        head = self._head()
        check_in_feed(after, head.feed_floor, head.version)
        if self._is_own(head):
            found = self._commit_cache.changes(after, limit)
            # An empty answer is right only if the cache is not behind a version that a caller has
            # seen.
            if found or (found is not None and after >= self._shown):
                return found
        read = read_changes(self._queries, after, limit)
        if head.version - after <= _FEW_VERSIONS:
            return self._read_inline(read)
        return await self._read_in_thread(read)

    def news(self, after: int) -> list[Change]:
        """Return the changes after a version that this process committed itself, without I/O.

        See `berth.ports.ledger.Feed`.
        """
        return self._commit_cache.changes(after, _FEW_VERSIONS) or []

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until there is a version above `after`; return False on timeout.

        Commits of this process wake waiters at once, those of other processes within 10 ms. The
        first one after 10 s without any takes up to 50 ms.
        """
        self._check_open()
        if self._poller is None or self._poller.done():
            if self._watch.version <= after:
                self._watch.advance(await self.version())
            self._poller = asyncio.create_task(self._poll())
        return await self._watch.wait(after, timeout_s)

    async def close(self) -> None:
        """Commit what was accepted, then close the file."""
        # First: waiters and readers may still depend on commits that were accepted.
        await self._writer.close()
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        if self._poller is not None:
            self._poller.cancel()
        await asyncio.to_thread(self._readers.shutdown)
        self._inline.close()
        while not self._connections.empty():
            self._connections.get().close()

    async def _poll(self) -> None:
        """Poll for commits of other processes while any caller waits.

        A batch of this process follows theirs and reports the version, so the file is polled only
        after a while without one: each poll makes the writer's thread compete for the interpreter
        lock. It is queried only if its log file looks changed.
        """
        clock = asyncio.get_running_loop().time
        idle = 0
        while idle < _IDLE_POLLS:
            is_quiet = clock() - self._others_at_s >= _QUIET_S
            await asyncio.sleep(_QUIET_POLL_S if is_quiet else _POLL_S)
            idle = 0 if self._watch.has_waiters else idle + 1
            is_due = not idle and clock() - self._heard_at_s >= _POLL_S
            if is_due and self._trace.may_have_changed():
                with suppress(UnavailableError):
                    version = await self.version()
                    if version > self._watch.version:
                        self._others_at_s = clock()
                    self._watch.advance(version)

    # --- the write-ahead log ---

    def _is_own(self, head: LedgerHead) -> bool:
        """Return whether this process committed everything since some earlier version.

        Commits that are not in the commit cache yet are not acknowledged yet either, so no caller
        can expect to see them.
        """
        epoch, version = self._writer.newest
        return epoch == self._commit_cache.epoch and head.version <= version

    async def _ensure_checkpointed(self) -> None:
        """Make sure that everything committed before this call is in the tables."""
        head = self._head()
        if head.checkpointed < head.version:
            await self._writer.checkpoint()

    # --- reading ---

    async def _read(self, read: Read[T]) -> T:
        await self._ensure_checkpointed()
        return await self._read_in_thread(read)

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the ledger is closed")

    def _head(self) -> LedgerHead:
        """Read the ledger's versions in a single statement, since every read begins with them."""
        self._check_open()
        with _translated_errors():
            return LedgerHead(*self._inline.execute(_HEAD).fetchone())

    def _read_inline(self, read: Read[T]) -> T:
        self._check_open()
        with _translated_errors():
            return run_in_transaction(self._inline, read)

    async def _read_in_thread(self, read: Read[T]) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        with _translated_errors():
            return await loop.run_in_executor(self._readers, self._read_with_pooled, read)

    def _read_with_pooled(self, read: Read[T]) -> T:
        connection = self._connections.get()
        try:
            return run_in_transaction(connection, read)
        finally:
            self._connections.put(connection)


@contextmanager
def _translated_errors() -> Generator[None, None, None]:
    """Convert errors of SQLite to errors of Berth."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UnavailableError(f"the ledger cannot be read now: {error}") from error
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger cannot be read: {error}") from error
