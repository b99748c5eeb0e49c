"""The transactor of a SQLite ledger: what others read between its steps, and what it survives."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.engine.working_set import RequiredKeys
from berth.adapters.ledger.schema_migration import migrate_sqlite
from berth.adapters.ledger.sql import writer_cache
from berth.adapters.ledger.sql.queries import Queries
from berth.adapters.ledger.sqlite.sqlite_batch import load
from berth.adapters.ledger.sqlite.sqlite_file import connect, run_in_transaction
from berth.adapters.ledger.sqlite.transactor import Transactor
from berth.adapters.ledger.wal.reads import read_changes, read_head
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.write import Committed, Outcome, Put, Rejected, Unit
from berth.testing.builders import (
    make_decision,
    make_fleet,
    make_instance,
    make_take,
    make_uuid,
)

QUERIES = Queries("sqlite")


def placed(number: int) -> Unit:
    """Return the unit that places an instance, as a scheduler commits it."""
    return (make_take(number), Put(make_instance(number)), Put(make_decision(number)))


def apply_batch(transactor: Transactor, *units: Unit) -> list[Outcome]:
    """Commit a batch."""
    transactor.begin()
    entry = transactor.apply_batch(units)
    transactor.commit()
    return entry.outcomes


def step(transactor: Transactor) -> None:
    """Take the pages one step further into the tables."""
    transactor.begin(is_flushed=False)
    transactor.checkpoint_step()
    transactor.commit()


def told(reader: sqlite3.Connection, after: int = 0, limit: int = 1000) -> list[int]:
    """Return the versions of the changes in the feed, as another process reads them."""
    changes = run_in_transaction(reader, read_changes(QUERIES, after, limit))
    return [change.version for change in changes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make an empty ledger."""
    path = tmp_path / "ledger.sqlite"
    migrate_sqlite(path)
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the ledger as another process does."""
    with closing(connect(path)) as connection:
        yield connection


@pytest.fixture
def transactor(path: Path) -> Iterator[Transactor]:
    """Return a clerk of a ledger with one host, at version 1."""
    with closing(connect(path)) as connection:
        transactor = Transactor(connection, retention=Retention(), now_s=lambda: 1000.0)
        assert apply_batch(transactor, *make_fleet()) == [Committed(1)]
        yield transactor


def test_the_feed_is_the_same_at_every_step_of_posting(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """What is in the tables and on a page as well is told once, in order."""
    apply_batch(transactor, placed(1), placed(2))
    apply_batch(transactor, placed(3))
    whole = told(reader)
    assert whole == sorted(whole)
    assert set(whole) == {1, 2, 3, 4}
    steps = 0
    while transactor.has_logged_batches:
        step(transactor)
        steps += 1
        assert told(reader) == whole
        assert told(reader, after=2, limit=1) == [version for version in whole if version == 3]
    assert steps > 1
    assert run_in_transaction(reader, read_head(QUERIES)).checkpointed == 4


def test_a_round_that_was_begun_is_finished_by_whoever_comes(
    transactor: Transactor, path: Path
) -> None:
    """A process may die at any step: the next one posts what it finds, and nothing twice."""
    apply_batch(transactor, placed(1), placed(2))
    while transactor.has_logged_batches:
        with closing(connect(path)) as connection:
            found = copy_of(connection)
        with closing(found):
            heir = Transactor(found, retention=Retention(), now_s=lambda: 1000.0)
            assert apply_batch(heir, placed(1)) == [Committed(2, repeated=True)]
            assert told(found) == [1, 1, 1, 2, 2, 3, 3]
            assert in_use(found) == 2
        step(transactor)


def test_what_was_rolled_back_is_not_remembered(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """Neither as a page to be posted nor as room that is taken."""
    apply_batch(transactor, placed(1))
    transactor.begin()
    transactor.apply_batch([placed(2)])
    transactor.roll_back()
    assert set(told(reader)) == {1, 2}
    assert apply_batch(transactor, placed(2)) == [Committed(3)]
    transactor.begin()
    transactor.checkpoint()
    transactor.commit()
    assert not transactor.has_logged_batches
    assert in_use(reader) == 2


def test_whoever_was_not_alone_forgets_and_begins_anew(transactor: Transactor, path: Path) -> None:
    """What others wrote counts, and what is told of the own past begins a new epoch."""
    apply_batch(transactor, placed(1))
    epoch = transactor.epoch
    with closing(connect(path)) as connection:
        other = Transactor(connection, retention=Retention(), now_s=lambda: 1000.0)
        renamed = replace(make_instance(1), name="other", revision=1)
        assert apply_batch(other, (Put(renamed),)) == [Committed(3)]
    (outcome,) = apply_batch(transactor, (Put(replace(renamed, name="mine")),))
    assert isinstance(outcome, Rejected)
    assert transactor.epoch == epoch + 1
    assert not transactor.has_logged_batches


def test_posting_right_after_a_batch_begins_no_new_epoch(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """Whoever lists instances while others are placed must not make the clerk forget."""
    apply_batch(transactor, placed(1))
    epoch = transactor.epoch
    transactor.begin()
    transactor.apply_batch([placed(2)])
    transactor.checkpoint()
    transactor.commit()
    assert transactor.epoch == epoch
    assert not transactor.has_logged_batches
    assert in_use(reader) == 2
    assert apply_batch(transactor, placed(3)) == [Committed(4)]
    assert transactor.epoch == epoch


def test_providers_come_with_those_who_hold_something_of_them(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """Only the store knows which: whoever frees what a consumer holds names no provider."""
    transactor.begin()
    transactor.apply_batch([placed(1)])
    transactor.checkpoint()
    transactor.commit()
    vm_1, host_1 = make_instance(1).uuid, make_uuid("host", 1)
    loaded = list(load(reader, RequiredKeys(consumers={vm_1})))
    assert loaded[:3] == [None, 2, "[]"]
    held, providers, inventories = [json.loads(str(text)) for text in loaded[3:]]
    assert held == [[vm_1, host_1, {"VCPU": 1}]]
    assert providers == [[host_1, 0]]
    assert {row[0] for row in inventories} == {host_1}


def test_a_batch_that_needs_nothing_learns_how_far_the_ledger_is(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """In the same form as any other."""
    assert load(reader, RequiredKeys()) == (None, 1, "[]", "[]", "[]", "[]")
    apply_batch(transactor, placed(1))
    assert load(reader, RequiredKeys()) == (2, 2, "[]", "[]", "[]", "[]")
    assert load(reader, RequiredKeys(claim_keys={"unknown"})) == load(reader, RequiredKeys())


def copy_of(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the file as it is, in memory, for somebody else to go on with."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    return copy


def in_use(connection: sqlite3.Connection) -> int:
    """Return how many VCPUs are in use, by the tables."""
    found = connection.execute("SELECT used FROM inventories WHERE resource_class = 'VCPU'")
    used: int = found.fetchone()[0]
    return used


def test_what_is_refused_is_not_remembered_for_ever(
    transactor: Transactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may be committed for days, while clients ask for what there is not."""
    monkeypatch.setattr(writer_cache, "_KEYS_MAX", 10)
    for number in range(2, 40):
        refuse(transactor, number)
        assert len(transactor._cache) <= 12
    assert apply_batch(transactor, placed(1)) == [Committed(2)]
    for number in range(2, 40):
        refuse(transactor, number)
    assert len(transactor._cache) > 12, "what the daybook has is known until it is posted"
    assert apply_batch(transactor, placed(1)) == [Committed(2, repeated=True)]


def refuse(transactor: Transactor, number: int) -> None:
    """Ask for more than there is, for a consumer that nobody knows."""
    (outcome,) = apply_batch(transactor, (make_take(number, amounts={VCPU: 99}),))
    assert isinstance(outcome, Rejected)
