"""How long a SQLite writer waits for more requests, and when it does not wait."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace

import pytest

from berth.adapters.ledger import SqliteLedger, open_ledger
from berth.adapters.ledger.sql.write_requests import WriteRequest
from berth.adapters.ledger.sqlite import sqlite_writer
from berth.adapters.ledger.sqlite.sqlite_writer import SqliteWriter
from berth.domain.ledger.write import Committed, Put
from berth.testing.builders import make_flavor

WAIT_MAX_S = 0.001
WAITS_MAX = 4
COMPANY = 16

PATIENCE_S = 30.0
"""A step that takes longer than this has failed."""


class Waits:
    """A replacement for the writer's sleep that records its time and lets requests arrive."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        """Record the time, call `meanwhile`, and return immediately."""
        self.waits_s.append(seconds)
        self.meanwhile()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Return the recorded waits of all writers."""
    waits = Waits()
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=waits.sleep)
    monkeypatch.setattr(sqlite_writer, "time", clock)
    return waits


@pytest.fixture
async def ledger(waits: Waits, fresh_sqlite_url: str) -> AsyncGenerator[SqliteLedger, None]:
    """Yield a SQLite ledger for one test."""
    ledger = await open_ledger(fresh_sqlite_url)
    assert isinstance(ledger, SqliteLedger)
    yield ledger
    await ledger.close()


@pytest.fixture
async def writer(ledger: SqliteLedger) -> SqliteWriter:
    """Return a writer whose thread has ended, so that only the test reads its queue.

    Its last flush took as long as all waits together may take, and its last batch was shared.
    """
    await ledger.close()
    writer = ledger._writer
    writer._is_shared = True
    writer._flush_s = WAITS_MAX * WAIT_MAX_S
    return writer


def request() -> WriteRequest:
    """Return a write request without units."""
    return WriteRequest((), None, asyncio.get_running_loop().create_future())


async def test_a_caller_that_was_alone_does_not_wait(writer: SqliteWriter, waits: Waits) -> None:
    """A writer whose last batch had one caller does not wait."""
    writer._is_shared = False
    writer._queue.put(request())
    writer._await_more_requests()
    assert waits.waits_s == []


async def test_one_wait_is_enough_without_new_requests(writer: SqliteWriter, waits: Waits) -> None:
    """A writer waits once if no more requests arrive, however many were already queued."""
    for _ in range(3):
        writer._queue.put(request())
    writer._await_more_requests()
    assert waits.waits_s == [WAIT_MAX_S]


async def test_waits_go_on_as_long_as_others_come(writer: SqliteWriter, waits: Waits) -> None:
    """A writer waits again while requests arrive, up to the limit."""
    waits.meanwhile = lambda: writer._queue.put(request())
    writer._await_more_requests()
    assert waits.waits_s == [WAIT_MAX_S] * WAITS_MAX


async def test_waits_end_when_no_more_come(writer: SqliteWriter, waits: Waits) -> None:
    """A writer stops waiting after a wait in which no request arrived."""
    late = [request()]
    waits.meanwhile = lambda: writer._queue.put(late.pop()) if late else None
    writer._await_more_requests()
    assert len(waits.waits_s) == 2


@pytest.mark.parametrize(("there", "waited"), [(COMPANY, 0), (COMPANY - 1, 1)])
async def test_enough_requests_end_the_wait(
    writer: SqliteWriter, waits: Waits, there: int, waited: int
) -> None:
    """A writer stops waiting once it has enough requests, queued before or during a wait."""
    for _ in range(there):
        writer._queue.put(request())
    waits.meanwhile = lambda: writer._queue.put(request())
    writer._await_more_requests()
    assert len(waits.waits_s) == waited


@pytest.mark.parametrize("flush_s", [0.0, 0.0002, 0.002, 0.1])
async def test_all_waits_together_are_no_longer_than_a_flush(
    writer: SqliteWriter, waits: Waits, flush_s: float
) -> None:
    """All waits together take as long as a flush, and no longer than the limit."""
    writer._flush_s = flush_s
    waits.meanwhile = lambda: writer._queue.put(request())
    writer._await_more_requests()
    assert len(waits.waits_s) == WAITS_MAX
    assert sum(waits.waits_s) == pytest.approx(min(flush_s, WAITS_MAX * WAIT_MAX_S))


async def test_a_batch_of_several_makes_the_next_one_wait(
    ledger: SqliteLedger, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer waits after a batch with several callers, but not after one with a single caller."""
    transactor = ledger._writer._transactor
    begun, gate, begin = threading.Event(), threading.Event(), transactor.begin

    def begin_late(*, is_flushed: bool = True) -> None:
        begun.set()
        assert gate.wait(PATIENCE_S)
        begin(is_flushed=is_flushed)

    monkeypatch.setattr(transactor, "begin", begin_late)
    commits = [asyncio.create_task(ledger.commit([(Put(make_flavor(n)),)])) for n in (1, 2)]
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    gate.set()
    assert await asyncio.gather(*commits) == [[Committed(1)], [Committed(2)]]
    assert waits.waits_s == []
    await ledger.commit([(Put(make_flavor(3)),)])
    assert len(waits.waits_s) == 1
    await ledger.commit([(Put(make_flavor(4)),)])
    assert len(waits.waits_s) == 1
