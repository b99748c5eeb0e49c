"""The write-ahead log tells of commits, also of several within one step of its date."""

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
    """Another process, as it were, that writes."""
    with closing(connect(tmp_path / "db")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        yield connection


def settle(folder: Path) -> None:
    """Have the last commit be some time ago."""
    then_ns = time.time_ns() - 10**9
    os.utime(folder / "db-wal", ns=(then_ns, then_ns))


def test_what_did_not_change_is_not_looked_at(writer: sqlite3.Connection, tmp_path: Path) -> None:
    """After the first time; each commit is seen."""
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
    """Two commits within one step of the clock leave the same date."""
    trace = WalFileWatch(tmp_path / "db")
    writer.execute("INSERT INTO t VALUES (1)")
    assert trace.may_have_changed()
    assert trace.may_have_changed()


def test_dates_are_not_all(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then it is looked at in any case, and always where there is no log."""
    trace = WalFileWatch(tmp_path / "db")
    settle(tmp_path)
    assert trace.may_have_changed()
    assert not trace.may_have_changed()
    monkeypatch.setattr(sqlite_file, "_ASK_NS", 0)
    assert trace.may_have_changed()
    assert WalFileWatch(tmp_path / "none").may_have_changed()
    assert writer.in_transaction is False
