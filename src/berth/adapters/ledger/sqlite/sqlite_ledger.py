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
from collections.abc import Callable, Generator, Sequence
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
    SqlReads,
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
from berth.domain.ledger.write import Outcome, Unit

R = TypeVar("R", bound=Record)
T = TypeVar("T")

_READERS: Final = 2
_FEW_VERSIONS: Final = 100

_IDLE_POLLS: Final = 100
"""Looks that nobody waits for, before there are none any more."""
_POLL_S: Final = 0.01
_QUIET_POLL_S: Final = 0.05
_QUIET_S: Final = 10.0
"""Where no other process has committed anything for so long, it is looked for less often: each look
wakes a process that sleeps, which costs a percent of a core at ten times as many."""
_DEFAULT: Final = Retention()

_HEAD: Final = """
SELECT version, feed_floor, coalesce((SELECT min(first) FROM daybook) - 1, version) FROM head"""

_LAGGING_KINDS: Final = DEFERRED_KINDS | {Kind.PROVIDER, Kind.SERVICE}
"""Kinds whose tables may lag behind: usage and heartbeats wait to be posted, too."""


class SqliteLedger(SqlReads):
    """Keeps the ledger in one file. Made by `open_ledger`, which sees to its schema.

    Args:
        path: the database file, with the schema in place.
        retention: how much of the past to keep.
        now_s: tells Unix time in seconds; claim keys are forgotten by it.
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
        self._shown = 0
        """The newest version that anybody here was told of: no answer may fall behind it."""
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

    # --- Writer ---

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit each unit for itself, in order. See `berth.ports.ledger.Writer`."""
        return await self._writer.commit(units)

    # --- Records ---

    async def get(self, noun: type[R], key: str) -> R | None:
        """Return the record with that key, or None."""
        kind = kind_of_noun(noun)
        if kind not in _LAGGING_KINDS:
            return self._read_inline(read_one(self._queries, noun, key))
        head, record = self._read_inline(read_beside_head(self._queries, noun, key))
        if head.checkpointed == head.version:
            return record
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

    async def next_id(self, kind: Kind) -> int:
        """Return a number that was never returned before for this kind (from 1)."""
        return await self._writer.next_id(kind)

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
        """Return what happened after that version, oldest first, in whole versions."""
        head = self._head()
        check_in_feed(after, head.feed_floor, head.version)
        if self._is_own(head):
            found = self._commit_cache.changes(after, limit)
            if found or (found is not None and after >= self._shown):
                return found
        read = read_changes(self._queries, after, limit)
        if head.version - after <= _FEW_VERSIONS:
            return self._read_inline(read)
        return await self._read_in_thread(read)

    def news(self, after: int) -> list[Change]:
        """Return what this process has committed itself. See `berth.ports.ledger.Feed`."""
        return self._commit_cache.changes(after, _FEW_VERSIONS) or []

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until there is a version above `after`; False when the time ran out.

        Commits of this process wake at once, those of others within 10 ms; the first one after
        some seconds without any within 50 ms.
        """
        self._check_open()
        if self._poller is None or self._poller.done():
            if self._watch.version <= after:
                self._watch.advance(await self.version())
            self._poller = asyncio.create_task(self._poll())
        return await self._watch.wait(after, timeout_s)

    async def close(self) -> None:
        """Finish what was accepted, then close the file."""
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
        """Look for versions that other processes committed, as long as anybody waits.

        A batch of this process comes after theirs, and says so. So the file is only looked at
        when there was none for a while: each look lets the writer's thread run in between. And
        only when its log looks as if somebody had written.
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

    # --- what is in the daybook ---

    def _is_own(self, head: LedgerHead) -> bool:
        """Tell whether all up to a version was committed by this process, since some time.

        What was committed but not told of yet is not acknowledged either, so it need not be seen.
        """
        epoch, version = self._writer.newest
        return epoch == self._commit_cache.epoch and head.version <= version

    async def _ensure_checkpointed(self) -> None:
        """See to it that all that was committed before is in the tables."""
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
        """Read how far the ledger is, in a single statement: everybody does so all the time."""
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
    """Turn errors of SQLite into errors of Berth."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UnavailableError(f"the ledger cannot be read now: {error}") from error
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger cannot be read: {error}") from error
