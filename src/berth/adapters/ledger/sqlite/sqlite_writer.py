"""The thread that writes to a SQLite ledger; each process has one.

Each transaction commits all requests that wait when it begins, so concurrent callers share one
flush of the disk.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.sql.write_requests import (
    SPACE_TEST,
    UNITS_MAX,
    Answers,
    WriteRequest,
    answers_of,
    deliver,
    failures_of,
    units_of,
)
from berth.adapters.ledger.sqlite.sqlite_file import connect
from berth.adapters.ledger.sqlite.transactor import Transactor
from berth.adapters.ledger.wal.commit_cache import CommitNotice
from berth.domain.errors import BerthError, UnavailableError
from berth.domain.ledger.write import Outcome

# When batches have been in the log for this long, a checkpoint begins even if no read needs it.
_CHECKPOINT_AFTER_S: Final = 2.0

# Before a batch, the writer waits up to 4 times for up to 1 ms each, until 16 requests wait or no
# more arrive.
_WAIT_MAX_S: Final = 0.001
_WAITS_MAX: Final = 4
_ENOUGH_REQUESTS: Final = 16

# The duration of a flush is averaged over about this many flushes.
_INERTIA: Final = 8


def _describe_fault(error: sqlite3.OperationalError) -> str:
    """Return why writes are not stored, in words for the readiness probe."""
    is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return "the disk of the ledger is full" if is_full else "the ledger cannot be written"


class SqliteWriter:
    """Accepts write requests in the event loop, and answers them there once they are durable.

    Args:
        path: the database file.
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds.
        on_notice: called in the event loop with the notice of each commit and of the end of each
            checkpoint, before any caller is answered.
        on_batch: called in the writer's thread with the number of units in a committed batch and
            the seconds that its commit took.
        on_failure: called in the writer's thread with an error that no caller receives.

    Attributes:
        newest: the epoch and version of the newest notice, which `on_notice` may not have received
            yet.
        fault: the reason why the latest batch was not stored, if the file or its disk was the
            cause; None otherwise.
    """

    def __init__(
        self,
        path: Path,
        *,
        retention: Retention,
        now_s: Callable[[], float],
        on_notice: Callable[[CommitNotice], None],
        on_batch: Callable[[int, float], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.newest = (0, -1)
        self.fault: str | None = None
        self._connection = connect(path)
        self._transactor = Transactor(self._connection, retention=retention, now_s=now_s)
        self._on_notice = on_notice
        self._on_batch = on_batch
        self._on_failure = on_failure
        self._checkpointed_at_s = time.monotonic()
        self._is_shared = False
        self._flush_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[WriteRequest | None] = SimpleQueue()
        self._done = self._loop.create_future()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="berth-ledger", daemon=True)
        self._thread.start()

    # --- in the event loop ---

    @property
    def is_alive(self) -> bool:
        """Whether the writer's thread is running; if not, every request fails."""
        return self._thread.is_alive()

    async def checkpoint(self) -> None:
        """Write to the tables everything that any process has committed before this call.

        Raises:
            UnavailableError: the ledger is closed, locked for too long, or cannot be written.
            LedgerError: the ledger is damaged.
        """
        answer: asyncio.Future[list[Outcome]] = self._loop.create_future()
        self.submit(WriteRequest((), None, answer, checkpoints=True))
        await answer

    async def close(self) -> None:
        """Finish the accepted requests, then end the thread."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._done)
        self._thread.join()

    def submit(self, request: WriteRequest) -> None:
        """See `WriteQueue.submit`."""
        if self._closing:
            raise UnavailableError(
                "the ledger is closed, because this process is stopping; try again"
            )
        self._queue.put(request)

    # --- in the thread ---

    def _run(self) -> None:
        try:
            while self._next_or_recover():
                pass
        finally:
            self._closing = True
            # The last checkpoint leaves no log records, so other programs find complete tables.
            self._checkpoint(self._transactor.checkpoint)
            self._connection.close()
            self._fail_remaining()
            self._call_in_loop(lambda: self._done.set_result(None))

    def _next_or_recover(self) -> bool:
        """Do the same as `_next`; after an unexpected error, recover and continue."""
        try:
            return self._next()
        except BaseException as error:  # noqa: BLE001 - without this thread nothing could be written
            with suppress(Exception):
                self._report(error)
            # If the rollback fails as well, the next batch fails to begin, and rolls back again.
            with suppress(Exception):
                self._transactor.roll_back()
            # The request to close may have been taken from the queue before the error.
            return not self._closing

    def _report(self, error: BaseException) -> None:
        if self._on_failure is not None:
            self._on_failure(error)

    def _next(self) -> bool:
        """Commit the next batch, and advance the checkpoint if one is due.

        Without a request, only the checkpoint is advanced. Return False when the thread must end.
        """
        goes_on = True
        patience_s = _CHECKPOINT_AFTER_S if self._transactor.has_logged_batches else None
        try:
            # With a timeout above 0, a running checkpoint would pause until the next request.
            request = self._queue.get(
                timeout=0 if self._transactor.is_checkpointing else patience_s
            )
        except Empty:
            self._checkpoint(self._transactor.checkpoint_step)
        else:
            if request is None:
                return False
            self._await_more_requests()
            goes_on = self._commit_batch(request)
            if self._is_checkpoint_due():
                self._checkpoint(self._transactor.checkpoint_step)
        return goes_on

    def _await_more_requests(self) -> None:
        """Wait briefly for more requests that can share the flush, as long as some arrive.

        There is no wait if the last batch had only one request. All waits together last no longer
        than a flush, so that a fast disk is not slowed down.
        """
        waiting = self._queue.qsize()
        wait_s = min(_WAIT_MAX_S, self._flush_s / _WAITS_MAX)
        for _ in range(_WAITS_MAX if self._is_shared else 0):
            if waiting >= _ENOUGH_REQUESTS:
                break
            time.sleep(wait_s)
            came, waiting = self._queue.qsize() - waiting, self._queue.qsize()
            if not came:
                break

    def _fail_remaining(self) -> None:
        """Fail the requests that are still queued when the thread ends unexpectedly."""
        with suppress(Empty):
            while True:
                request = self._queue.get_nowait()
                if request is not None:
                    gone = UnavailableError(
                        "the ledger is closed, because this process is stopping; try again"
                    )
                    self._answer(failures_of([request], gone))

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop was closed before the ledger
            self._loop.call_soon_threadsafe(callback)

    def _commit_batch(self, first: WriteRequest) -> bool:
        """Commit the waiting requests; return False if the request to close was among them."""
        requests = [first]
        goes_on = True
        began_s = time.monotonic()
        try:
            # The queue is drained after the lock is taken, so that requests that arrive while
            # another process holds the lock become part of this batch.
            self._transactor.begin()
            goes_on = self._drain(requests)
            self._is_shared = len(requests) > 1
            self._finish(requests)
        except BaseException as error:  # noqa: BLE001 - is passed on to the callers
            try:
                self._fail(requests, error)
            except BaseException:
                # `deliver` skips the requests that have been answered.
                gone = UnavailableError(
                    "the ledger cannot be written to now, because its writer is recovering from an "
                    "error; try again"
                )
                self._answer(failures_of(requests, gone))
                raise
            return goes_on
        units = sum(len(request.units) for request in requests) if self._on_batch is not None else 0
        if self._on_batch is not None and units:
            self._on_batch(units, time.monotonic() - began_s)
        return goes_on

    def _drain(self, requests: list[WriteRequest]) -> bool:
        """Append waiting requests, up to about `UNITS_MAX` units.

        Return False if the request to close was among them, and True otherwise.
        """
        count = len(requests[0].units)
        with suppress(Empty):
            while count < UNITS_MAX:
                request = self._queue.get_nowait()
                if request is None:
                    return False
                requests.append(request)
                count += len(request.units)
        return True

    def _finish(self, requests: list[WriteRequest]) -> None:
        """Carry out the requests in the open transaction, commit it, and answer the requests."""
        transactor = self._transactor
        result = transactor.apply_batch(units_of(requests))
        numbers = [
            transactor.next_id(request.counter)
            for request in requests
            if request.counter is not None
        ]
        for request in requests:
            if request.heartbeats is not None:
                transactor.save_heartbeats(request.heartbeats)
        if any(request.tests_space for request in requests):
            for statement in SPACE_TEST:
                self._connection.execute(statement)
        if any(request.checkpoints for request in requests):
            transactor.checkpoint()
        began_s = time.monotonic()
        # The requests are answered only after this returns, because only then is the batch on disk.
        transactor.commit()
        self.fault = None
        self._flush_s += (time.monotonic() - began_s - self._flush_s) / _INERTIA
        self._answer(answers_of(requests, result.outcomes, numbers), transactor.notice(result))

    def _is_checkpoint_due(self) -> bool:
        """Return whether a checkpoint is due.

        It is due if the transactor says so, or if batches have been in the log for 2 s.
        """
        now_s = time.monotonic()
        if not self._transactor.has_logged_batches:
            self._checkpointed_at_s = now_s
        return (
            self._transactor.is_checkpoint_due
            or now_s - self._checkpointed_at_s > _CHECKPOINT_AFTER_S
        )

    def _checkpoint(self, checkpoint: Callable[[], None]) -> None:
        """Run a checkpoint or one step of it in its own transaction, if any batches are logged.

        An error of the database is not reported here, because it recurs with the next batch.
        """
        transactor = self._transactor
        if not transactor.has_logged_batches:
            return
        try:
            # This transaction need not be flushed: the log still has everything that a crash could
            # undo.
            transactor.begin(is_flushed=False)
            checkpoint()
            transactor.commit()
        except Exception as error:  # noqa: BLE001 - without this thread the process could not write
            if not isinstance(error, sqlite3.Error | BerthError):
                self._report(error)
            transactor.roll_back()
            self._checkpointed_at_s = time.monotonic()
            return
        if not transactor.is_checkpointing:
            self._checkpointed_at_s = time.monotonic()
            self._answer([], transactor.notice())

    def _answer(self, answers: Answers, notice: CommitNotice | None = None) -> None:
        """Deliver the answers in the event loop, after the notice of the commit."""
        if notice is not None:
            # `newest` is set in this thread, before the event loop receives the notice. Reads
            # compare it with the commit cache to find out whether a commit is on its way.
            self.newest = (notice.epoch, notice.version)

        def notify_and_deliver() -> None:
            if notice is not None:
                self._on_notice(notice)
            deliver(answers)

        self._call_in_loop(notify_and_deliver)

    def _fail(self, requests: list[WriteRequest], error: BaseException) -> None:
        """Roll back, then fail the requests, or retry each alone to find the cause of the error."""
        self._transactor.roll_back()
        if isinstance(error, sqlite3.OperationalError):
            self.fault = _describe_fault(error)
            gone = UnavailableError(f"the ledger cannot be written to now ({error}); try again")
            gone.__cause__ = error
            self._answer(failures_of(requests, gone))
        elif len(requests) == 1:
            self._answer(failures_of(requests, error))
        else:
            # Units of one caller that cannot be stored, for instance because they contain a NaN,
            # must not fail those of the others.
            for request in requests:
                self._retry_alone(request)

    def _retry_alone(self, request: WriteRequest) -> None:
        try:
            self._transactor.begin()
            self._finish([request])
        except Exception as error:  # noqa: BLE001 - is passed on to the caller
            self._fail([request], error)
