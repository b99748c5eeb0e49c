"""The transactor, which commits batches to a SQLite ledger through one connection.

The transactor applies a batch to what it remembers and to what it loads for the batch. The result
becomes one record of the write-ahead log (table `daybook`), the only thing that must be flushed to
disk before callers are answered. A checkpoint later merges many logged batches and writes them to
the tables that queries read. It writes table by table in short transactions, so that batches need
not wait for all of it.

A process that finds log records written by another process, or before its own restart, checkpoints
them before anything else. A batch that follows another process's write goes to the tables directly,
since its log record would be checkpointed immediately anyway (docs/adr/0011-the-daybook.md).
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.adapters.ledger.engine.apply import apply_units, required_keys
from berth.adapters.ledger.engine.codec import decode_json
from berth.adapters.ledger.engine.quota_counts import CountedRow, start_counting
from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.engine.working_set import RequiredKeys
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sql.row_batch import RowBatch, row_batch_of
from berth.adapters.ledger.sql.write_requests import bound_heartbeats
from berth.adapters.ledger.sql.writer_cache import WriterCache
from berth.adapters.ledger.sqlite.sqlite_batch import (
    Step,
    checkpoint_steps,
    load,
    load_counted,
    read_state,
    write,
)
from berth.adapters.ledger.wal.commit_cache import CommitNotice
from berth.adapters.ledger.wal.write_ahead_log import (
    count_rows,
    is_deferrable,
    merge_batches,
    pack_batch,
    unpack_batch,
)
from berth.domain.ledger.change import Change
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Unit
from berth.ports.ledger import HeartbeatReport

# A checkpoint is due when this many rows are logged. A batch of this many rows is not logged, but
# written to the tables directly.
_ROWS_MAX: Final = 8192


class FileState(NamedTuple):
    """The state of the file after a transaction.

    If a later transaction finds another state, another process has written in between: every write
    advances the version, and every checkpoint changes the oldest logged version.

    Attributes:
        first: the oldest logged version, or None if the log is empty.
        version: the newest version.
    """

    first: int | None
    version: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        outcomes: the outcomes of the units, in order.
        before: the newest version before the batch.
        changes: the changes of the batch for the feed.
        logged: the rows of the batch if they are only in the write-ahead log, otherwise None.
    """

    outcomes: list[Outcome]
    before: int
    changes: Sequence[Change]
    logged: RowBatch | None


@dataclass(slots=True)
class _RunningCheckpoint:
    """A checkpoint in progress.

    Attributes:
        batches: the number of batches that it covers, from the oldest logged one.
        version: the last version of these batches.
        steps: the remaining steps.
    """

    batches: int
    version: int
    steps: deque[Step]


class Transactor:
    """Commits batches and checkpoints them, on one connection and in one thread.

    Each `begin` must be followed by `commit` or `roll_back`. Except for `roll_back`, the methods
    that use the connection raise `sqlite3.Error` if SQLite fails, for example because the file is
    locked or the disk is full, and LedgerError if a record of the write-ahead log is damaged.

    Args:
        connection: a connection that only the transactor uses.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds.

    Attributes:
        epoch: increases whenever the transactor discards everything that it remembers: at its first
            transaction, after a rollback, and after another process has written.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        retention: Retention,
        now_s: Callable[[], float],
    ) -> None:
        self.epoch = 0
        self._connection = connection
        self._retention = retention
        self._now_s = now_s
        queries = Queries("sqlite")
        self._trims = queries.trims()
        self._next_id_statement = queries.next_id()
        self._save_heartbeats = queries.save_heartbeats()
        self._cache = WriterCache()
        self._logged: deque[RowBatch] = deque()
        self._running: _RunningCheckpoint | None = None
        self._rows = 0
        self._is_flushed = True
        self._state: FileState | None = None
        self._next_state = FileState(None, 0)
        self._has_read_state = False

    @property
    def has_logged_batches(self) -> bool:
        """Whether there are batches to checkpoint."""
        return bool(self._logged)

    @property
    def is_checkpointing(self) -> bool:
        """Whether a checkpoint is in progress."""
        return self._running is not None

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether a checkpoint is in progress, many rows are logged, or a trim is due."""
        if not self._logged:
            return False
        is_much = self._running is not None or self._rows >= _ROWS_MAX
        return is_much or self._retention.is_due(
            self._logged[0].first - 1, self._logged[-1].version
        )

    def notice(self, result: BatchResult | None = None) -> CommitNotice:
        """Return the notice of a batch, or of the end of a checkpoint if `result` is None."""
        state = self._state or FileState(None, 0)
        checkpointed = state.version if state.first is None else state.first - 1
        if result is None:
            return CommitNotice(self.epoch, state.version, state.version, checkpointed)
        return CommitNotice(
            self.epoch, result.before, state.version, checkpointed, result.changes, result.logged
        )

    def begin(self, *, is_flushed: bool = True) -> None:
        """Begin a transaction that may write.

        Args:
            is_flushed: whether `commit` waits until everything is on disk. If it does not, a crash
                of the machine may lose the transactions since the last flush.
        """
        # In WAL mode, `synchronous = NORMAL` never corrupts the file, and a crash loses only the
        # latest transactions. The batches of a lost checkpoint are still in the log, because the
        # transaction that deletes them comes last.
        if is_flushed != self._is_flushed:
            level = "FULL" if is_flushed else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._is_flushed = is_flushed
        # IMMEDIATE takes the write lock now. A deferred transaction would take it at its first
        # write, and fail if another process had written since its first read.
        self._connection.execute("BEGIN IMMEDIATE")
        self._has_read_state = False

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.execute("COMMIT")
        # The state is remembered only after COMMIT, because a COMMIT that fails does not change the
        # file.
        self._state = self._next_state

    def roll_back(self) -> None:
        """Roll back the transaction, if there is one, and forget everything remembered."""
        # The working set may contain changes of the rolled-back transaction. Without a remembered
        # state, the next transaction recovers as if another process had written.
        self._state = self._running = None
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def apply_batch(self, units: Sequence[Unit]) -> BatchResult:
        """Apply units, store what they changed in the open transaction, and return the result."""
        is_alone = self._load(required_keys(units))
        working_set = self._cache.working_set
        before = working_set.version
        outcomes = apply_units(working_set, units)
        change_set = working_set.take_changes()
        self._cache.add_written(change_set.puts)
        logged: RowBatch | None = None
        if working_set.version != before:
            batch = row_batch_of(working_set, change_set, at_s=self._now_s(), first=before + 1)
            rows = count_rows(batch)
            # After another process's write the log is empty (it was just recovered), and logging
            # would make the other process recover in turn. Large batches gain nothing from being
            # written twice.
            if is_alone and rows < _ROWS_MAX and is_deferrable(batch):
                self._append_to_log(batch)
                self._rows += rows
                logged = batch
            else:
                self._write_through(batch)
        if not self._logged:
            self._cache.shrink_if_much()
        return BatchResult(outcomes, before, change_set.changes, logged)

    def checkpoint(self) -> None:
        """Write all logged batches to the tables, in the open transaction."""
        if not self._has_read_state and not self._is_unchanged(self._read_state()):
            self._recover(self._next_state)
        self._checkpoint()

    def checkpoint_step(self) -> None:
        """Do the next step of a checkpoint in the open transaction, which need not be flushed.

        Whatever a crash loses is still in the log. If another process has written since the last
        transaction, the whole log is checkpointed instead.
        """
        if self._is_unchanged(self._read_state()):
            self._run_step()
        else:
            self._recover(self._next_state)

    def save_heartbeats(self, report: HeartbeatReport) -> None:
        """Store a report of heartbeats in the open transaction."""
        for statement, parameters in bound_heartbeats(self._save_heartbeats, report):
            self._connection.execute(statement, parameters)

    def next_id(self, kind: Kind) -> int:
        """Return the next id of a kind, and record it in the open transaction."""
        parameters = self._next_id_statement.bind(kind=str(kind))
        number: int = self._connection.execute(self._next_id_statement.text, parameters).fetchone()[
            0
        ]
        return number

    def _load(self, required: RequiredKeys) -> bool:
        """Load what a batch requires; return False if another process may have written before."""
        missing = self._cache.missing(required)
        first, version, *texts = load(self._connection, missing)
        state = FileState(first, version)
        is_alone = self._is_unchanged(state)
        is_counted = required.projects <= self._cache.working_set.counted.keys()
        if not is_alone:
            self._recover(state)
        elif not is_counted:
            self._checkpoint()  # instances are counted in their table, which must be current
        if not (is_alone and is_counted):
            # The keys are loaded again, because the cache was emptied, or the tables were changed,
            # after the first load.
            missing = self._cache.missing(required)
            _, version, *texts = load(self._connection, missing)
        self._cache.add_loaded(required, missing, version, texts)
        self._count(required.projects)
        return is_alone

    def _count(self, projects: AbstractSet[str]) -> None:
        """Start counting the instances of the projects that are not counted yet."""
        working_set = self._cache.working_set
        uncounted = projects - working_set.counted.keys()
        if uncounted:
            found = load_counted(self._connection, uncounted)
            start_counting(working_set, uncounted, decode_json(list[CountedRow], found))

    def _read_state(self) -> FileState:
        return FileState(*read_state(self._connection))

    def _is_unchanged(self, state: FileState) -> bool:
        self._next_state, self._has_read_state = state, True
        return state == self._state

    def _recover(self, state: FileState) -> None:
        """Discard all caches, and checkpoint all logged batches, whichever process wrote them."""
        self.epoch += 1
        self._cache = WriterCache()
        self._logged, self._running = deque(), None
        if state.first is not None:
            found = self._connection.execute("SELECT body FROM daybook ORDER BY first")
            self._logged.extend(unpack_batch(body) for (body,) in found)
        # The process that logged the batches may have died in the middle of a checkpoint, so some
        # tables may have some of the rows.
        self._checkpoint(in_doubt=True)

    def _append_to_log(self, batch: RowBatch) -> None:
        self._connection.execute(
            # OR ROLLBACK spares SQLite the journal that would undo this statement alone.
            "INSERT OR ROLLBACK INTO daybook VALUES (?, ?, ?)",
            (batch.first, batch.version, pack_batch(batch)),
        )
        self._connection.execute("UPDATE OR ROLLBACK head SET version = ?", (batch.version,))
        self._logged.append(batch)
        self._next_state = FileState(self._logged[0].first, batch.version)

    def _write_through(self, batch: RowBatch) -> None:
        self._checkpoint()
        write(self._connection, batch)
        self._trim(batch.first - 1, batch.version)
        self._next_state = FileState(None, batch.version)

    def _checkpoint(self, *, in_doubt: bool = False) -> None:
        """Write all logged batches to the tables.

        If `in_doubt`, some tables may already have some of the rows.
        """
        if not self._logged:
            return
        # A running checkpoint may already have written some rows to the tables.
        in_doubt = in_doubt or self._running is not None
        batch = merge_batches(self._logged, in_doubt=in_doubt)
        for step in checkpoint_steps(batch, in_doubt=in_doubt):
            step(self._connection)
        self._connection.execute("DELETE FROM daybook")
        self._logged.clear()
        self._rows, self._running = 0, None
        self._cache.shrink()
        self._trim(batch.first - 1, batch.version)
        self._next_state = FileState(None, batch.version)

    def _run_step(self) -> None:
        """Do one step of a checkpoint, which covers the batches that were logged when it began."""
        if self._running is None:
            batch = merge_batches(self._logged)
            steps = deque(checkpoint_steps(batch))
            self._running = _RunningCheckpoint(len(self._logged), batch.version, steps)
            self._rows = 0
            self._cache.begin_generation()
        self._running.steps.popleft()(self._connection)
        # The log records are deleted last, because reads, and a recovery after a crash, need them
        # until then.
        if not self._running.steps:
            self._finish_running(self._running)

    def _finish_running(self, done: _RunningCheckpoint) -> None:
        before = self._logged[0].first - 1
        for _ in range(done.batches):
            self._logged.popleft()
        self._connection.execute("DELETE FROM daybook WHERE last <= ?", (done.version,))
        self._running = None
        self._cache.end_generation()
        first = self._logged[0].first if self._logged else None
        self._next_state = FileState(first, self._next_state.version)
        self._trim(before, done.version)

    def _trim(self, before: int, version: int) -> None:
        """Delete the history that retention no longer covers, if a trim is due."""
        if not self._retention.is_due(before, version):
            return
        values = self._retention.trim_parameters(version, self._now_s())
        for statement in self._trims:
            self._connection.execute(statement.text, statement.bind(**values))
        if not self._logged:
            self._cache.shrink()
