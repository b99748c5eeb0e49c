"""The one thread of a process that writes to its SQLite ledger.

Whatever waits when a transaction begins is committed with it, so that callers share one flush
of the disk: with one caller a commit costs a flush, with many it costs a share of it.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.sql.write_requests import (
    UNITS_MAX,
    Answers,
    WriteRequest,
    answers_of,
    failures_of,
    units_of,
)
from berth.adapters.ledger.sqlite.sqlite_file import connect
from berth.adapters.ledger.sqlite.transactor import Transactor
from berth.adapters.ledger.wal.commit_cache import CommitNotice
from berth.domain.errors import BerthError, UnavailableError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Unit

_POST_AFTER_S: Final = 2.0
"""How long what is committed may be missing in the tables, when nobody asks for it."""

_WAIT_MAX_S: Final = 0.001
_WAITS_MAX: Final = 4
_COMPANY: Final = 16
"""How long to wait for company at a time, how often at most, and how much is enough."""

_INERTIA: Final = 8
"""The time of a flush is a mean over so many, about."""


class SqliteWriter:
    """Takes jobs from the event loop and answers them there, when they are durable.

    Args:
        path: the database file.
        retention: how much of the past to keep.
        now_s: tells Unix time in seconds.
        on_news: called in the event loop with what was committed, before it is answered.
        on_batch: called in the thread with the units of a batch that was committed, and the
            seconds that took.

    Attributes:
        newest: epoch and version of the newest batch, which `on_news` may not have been told of.
    """

    def __init__(
        self,
        path: Path,
        *,
        retention: Retention,
        now_s: Callable[[], float],
        on_news: Callable[[CommitNotice], None],
        on_batch: Callable[[int, float], None] | None = None,
    ) -> None:
        self.newest = (0, -1)
        self._connection = connect(path)
        self._clerk = Transactor(self._connection, retention=retention, now_s=now_s)
        self._on_news = on_news
        self._on_batch = on_batch
        self._posted_at_s = time.monotonic()
        self._is_shared = False
        self._flush_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[WriteRequest | None] = SimpleQueue()
        self._done = self._loop.create_future()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="berth-ledger", daemon=True)
        self._thread.start()

    # --- in the event loop ---

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit units; those of a caller who is cancelled are committed all the same.

        Raises:
            UnavailableError: the ledger is closed, locked for too long, or cannot be written.
            LedgerError: these units cannot be stored.
        """
        answer: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self._submit(WriteRequest(units, None, answer))
        return await answer

    async def next_id(self, kind: Kind) -> int:
        """Draw the next number of a kind.

        Raises:
            UnavailableError: the ledger is closed, locked for too long, or cannot be written.
        """
        answer: asyncio.Future[int] = self._loop.create_future()
        self._submit(WriteRequest((), kind, answer))
        return await answer

    async def settle(self) -> None:
        """Have all that was committed before, by whomever, written to the tables.

        Raises:
            UnavailableError: the ledger is closed, locked for too long, or cannot be written.
        """
        answer: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self._submit(WriteRequest((), None, answer, settles=True))
        await answer

    async def close(self) -> None:
        """Finish what was accepted, then end the thread."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._done)
        self._thread.join()

    def _submit(self, job: WriteRequest) -> None:
        if self._closing:
            raise UnavailableError("the ledger is closed")
        self._queue.put(job)

    # --- in the thread ---

    def _run(self) -> None:
        try:
            while self._next():
                pass
        finally:
            self._closing = True
            self._post(self._clerk.post)
            self._connection.close()
            self._refuse_the_rest()
            self._tell(lambda: self._done.set_result(None))

    def _next(self) -> bool:
        """Commit the next batch, and post some of what waits; return False at the end."""
        goes_on = True
        patience_s = _POST_AFTER_S if self._clerk.has_pages else None
        try:
            job = self._queue.get(timeout=0 if self._clerk.is_posting else patience_s)
        except Empty:
            self._post(self._clerk.post_some)
        else:
            if job is None:
                return False
            self._await_company()
            goes_on = self._batch(job)
            if self._is_time_to_post():
                self._post(self._clerk.post_some)
        return goes_on

    def _await_company(self) -> None:
        """Wait a moment for others to share the flush with, as long as they keep coming.

        Whoever was alone the last time does not wait. All waits together are no longer than a
        flush takes, so that a quick disk is not made slow.
        """
        waiting = self._queue.qsize()
        wait_s = min(_WAIT_MAX_S, self._flush_s / _WAITS_MAX)
        for _ in range(_WAITS_MAX if self._is_shared else 0):
            if waiting >= _COMPANY:
                break
            time.sleep(wait_s)
            came, waiting = self._queue.qsize() - waiting, self._queue.qsize()
            if not came:
                break

    def _refuse_the_rest(self) -> None:
        """Leave nobody waiting, should the thread end before it was asked to."""
        with suppress(Empty):
            while True:
                job = self._queue.get_nowait()
                if job is not None:
                    gone = UnavailableError("the ledger is closed")
                    self._answer(failures_of([job], gone))

    def _tell(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop was closed before the ledger was
            self._loop.call_soon_threadsafe(callback)

    def _batch(self, first: WriteRequest) -> bool:
        """Commit what waits; return False when it was the last."""
        jobs = [first]
        goes_on = True
        began_s = time.monotonic()
        try:
            self._clerk.begin()
            goes_on = self._drain(jobs)
            self._is_shared = len(jobs) > 1
            self._finish(jobs)
        except Exception as error:  # noqa: BLE001 - goes to those who asked
            self._give_up(jobs, error)
            return goes_on
        units = sum(len(job.units) for job in jobs) if self._on_batch is not None else 0
        if self._on_batch is not None and units:
            self._on_batch(units, time.monotonic() - began_s)
        return goes_on

    def _drain(self, jobs: list[WriteRequest]) -> bool:
        """Take what waits; return False when it ends with the wish to close."""
        count = len(jobs[0].units)
        with suppress(Empty):
            while count < UNITS_MAX:
                job = self._queue.get_nowait()
                if job is None:
                    return False
                jobs.append(job)
                count += len(job.units)
        return True

    def _finish(self, jobs: list[WriteRequest]) -> None:
        """Do the jobs in the transaction that is open, commit it, and answer."""
        clerk = self._clerk
        entry = clerk.enter(units_of(jobs))
        numbers = [clerk.count(job.counter) for job in jobs if job.counter is not None]
        if any(job.settles for job in jobs):
            clerk.post()
        began_s = time.monotonic()
        clerk.commit()
        self._flush_s += (time.monotonic() - began_s - self._flush_s) / _INERTIA
        self._answer(answers_of(jobs, entry.outcomes, numbers), clerk.news(entry))

    def _is_time_to_post(self) -> bool:
        """Tell whether pages are many, or have waited long."""
        now_s = time.monotonic()
        if not self._clerk.has_pages:
            self._posted_at_s = now_s
        return self._clerk.is_due or now_s - self._posted_at_s > _POST_AFTER_S

    def _post(self, post: Callable[[], None]) -> None:
        """Post pages, if there are any; what stands in the way is told with the next batch."""
        clerk = self._clerk
        if not clerk.has_pages:
            return
        try:
            clerk.begin(is_flushed=False)
            post()
            clerk.commit()
        except (sqlite3.Error, BerthError):
            clerk.roll_back()
            self._posted_at_s = time.monotonic()
            return
        if not clerk.is_posting:
            self._posted_at_s = time.monotonic()
            self._answer([], clerk.news())

    def _answer(self, answers: Answers, news: CommitNotice | None = None) -> None:
        if news is not None:
            self.newest = (news.epoch, news.version)

        def deliver() -> None:
            if news is not None:
                self._on_news(news)
            deliver(answers)

        self._tell(deliver)

    def _give_up(self, jobs: list[WriteRequest], error: Exception) -> None:
        """Roll back and answer with the error; or find the one job that is at fault."""
        self._clerk.roll_back()
        if isinstance(error, sqlite3.OperationalError):
            gone = UnavailableError(f"the ledger cannot be written now: {error}")
            gone.__cause__ = error
            self._answer(failures_of(jobs, gone))
        elif len(jobs) == 1:
            self._answer(failures_of(jobs, error))
        else:
            for job in jobs:
                self._alone(job)

    def _alone(self, job: WriteRequest) -> None:
        try:
            self._clerk.begin()
            self._finish([job])
        except Exception as error:  # noqa: BLE001 - goes to the one who asked
            self._give_up([job], error)
