"""The default ledger, in a SQLite file: durable, without a database server.

One thread per process writes (`SqliteWriter`). Short reads run on the event loop itself, because
switching threads costs more than they do; long reads run on two reader threads. In WAL mode,
readers and the writer never wait for one another. Several processes may open the same file.

A committed batch may be in the write-ahead log (the table `daybook`) for about two seconds before
it reaches the other tables (`Transactor`). A process serves its own logged batches from memory
(`CommitCache`); any other read of a table that may lag behind the log runs a checkpoint first.
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

# Long reads run on this many threads, each with its own connection.
_READERS: Final = 2
# The event loop itself reads the changes of at most this many versions; a reader thread reads more.
# `news` also returns at most this many versions.
_FEW_VERSIONS: Final = 100

# Polling stops after this many polls in a row during which no caller waits.
_IDLE_POLLS: Final = 100
_POLL_S: Final = 0.01
_QUIET_POLL_S: Final = 0.05
# When no other process has committed for this long, the pause between polls is `_QUIET_POLL_S`
# instead of `_POLL_S`, because each poll wakes a process that could otherwise sleep.
_QUIET_S: Final = 10.0
_DEFAULT: Final = Retention()

_HEAD: Final = """
SELECT version, feed_floor, coalesce((SELECT min(first) FROM daybook) - 1, version) FROM head"""

# Kinds whose tables may lag behind the log. Providers and services are among them because the log
# also holds usage and heartbeats.
_LAGGING_KINDS: Final = DEFERRED_KINDS | {Kind.PROVIDER, Kind.SERVICE}


class SqliteLedger(SqlLedger[SqliteWriter]):
    """A ledger in one file. `open_ledger` creates the file and migrates its schema.

    Args:
        path: the database file, whose schema must be current.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds, by which claim keys and deleted instances expire.
        on_batch: see `SqliteWriter`.
        on_failure: see `SqliteWriter`.
    """

    def __init__(
        self,
        path: Path,
        *,
        retention: Retention = _DEFAULT,
        now_s: Callable[[], float] = time.time,
        on_batch: Callable[[int, float], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        super().__init__(Queries("sqlite"))
        self._watch = VersionWatch()
        self._commit_cache = CommitCache()
        # The newest version that `version` has returned. No later result may be older.
        self._shown = 0
        self._inline = connect(path)
        self._trace = WalFileWatch(path)
        self._connections: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for _ in range(_READERS):
            self._connections.put(connect(path))
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="berth-ledger-read")
        self._writer = SqliteWriter(
            path,
            retention=retention,
            now_s=now_s,
            on_notice=self._on_notice,
            on_batch=on_batch,
            on_failure=on_failure,
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
        """See `RecordReader.get`."""
        kind = kind_of_noun(noun)
        if kind not in _LAGGING_KINDS:
            return self._read_inline(read_one(self._queries, noun, key))
        head, record = self._read_inline(read_beside_head(self._queries, noun, key))
        if head.checkpointed == head.version:
            return record
        # The commit cache contains neither the usage of providers nor the batches of other
        # processes.
        if kind is Kind.PROVIDER or not self._is_own(head):
            await self._writer.checkpoint()
            return self._read_inline(read_one(self._queries, noun, key))
        return cast("R | None", self._commit_cache.get(kind, key, record, head.checkpointed))

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """See `RecordReader.all`."""
        if kind_of_noun(noun) in _LAGGING_KINDS:
            await self._ensure_checkpointed()
        limit = NO_LIMIT if limit is None else limit
        return await self._read_in_thread(read_all(self._queries, noun, limit))

    # --- Feed ---

    @property
    def losses(self) -> int:
        """See `Feed.losses`. A file loses no version while a process has it open."""
        return 0

    async def version(self) -> int:
        """See `Feed.version`."""
        # Health probes ask for the version, and a ledger that cannot be written is not healthy.
        if not self._closed and not self._writer.is_alive:
            raise UnavailableError("the thread that writes to the ledger has ended; restart Berth")
        head = self._head()
        known = self._commit_cache.version if self._is_own(head) else head.version
        self._shown = max(self._shown, known)
        return self._shown

    async def snapshot(self, now_s: float) -> Snapshot:
        """See `Feed.snapshot`."""
        return await self._read(read_snapshot(self._queries, now_s))

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """See `Feed.changes`."""
        head = self._head()
        check_in_feed(after, head.feed_floor, head.version)
        if self._is_own(head):
            found = self._commit_cache.changes(after, limit)
            # An empty list is correct only if the cache is not behind a version that a caller has
            # seen.
            if found or (found is not None and after >= self._shown):
                return found
        read = read_changes(self._queries, after, limit)
        if head.version - after <= _FEW_VERSIONS:
            return self._read_inline(read)
        return await self._read_in_thread(read)

    def news(self, after: int) -> list[Change]:
        """See `Feed.news`. The ledger knows the latest changes that this process has committed."""
        return self._commit_cache.changes(after, _FEW_VERSIONS) or []

    async def wait(self, after: int, timeout_s: float) -> bool:
        """See `Feed.wait`.

        A commit of this process wakes waiters immediately. A commit of another process wakes them
        within about 10 ms, or 50 ms if no other process has committed for 10 s.
        """
        self._check_open()
        if self._poller is None or self._poller.done():
            if self._watch.version <= after:
                self._watch.advance(await self.version())
            self._poller = asyncio.create_task(self._poll())
        return await self._watch.wait(after, timeout_s)

    async def close(self) -> None:
        """See `Ledger.close`."""
        # The writer closes first, because waiters and readers may depend on the commits that it has
        # accepted.
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
        """Poll for commits of other processes until no caller has waited for some polls.

        The notice of a batch of this process also reports the version that earlier commits of other
        processes led to. The file is therefore polled only if there was no notice for a while,
        because each poll makes the writer's thread compete for the interpreter lock. The database
        is queried only if its log file may have changed.
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
        """Return whether the commit cache contains every acknowledged commit of the newest epoch.

        It does not if another process has written. Commits of this process that are not in the
        cache yet are not acknowledged yet either, so no caller can expect to see them.
        """
        epoch, version = self._writer.newest
        return epoch == self._commit_cache.epoch and head.version <= version

    async def _ensure_checkpointed(self) -> None:
        """Checkpoint the log, unless the tables already contain everything that was committed."""
        head = self._head()
        if head.checkpointed < head.version:
            await self._writer.checkpoint()

    # --- reading ---

    async def _read(self, read: Read[T]) -> T:
        await self._ensure_checkpointed()
        return await self._read_in_thread(read)

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(
                "the ledger is closed, because this process is stopping; try again"
            )

    def _head(self) -> LedgerHead:
        """Return the ledger's versions, read by one statement since most reads begin with them."""
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
    """Convert errors of SQLite to errors of Berth.

    Raises:
        UnavailableError: the database cannot be used now, for example because it is locked.
        LedgerError: SQLite failed in any other way.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UnavailableError(f"the ledger cannot be read now ({error}); try again") from error
    except sqlite3.Error as error:
        raise LedgerError(
            f"the ledger's file cannot be read ({error}); if it is damaged, restore a backup"
        ) from error
