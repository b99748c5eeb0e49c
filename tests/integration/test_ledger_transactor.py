"""The transactor of a SQLite ledger: what others read between its steps, and crashes."""

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
    """Commit a batch and return its outcomes."""
    transactor.begin()
    entry = transactor.apply_batch(units)
    transactor.commit()
    return entry.outcomes


def step(transactor: Transactor) -> None:
    """Do one step of a checkpoint."""
    transactor.begin(is_flushed=False)
    transactor.checkpoint_step()
    transactor.commit()


def feed_versions(reader: sqlite3.Connection, after: int = 0, limit: int = 1000) -> list[int]:
    """Return the versions in the feed, as another process reads them."""
    changes = run_in_transaction(reader, read_changes(QUERIES, after, limit))
    return [change.version for change in changes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Create an empty ledger and return its path."""
    path = tmp_path / "ledger.sqlite"
    migrate_sqlite(path)
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the ledger, as another process has."""
    with closing(connect(path)) as connection:
        yield connection


@pytest.fixture
def transactor(path: Path) -> Iterator[Transactor]:
    """Yield the transactor of a ledger with one host, at version 1."""
    with closing(connect(path)) as connection:
        transactor = Transactor(connection, retention=Retention(), now_s=lambda: 1000.0)
        assert apply_batch(transactor, *make_fleet()) == [Committed(1)]
        yield transactor


def test_the_feed_is_the_same_at_every_step_of_a_checkpoint(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """A change that is in the tables and in the log is returned once, in order."""
    apply_batch(transactor, placed(1), placed(2))
    apply_batch(transactor, placed(3))
    whole = feed_versions(reader)
    assert whole == sorted(whole)
    assert set(whole) == {1, 2, 3, 4}
    steps = 0
    while transactor.has_logged_batches:
        step(transactor)
        steps += 1
        assert feed_versions(reader) == whole
        assert feed_versions(reader, after=2, limit=1) == [
            version for version in whole if version == 3
        ]
    assert steps > 1
    assert run_in_transaction(reader, read_head(QUERIES)).checkpointed == 4


def test_an_interrupted_checkpoint_is_finished_by_the_next_process(
    transactor: Transactor, path: Path
) -> None:
    """After a crash at any step of a checkpoint, the next process writes each batch once."""
    apply_batch(transactor, placed(1), placed(2))
    while transactor.has_logged_batches:
        with closing(connect(path)) as connection:
            found = copy_of(connection)
        with closing(found):
            heir = Transactor(found, retention=Retention(), now_s=lambda: 1000.0)
            assert apply_batch(heir, placed(1)) == [Committed(2, repeated=True)]
            assert feed_versions(found) == [1, 1, 1, 2, 2, 3, 3]
            assert in_use(found) == 2
        step(transactor)


def test_what_was_rolled_back_is_not_remembered(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """A batch that was rolled back leaves no version, logged batch or usage."""
    apply_batch(transactor, placed(1))
    transactor.begin()
    transactor.apply_batch([placed(2)])
    transactor.roll_back()
    assert set(feed_versions(reader)) == {1, 2}
    assert apply_batch(transactor, placed(2)) == [Committed(3)]
    transactor.begin()
    transactor.checkpoint()
    transactor.commit()
    assert not transactor.has_logged_batches
    assert in_use(reader) == 2


def test_writes_of_another_process_void_the_cache(transactor: Transactor, path: Path) -> None:
    """A transactor respects the writes of another process, and begins a new epoch."""
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


def test_a_checkpoint_right_after_a_batch_keeps_the_epoch(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """A checkpoint in the transaction of a batch does not begin a new epoch."""
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


def test_providers_are_loaded_with_their_consumers(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """Loading a consumer also loads the providers of its allocations and their inventories."""
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


def test_a_batch_without_keys_reads_the_version(
    transactor: Transactor, reader: sqlite3.Connection
) -> None:
    """A batch without keys loads the versions and empty lists."""
    assert load(reader, RequiredKeys()) == (None, 1, "[]", "[]", "[]", "[]")
    apply_batch(transactor, placed(1))
    assert load(reader, RequiredKeys()) == (2, 2, "[]", "[]", "[]", "[]")
    assert load(reader, RequiredKeys(claim_keys={"unknown"})) == load(reader, RequiredKeys())


def copy_of(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return an in-memory copy of the file as it is, for another process to continue with."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    return copy


def in_use(connection: sqlite3.Connection) -> int:
    """Return the VCPUs in use according to the tables."""
    found = connection.execute("SELECT used FROM inventories WHERE resource_class = 'VCPU'")
    used: int = found.fetchone()[0]
    return used


def test_refused_units_are_forgotten(
    transactor: Transactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of refused units do not stay in the cache unless batches are logged."""
    monkeypatch.setattr(writer_cache, "_KEYS_MAX", 10)
    for number in range(2, 40):
        refuse(transactor, number)
        assert len(transactor._cache) <= 12
    assert apply_batch(transactor, placed(1)) == [Committed(2)]
    for number in range(2, 40):
        refuse(transactor, number)
    assert len(transactor._cache) > 12, "keys of logged batches are known until the checkpoint"
    assert apply_batch(transactor, placed(1)) == [Committed(2, repeated=True)]


def refuse(transactor: Transactor, number: int) -> None:
    """Apply a unit that requests more than the capacity, and check that it is rejected."""
    (outcome,) = apply_batch(transactor, (make_take(number, amounts={VCPU: 99}),))
    assert isinstance(outcome, Rejected)
