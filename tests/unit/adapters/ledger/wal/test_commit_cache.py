"""The cache of the commits of this process."""

from dataclasses import replace

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.adapters.ledger.sql.row_batch import row_batch_of
from berth.adapters.ledger.wal.commit_cache import CommitCache, CommitNotice
from berth.domain.ledger.change import Change
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Heartbeats, Put, Remove, Unit
from berth.testing.builders import make_decision, make_flavor, make_instance, make_service

VM_1 = make_instance(1)


def batch(
    working_set: WorkingSet, *units: Unit, epoch: int = 1, waits: bool = True
) -> CommitNotice:
    """Return the notice of a batch that is only in the log (`waits`) or already in the tables."""
    before = working_set.version
    apply_units(working_set, units)
    change_set = working_set.take_changes()
    batch = row_batch_of(working_set, change_set, at_s=0.0, first=before + 1)
    checkpointed = 0 if waits else working_set.version
    return CommitNotice(
        epoch,
        before,
        working_set.version,
        checkpointed,
        change_set.changes,
        batch if waits else None,
    )


def versions(changes: list[Change] | None) -> list[int] | None:
    """Return the versions of changes."""
    return None if changes is None else [change.version for change in changes]


def test_changes_are_returned_from_any_version() -> None:
    """The changes of several batches are joined, and limits count versions."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(make_flavor(1)),), (Put(make_flavor(2)),)))
    recent.add(batch(working_set, (Put(make_flavor(3)),)))
    assert versions(recent.changes(0, 1000)) == [1, 2, 3]
    assert versions(recent.changes(1, 1)) == [2]
    assert versions(recent.changes(2, 1000)) == [3]
    assert recent.changes(3, 1000) == []


def test_writes_of_other_processes_begin_a_new_epoch() -> None:
    """A new epoch drops older changes, so a follower at an older version reads the file."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(make_flavor(1)),)))
    working_set.version = 4
    recent.add(batch(working_set, (Put(make_flavor(2)),), epoch=2))
    assert recent.changes(1, 1000) is None
    assert versions(recent.changes(4, 1000)) == [5]


def test_very_old_changes_are_forgotten() -> None:
    """Old batches are dropped, and the newest one is kept, whatever its size."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(make_flavor(1)),)))
    recent.add(batch(working_set, *[(Put(make_flavor(2)),)] * 1100))
    assert recent.changes(0, 10_000) is None
    assert len(recent.changes(1, 10_000) or ()) == 1100


def test_logged_records_override_the_table_until_the_checkpoint() -> None:
    """A logged record replaces that of the table; a record removed in the log is None."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(VM_1), Put(make_decision(1))), (Put(make_decision(2)),)))
    recent.add(batch(working_set, (Remove(Kind.DECISION, "req-2"),)))
    assert recent.get(Kind.INSTANCE, VM_1.uuid, None, 0) == replace(VM_1, revision=1)
    assert recent.get(Kind.DECISION, "req-1", None, 0) == make_decision(1)
    assert recent.get(Kind.DECISION, "req-2", make_decision(2), 0) is None
    assert recent.get(Kind.DECISION, "req-3", make_decision(3), 0) == make_decision(3)
    recent.add(CommitNotice(1, working_set.version, working_set.version, working_set.version))
    assert recent.get(Kind.INSTANCE, VM_1.uuid, None, 0) is None


def test_heartbeats_override_the_stored_service() -> None:
    """Everything but the last heartbeat is taken from the table."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(make_service(1)),), waits=False))
    stored = make_service(1)
    assert recent.get(Kind.SERVICE, stored.host, stored, 0) == stored
    recent.add(batch(working_set, (Heartbeats((stored.host,), 5.5),)))
    assert recent.get(Kind.SERVICE, stored.host, stored, 0) == replace(stored, last_seen_s=5.5)


def test_a_table_ahead_of_the_cache_takes_precedence() -> None:
    """Records of a table that includes the logged batches are returned as they are."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(VM_1),)))
    recent.add(batch(working_set, (Put(make_service(1)),), waits=False))
    recent.add(batch(working_set, (Heartbeats((make_service(1).host,), 5.5),)))
    newer, service = replace(VM_1, name="newer", revision=2), make_service(1, last_seen_s=9.0)
    assert recent.get(Kind.INSTANCE, VM_1.uuid, newer, working_set.version) == newer
    assert recent.get(Kind.INSTANCE, VM_1.uuid, None, working_set.version) is None
    assert recent.get(Kind.SERVICE, service.host, service, working_set.version) == service


def test_a_checkpoint_forgets_indexed_batches() -> None:
    """A checkpoint drops the batches up to its version and keeps the later ones."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(VM_1),)))
    recent.add(batch(working_set, (Put(make_decision(1)),)))
    assert recent.get(Kind.INSTANCE, VM_1.uuid, None, 0) is not None
    recent.add(CommitNotice(1, working_set.version, working_set.version, 1))
    assert recent.get(Kind.INSTANCE, VM_1.uuid, None, 0) is None
    assert recent.get(Kind.DECISION, "req-1", None, 0) == make_decision(1)


def test_a_batch_that_changed_nothing_leaves_no_gap() -> None:
    """A batch of refusals has no version, and the next batch follows the previous one."""
    working_set, recent = WorkingSet(), CommitCache()
    recent.add(batch(working_set, (Put(make_flavor(1)),)))
    recent.add(CommitNotice(1, working_set.version, working_set.version, 0))
    recent.add(batch(working_set, (Put(make_flavor(2)),)))
    assert versions(recent.changes(0, 1000)) == [1, 2]


def test_a_batch_that_is_in_the_tables_is_not_kept() -> None:
    """Only the changes of such a batch are kept, whether or not its notice begins an epoch."""
    working_set, recent = WorkingSet(), CommitCache()
    for number, epoch in ((1, 1), (2, 1), (3, 2)):
        news = batch(working_set, (Put(make_decision(number)),), epoch=epoch)
        recent.add(replace(news, checkpointed=news.version))
        assert recent.get(Kind.DECISION, f"req-{number}", None, 0) is None
        assert versions(recent.changes(news.before, 1000)) == [number]
