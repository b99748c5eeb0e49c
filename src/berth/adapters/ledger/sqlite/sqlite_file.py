"""Opening a SQLite file the way the ledger wants it, and asking it questions."""

import sqlite3
import time
from pathlib import Path
from typing import Final, TypeVar

from berth.adapters.ledger.wal.reads import Read
from berth.domain.errors import LedgerError

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 10.0
"""How long a writer waits for the writers of other processes."""

_PAUSE_S: Final = 0.005

_OLDEST: Final = (3, 35, 0)
"""The first that knows RETURNING; UPDATE FROM is older."""

_PRAGMAS: Final = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open a file, and make it if there is none, durable at every commit.

    Raises:
        LedgerError: it cannot be opened, or is no database, or SQLite itself is too old.
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise LedgerError(f"SQLite {sqlite3.sqlite_version} is too old; {oldest} is needed")
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        _execute_when_free(connection, "PRAGMA journal_mode = WAL")
        connection.executescript(_PRAGMAS)
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: cannot be opened as a SQLite ledger: {error}") from error
    return connection


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Wait for other connections where SQLite itself does not.

    Turning a new file into a write-ahead log needs the file alone, and SQLite answers at once
    that it is busy, whatever the timeout, when two connections try at the same time.
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
    """Answer a read's questions one after the other, each in one step of SQLite."""
    try:
        statement, parameters = next(read)
        while True:
            row: tuple[str] = connection.execute(_gathered(statement.text), parameters).fetchone()
            statement, parameters = read.send(row[0])
    except StopIteration as done:
        answer: T = done.value
        return answer


def run_in_transaction(connection: sqlite3.Connection, read: Read[T]) -> T:
    """Answer a read's questions from one and the same state of the ledger."""
    connection.execute("BEGIN")
    try:
        return run_read(connection, read)
    finally:
        connection.execute("ROLLBACK")


def _gathered(text: str) -> str:
    array = "'[' || coalesce(group_concat(item, ','), '') || ']'"
    return f"SELECT {array} FROM ({text})"  # noqa: S608 - the text is one of our queries


_SETTLED_NS: Final = 50_000_000
"""Dates of files go in steps of some milliseconds: what was written twice within one shows once."""


_ASK_NS: Final = 500_000_000
"""So often it is said to have changed in any case: nothing is to depend on dates alone."""


class WalFileWatch:
    """Remembers what the write-ahead log of a database looked like.

    Args:
        database: its file.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._seen: tuple[int, int, int] | None = None
        self._asked_ns = 0

    def may_have_changed(self) -> bool:
        """Tell whether there may be something new since the last time this was True."""
        now_ns = time.time_ns()
        try:
            found = self._log.stat()
        except OSError:
            return True
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen and 0 <= now_ns - self._asked_ns < _ASK_NS:
            return False
        # A write that comes now could leave a date that is as new as this one unchanged.
        self._seen = seen if now_ns - found.st_mtime_ns > _SETTLED_NS else None
        self._asked_ns = now_ns
        return True
