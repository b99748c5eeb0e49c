"""Detection of commits by the file of the write-ahead log, even within one clock step."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from berth.adapters.ledger.sqlite import sqlite_file
from berth.adapters.ledger.sqlite.sqlite_file import WalFileWatch, connect


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that writes as another process does."""
    with closing(connect(tmp_path / "db")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        yield connection


def settle(folder: Path) -> None:
    """Set the file's modification time one second back."""
    then_ns = time.time_ns() - 10**9
    os.utime(folder / "db-wal", ns=(then_ns, then_ns))


def test_an_unchanged_file_is_not_queried(writer: sqlite3.Connection, tmp_path: Path) -> None:
    """The first check reports a change, and later checks report each commit."""
    trace = WalFileWatch(tmp_path / "db")
    settle(tmp_path)
    assert trace.may_have_changed()
    for number in range(3):
        assert not trace.may_have_changed()
        writer.execute("INSERT INTO t VALUES (?)", (number,))
        assert trace.may_have_changed()
        settle(tmp_path)
        assert trace.may_have_changed()


def test_a_log_that_was_just_written_may_change_unseen(
    writer: sqlite3.Connection, tmp_path: Path
) -> None:
    """A log written just now counts as changed, as two commits may leave the same file time."""
    trace = WalFileWatch(tmp_path / "db")
    writer.execute("INSERT INTO t VALUES (1)")
    # On a busy machine, the log would not be new any more when it is checked.
    soon_ns = time.time_ns() + 10**9
    os.utime(tmp_path / "db-wal", ns=(soon_ns, soon_ns))
    assert trace.may_have_changed()
    assert trace.may_have_changed()


def test_file_times_are_not_trusted_for_long(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file counts as changed at intervals, and always if there is no log file."""
    trace = WalFileWatch(tmp_path / "db")
    settle(tmp_path)
    assert trace.may_have_changed()
    assert not trace.may_have_changed()
    monkeypatch.setattr(sqlite_file, "_ASK_NS", 0)
    assert trace.may_have_changed()
    assert WalFileWatch(tmp_path / "none").may_have_changed()
    assert writer.in_transaction is False
