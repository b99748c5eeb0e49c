"""Access to a SQLite file: durable connections, reads, and detection of other processes' writes."""

import sqlite3
import time
from pathlib import Path
from typing import Final, TypeVar

from berth.adapters.ledger.wal.reads import Read
from berth.domain.errors import LedgerError

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 10.0
"""Seconds for which a connection waits for a lock that another process holds."""

_PAUSE_S: Final = 0.005

# The first version of SQLite that supports RETURNING.
_OLDEST: Final = (3, 35, 0)

# `synchronous = FULL` flushes SQLite's own write-ahead log at every commit, because a commit is
# acknowledged right after it. SQLite checkpoints that log after 4,000 pages instead of 1,000, since
# each checkpoint flushes the database file, and a page that changes often is then written once for
# more commits. `journal_size_limit` shrinks the log file to 64 MiB after a long read has let it
# grow.
_PRAGMAS: Final = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a file, created if necessary, on which every commit is durable.

    Raises:
        LedgerError: the file cannot be opened or is not a database, or SQLite is too old.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise LedgerError(
            f"SQLite {sqlite3.sqlite_version} is too old; install version {oldest} or newer"
        )
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_S,
            # Berth begins and ends transactions explicitly; by default sqlite3 begins them itself.
            isolation_level=None,
            # A connection moves between threads, but only one thread uses it at a time.
            check_same_thread=False,
            cached_statements=512,
        )
        _execute_when_free(connection, "PRAGMA journal_mode = WAL")
        connection.executescript(_PRAGMAS)
    except sqlite3.Error as error:
        raise LedgerError(
            f"the SQLite ledger {path} cannot be opened ({error}); check the path and the file's "
            "permissions"
        ) from error
    return connection


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Execute a statement, and repeat it for up to `BUSY_TIMEOUT_S` seconds while the file is busy.

    Switching a new file to WAL mode needs exclusive access. If two connections try at the same
    time, SQLite fails one of them immediately, regardless of the timeout.

    Raises:
        sqlite3.OperationalError: the statement failed, or the file stayed busy.
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
    """Run the statements of a read one after the other, and return the result of the read.

    SQLite returns all items of a statement as a single row, because sqlite3 releases and takes the
    interpreter lock for each row.
    """
    try:
        statement, parameters = next(read)
        while True:
            row: tuple[str] = connection.execute(_gathered(statement.text), parameters).fetchone()
            statement, parameters = read.send(row[0])
    except StopIteration as done:
        answer: T = done.value
        return answer


def run_in_transaction(connection: sqlite3.Connection, read: Read[T]) -> T:
    """Run the statements of a read on one consistent state, and return the result of the read."""
    # In WAL mode a read transaction sees the state at its first statement and blocks no writer.
    connection.execute("BEGIN")
    try:
        return run_read(connection, read)
    finally:
        connection.execute("ROLLBACK")


def _gathered(text: str) -> str:
    array = "'[' || coalesce(group_concat(item, ','), '') || ']'"
    return f"SELECT {array} FROM ({text})"  # noqa: S608 - the text is one of our queries


# File times advance in steps of a few milliseconds, and two writes within one step have the same
# time. A modification time that is older than this belongs to a step that has ended.
_SETTLED_NS: Final = 50_000_000

# After this many nanoseconds the file is reported as possibly changed, whatever its times say.
_ASK_NS: Final = 500_000_000


class WalFileWatch:
    """Detects that a SQLite database may have been written, without querying it.

    Each commit goes to SQLite's write-ahead log file (`-wal`) and changes its modification time or
    its size. Checking these is much cheaper than a query.

    Args:
        database: the database file.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._seen: tuple[int, int, int] | None = None
        self._asked_ns = 0

    def may_have_changed(self) -> bool:
        """Return whether there may have been commits since the last call that returned True.

        The result is also True if the log file cannot be examined, and at least every 0.5 s.
        """
        now_ns = time.time_ns()
        try:
            found = self._log.stat()
        except OSError:
            return True
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen and 0 <= now_ns - self._asked_ns < _ASK_NS:
            return False
        # A recent state is not remembered, because the next write could fall into the same step of
        # the file's clock and leave the time unchanged.
        self._seen = seen if now_ns - found.st_mtime_ns > _SETTLED_NS else None
        self._asked_ns = now_ns
        return True
