"""Access to a SQLite file: opening it durably, running reads, detecting foreign writes."""

import sqlite3
import time
from pathlib import Path
from typing import Final, TypeVar

from berth.adapters.ledger.wal.reads import Read
from berth.domain.errors import LedgerError

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 10.0
"""Seconds that a writer waits for the writers of other processes."""

_PAUSE_S: Final = 0.005

# The first version with RETURNING; UPDATE FROM is older.
_OLDEST: Final = (3, 35, 0)

# FULL: the write-ahead log is flushed at every commit, since a commit is acknowledged right after.
# 4000 pages (16 MB) between SQLite's own checkpoints, in place of 1000: each one flushes the
# database file, and hot pages then are written once for many commits. The log file shrinks to 64 MB
# after a long reader has let it grow.
_PRAGMAS: Final = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open a file, creating it if necessary, so that every commit is durable.

    Raises:
        LedgerError: the file cannot be opened or is no database, or SQLite is too old.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise LedgerError(
            f"SQLite {sqlite3.sqlite_version} is too old; {oldest} or newer is needed"
        )
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_S,
            # Transactions are begun and ended explicitly; sqlite3 would begin them on its own.
            isolation_level=None,
            # A connection moves between threads, but only one thread uses it at a time.
            check_same_thread=False,
            cached_statements=512,
        )
        _execute_when_free(connection, "PRAGMA journal_mode = WAL")
        connection.executescript(_PRAGMAS)
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: cannot be opened as a SQLite ledger: {error}") from error
    return connection


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Retry a statement while the file is busy, in the one case where SQLite does not wait itself.

    Switching a new file to WAL mode needs exclusive access. If two connections try at the same
    time, SQLite fails one of them immediately, whatever the timeout.
    """
    deadline_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            busy = (error.sqlite_errorcode & 0xFF) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
            if not busy or time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def run_read(connection: sqlite3.Connection, read: Read[T]) -> T:
    """Run the statements of a read one after the other, each in one step of SQLite."""
    try:
        statement, parameters = next(read)
        while True:
            row: tuple[str] = connection.execute(_gathered(statement.text), parameters).fetchone()
            statement, parameters = read.send(row[0])
    except StopIteration as done:
        answer: T = done.value
        return answer


def run_in_transaction(connection: sqlite3.Connection, read: Read[T]) -> T:
    """Run the statements of a read on one consistent state of the ledger."""
    # In WAL mode a read transaction sees the state at its first statement and blocks no writer.
    connection.execute("BEGIN")
    try:
        return run_read(connection, read)
    finally:
        connection.execute("ROLLBACK")


def _gathered(text: str) -> str:
    array = "'[' || coalesce(group_concat(item, ','), '') || ']'"
    return f"SELECT {array} FROM ({text})"  # noqa: S608 - the text is one of our queries


# File times advance in steps of some milliseconds, so two writes within one step look alike.
_SETTLED_NS: Final = 50_000_000


# The file counts as changed at least every 0.5 s, so that nothing depends on file times alone.
_ASK_NS: Final = 500_000_000


class WalFileWatch:
    """Detects that a SQLite database may have been written, without asking SQLite.

    Each commit goes to SQLite's write-ahead log file (`-wal`) and changes its modification time or
    its size. Checking these costs a tenth of a query.

    Args:
        database: the database file.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._seen: tuple[int, int, int] | None = None
        self._asked_ns = 0

    def may_have_changed(self) -> bool:
        """Return whether there may be new commits since this last returned True."""
        now_ns = time.time_ns()
        try:
            found = self._log.stat()
        except OSError:
            return True
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen and 0 <= now_ns - self._asked_ns < _ASK_NS:
            return False
        # The next write could fall into the same step of the file's clock and not change its time.
        self._seen = seen if now_ns - found.st_mtime_ns > _SETTLED_NS else None
        self._asked_ns = now_ns
        return True
