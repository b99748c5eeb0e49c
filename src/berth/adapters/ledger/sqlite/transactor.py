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
from berth.adapters.ledger.sqlite.sqlite_batch import Step, count, load, read_mark, steps_of, write
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
    page: RowBatch | None


@dataclass(slots=True)
class _Round:
    """Pages on their way into the tables: how many, and the steps that are left."""

    pages: int
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
        self._next_id = queries.next_id()
        self._knowledge = WriterCache()
        self._pages: deque[RowBatch] = deque()
        self._round: _Round | None = None
        self._rows = 0
        self._is_flushed = True
        self._mark: FileState | None = None
        self._next_mark = FileState(None, 0)
        self._has_looked = False

    @property
    def has_pages(self) -> bool:
        """Whether there are pages to post."""
        return bool(self._pages)

    @property
    def is_posting(self) -> bool:
        """Whether pages are posted by half."""
        return self._round is not None

    @property
    def is_due(self) -> bool:
        """Whether it is time to post: there are many pages, or some are posted by half."""
        if not self._pages:
            return False
        is_much = self._round is not None or self._rows >= _ROWS_MAX
        return is_much or self._retention.is_due(self._pages[0].first - 1, self._pages[-1].version)

    def news(self, entry: BatchResult | None = None) -> CommitNotice:
        """Tell what was committed last: a batch, or pages that were posted."""
        mark = self._mark or FileState(None, 0)
        posted = mark.version if mark.first is None else mark.first - 1
        if entry is None:
            return CommitNotice(self.epoch, mark.version, mark.version, posted)
        return CommitNotice(
            self.epoch, entry.before, mark.version, posted, entry.changes, entry.page
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
        self._has_looked = False

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.execute("COMMIT")
        self._mark = self._next_mark

    def roll_back(self) -> None:
        """Undo the transaction, if there is one, and forget what was remembered."""
        self._mark = self._round = None
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def enter(self, units: Sequence[Unit]) -> BatchResult:
        """Judge units and enter what they did, in the transaction that is open."""
        is_alone = self._look_up(required_keys(units))
        books = self._knowledge.books
        before = books.version
        outcomes = apply_units(books, units)
        dirt = books.settle()
        self._knowledge.note(dirt.puts)
        page: RowBatch | None = None
        if books.version != before:
            sheets = row_batch_of(books, dirt, at_s=self._now_s(), first=before + 1)
            rows = count_rows(sheets)
            if is_alone and rows < _ROWS_MAX and is_deferrable(sheets):
                self._add_page(sheets)
                self._rows += rows
                page = sheets
            else:
                self._write_through(sheets)
        if not self._pages:
            self._knowledge.shrink_if_much()
        return BatchResult(outcomes, before, dirt.changes, page)

    def post(self) -> None:
        """Bring the tables up to date, in the transaction that is open; it may have a batch."""
        if not self._has_looked and not self._is_mine(self._read_mark()):
            self._start_over(self._next_mark)
        self._post()

    def post_some(self) -> None:
        """Take pages one step further into the tables, in the transaction that is open.

        It need not be flushed: what is lost of it is in the daybook still.
        """
        if self._is_mine(self._read_mark()):
            self._step()
        else:
            self._start_over(self._next_mark)

    def count(self, kind: Kind) -> int:
        """Draw the next number of a kind, in the transaction that is open."""
        parameters = self._next_id.bind(kind=str(kind))
        number: int = self._connection.execute(self._next_id.text, parameters).fetchone()[0]
        return number

    def _look_up(self, needs: RequiredKeys) -> bool:
        """Learn what a batch needs; tell whether nobody else has written since the last one."""
        missing = self._knowledge.missing(needs)
        first, version, *texts = load(self._connection, missing)
        mark = FileState(first, version)
        is_alone = self._is_mine(mark)
        is_counted = needs.projects <= self._knowledge.books.counted.keys()
        if not is_alone:
            self._start_over(mark)
        elif not is_counted:
            self._post()  # instances are counted in their table
        if not (is_alone and is_counted):
            missing = self._knowledge.missing(needs)
            _, version, *texts = load(self._connection, missing)
        self._knowledge.learn(needs, missing, version, texts)
        self._count(needs.projects)
        return is_alone

    def _count(self, projects: AbstractSet[str]) -> None:
        """Begin to count the instances of projects that are not counted yet."""
        books = self._knowledge.books
        uncounted = projects - books.counted.keys()
        if uncounted:
            found = count(self._connection, uncounted)
            start_counting(books, uncounted, decode_json(list[CountedRow], found))

    def _read_mark(self) -> FileState:
        return FileState(*read_mark(self._connection))

    def _is_mine(self, mark: FileState) -> bool:
        self._next_mark, self._has_looked = mark, True
        return mark == self._mark

    def _start_over(self, mark: FileState) -> None:
        """Forget everything, and post the pages that are there, whoever wrote them."""
        self.epoch += 1
        self._knowledge = WriterCache()
        self._pages, self._round = deque(), None
        if mark.first is not None:
            found = self._connection.execute("SELECT body FROM daybook ORDER BY first")
            self._pages.extend(unpack_batch(body) for (body,) in found)
        self._post(in_doubt=True)

    def _add_page(self, sheets: RowBatch) -> None:
        self._connection.execute(
            "INSERT OR ROLLBACK INTO daybook VALUES (?, ?, ?)",
            (sheets.first, sheets.version, pack_batch(sheets)),
        )
        self._connection.execute("UPDATE OR ROLLBACK head SET version = ?", (sheets.version,))
        self._pages.append(sheets)
        self._next_mark = FileState(self._pages[0].first, sheets.version)

    def _write_through(self, sheets: RowBatch) -> None:
        self._post()
        write(self._connection, sheets)
        self._trim(sheets.first - 1, sheets.version)
        self._next_mark = FileState(None, sheets.version)

    def _post(self, *, in_doubt: bool = False) -> None:
        """Post all pages; in doubt some of them may be posted by half."""
        if not self._pages:
            return
        in_doubt = in_doubt or self._round is not None
        sheets = merge_batches(self._pages, in_doubt=in_doubt)
        for step in steps_of(sheets, in_doubt=in_doubt):
            step(self._connection)
        self._connection.execute("DELETE FROM daybook")
        self._pages.clear()
        self._rows, self._round = 0, None
        self._knowledge.shrink()
        self._trim(sheets.first - 1, sheets.version)
        self._next_mark = FileState(None, sheets.version)

    def _step(self) -> None:
        """Do one step of a round, that is for the pages which are there when it begins."""
        if self._round is None:
            sheets = merge_batches(self._pages)
            steps = deque(steps_of(sheets))
            self._round = _Round(len(self._pages), sheets.version, steps)
            self._rows = 0
            self._knowledge.begin_generation()
        self._round.steps.popleft()(self._connection)
        if not self._round.steps:
            self._end_round(self._round)

    def _end_round(self, done: _Round) -> None:
        before = self._pages[0].first - 1
        for _ in range(done.pages):
            self._pages.popleft()
        self._connection.execute("DELETE FROM daybook WHERE last <= ?", (done.version,))
        self._round = None
        self._knowledge.end_generation()
        first = self._pages[0].first if self._pages else None
        self._next_mark = FileState(first, self._next_mark.version)
        self._trim(before, done.version)

    def _trim(self, before: int, version: int) -> None:
        if not self._retention.is_due(before, version):
            return
        values = self._retention.edges(version, self._now_s())
        for statement in self._trims:
            self._connection.execute(statement.text, statement.bind(**values))
        if not self._pages:
            self._knowledge.shrink()
