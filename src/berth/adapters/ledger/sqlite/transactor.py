"""The clerk: keeps a SQLite ledger, batch by batch, in transactions of one connection.

A batch is judged on what the clerk remembers, and on what has to be loaded for it. What it did
becomes a page in the daybook, which is all that has to be flushed to the disk. Later the pages
are posted: what many of them come to together is written to the tables that queries read, table
by table, so that batches need not wait until all is done.

All of it is in one file, in transactions. Whoever finds pages there that are not its own, since
another process wrote them, or died, posts them before anything else. A batch that comes after
one of somebody else is written to the tables at once, as pages would be posted for it anyway.
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

_ROWS_MAX: Final = 8192
"""Rows that wait to be posted, about: posting them takes some tens of milliseconds in all."""


class FileState(NamedTuple):
    """What a file was like after a transaction: whoever finds another mark was not alone."""

    first: int | None
    version: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a batch. `before` is the newest version before it.

    `page` is what it did, if that was not written to the tables.
    """

    outcomes: list[Outcome]
    before: int
    changes: Sequence[Change]
    logged: RowBatch | None


@dataclass(slots=True)
class _RunningCheckpoint:
    """Pages on their way into the tables: how many, and the steps that are left."""

    batches: int
    version: int
    steps: deque[Step]


class Transactor:
    """Used by one thread. After `begin` comes `commit` or `roll_back`, whatever happens.

    Args:
        connection: the clerk's own.
        retention: how much of the past to keep.
        now_s: tells Unix time in seconds.

    Attributes:
        epoch: grows when others were found to have written; what was remembered is void then.
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
        """Whether there are pages to post."""
        return bool(self._logged)

    @property
    def is_checkpointing(self) -> bool:
        """Whether pages are posted by half."""
        return self._running is not None

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether it is time to post: there are many pages, or some are posted by half."""
        if not self._logged:
            return False
        is_much = self._running is not None or self._rows >= _ROWS_MAX
        return is_much or self._retention.is_due(
            self._logged[0].first - 1, self._logged[-1].version
        )

    def notice(self, result: BatchResult | None = None) -> CommitNotice:
        """Tell what was committed last: a batch, or pages that were posted."""
        state = self._state or FileState(None, 0)
        checkpointed = state.version if state.first is None else state.first - 1
        if result is None:
            return CommitNotice(self.epoch, state.version, state.version, checkpointed)
        return CommitNotice(
            self.epoch, result.before, state.version, checkpointed, result.changes, result.logged
        )

    def begin(self, *, is_flushed: bool = True) -> None:
        """Begin a transaction as the one that may write.

        Args:
            is_flushed: have `commit` wait until all is on the disk. Without it some of what was
                committed last may be lost with the machine, until the next flush.
        """
        if is_flushed != self._is_flushed:
            level = "FULL" if is_flushed else "NORMAL"
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._is_flushed = is_flushed
        self._connection.execute("BEGIN IMMEDIATE")
        self._has_read_state = False

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.execute("COMMIT")
        self._state = self._next_state

    def roll_back(self) -> None:
        """Undo the transaction, if there is one, and forget what was remembered."""
        self._state = self._running = None
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def apply_batch(self, units: Sequence[Unit]) -> BatchResult:
        """Judge units and enter what they did, in the transaction that is open."""
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
        """Bring the tables up to date, in the transaction that is open; it may have a batch."""
        if not self._has_read_state and not self._is_unchanged(self._read_state()):
            self._recover(self._next_state)
        self._checkpoint()

    def checkpoint_step(self) -> None:
        """Take pages one step further into the tables, in the transaction that is open.

        It need not be flushed: what is lost of it is in the daybook still.
        """
        if self._is_unchanged(self._read_state()):
            self._run_step()
        else:
            self._recover(self._next_state)

    def next_id(self, kind: Kind) -> int:
        """Draw the next number of a kind, in the transaction that is open."""
        parameters = self._next_id_statement.bind(kind=str(kind))
        number: int = self._connection.execute(self._next_id_statement.text, parameters).fetchone()[
            0
        ]
        return number

    def _load(self, required: RequiredKeys) -> bool:
        """Learn what a batch needs; tell whether nobody else has written since the last one."""
        missing = self._cache.missing(required)
        first, version, *texts = load(self._connection, missing)
        state = FileState(first, version)
        is_alone = self._is_unchanged(state)
        is_counted = required.projects <= self._cache.working_set.counted.keys()
        if not is_alone:
            self._recover(state)
        elif not is_counted:
            self._checkpoint()  # instances are counted in their table
        if not (is_alone and is_counted):
            missing = self._cache.missing(required)
            _, version, *texts = load(self._connection, missing)
        self._cache.add_loaded(required, missing, version, texts)
        self._count(required.projects)
        return is_alone

    def _count(self, projects: AbstractSet[str]) -> None:
        """Begin to count the instances of projects that are not counted yet."""
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
        """Forget everything, and post the pages that are there, whoever wrote them."""
        self.epoch += 1
        self._cache = WriterCache()
        self._logged, self._running = deque(), None
        if state.first is not None:
            found = self._connection.execute("SELECT body FROM daybook ORDER BY first")
            self._logged.extend(unpack_batch(body) for (body,) in found)
        self._checkpoint(in_doubt=True)

    def _append_to_log(self, batch: RowBatch) -> None:
        self._connection.execute(
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
        """Post all pages; in doubt some of them may be posted by half."""
        if not self._logged:
            return
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
        """Do one step of a round, that is for the pages which are there when it begins."""
        if self._running is None:
            batch = merge_batches(self._logged)
            steps = deque(checkpoint_steps(batch))
            self._running = _RunningCheckpoint(len(self._logged), batch.version, steps)
            self._rows = 0
            self._cache.begin_generation()
        self._running.steps.popleft()(self._connection)
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
        if not self._retention.is_due(before, version):
            return
        values = self._retention.trim_parameters(version, self._now_s())
        for statement in self._trims:
            self._connection.execute(statement.text, statement.bind(**values))
        if not self._logged:
            self._cache.shrink()
