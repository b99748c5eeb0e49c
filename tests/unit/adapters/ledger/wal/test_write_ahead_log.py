"""Records of the write-ahead log: packing, deferrable batches, and merging."""

import zlib
from dataclasses import replace

import msgspec
import pytest

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.adapters.ledger.sql.row_batch import (
    ALLOCATIONS,
    CHANGES,
    CLAIM_KEYS,
    RowBatch,
    row_batch_of,
)
from berth.adapters.ledger.wal.write_ahead_log import (
    count_rows,
    is_deferrable,
    merge_batches,
    pack_batch,
    unpack_batch,
)
from berth.domain.compute.migration import Stage
from berth.domain.errors import LedgerError
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Committed,
    Free,
    Guard,
    Heartbeats,
    Put,
    Remove,
    TransferAllocations,
    Unit,
)
from berth.testing.builders import (
    make_action,
    make_decision,
    make_flavor,
    make_fleet,
    make_instance,
    make_migration,
    make_moving_consumer,
    make_pending_request,
    make_provider,
    make_service,
    make_take,
    make_uuid,
)

HOST_1 = make_uuid("host", 1)
VM_1 = make_uuid("instance", 1)
MOVE = make_moving_consumer(1)


def committed(working_set: WorkingSet, *units: Unit) -> RowBatch:
    """Commit a batch and return its row batch."""
    first = working_set.version + 1
    for outcome in apply_units(working_set, units):
        assert isinstance(outcome, Committed), outcome
    return row_batch_of(working_set, working_set.take_changes(), at_s=7.0, first=first)


def fleet() -> WorkingSet:
    """Return the working set of one host."""
    working_set = WorkingSet()
    committed(working_set, *make_fleet(1))
    return working_set


PLACED: Unit = (make_take(1), Put(make_instance(1, host="host-1")), Put(make_decision(1)))


def test_a_batch_is_unpacked_as_it_was_packed() -> None:
    """Values and their types are preserved."""
    working_set = fleet()
    batch = committed(
        working_set, PLACED, (Heartbeats(("host-1",), 5.5), Guard("g", 9)), (Free(VM_1),)
    )
    assert unpack_batch(pack_batch(batch)) == batch
    assert batch.seen == [("host-1", "5.5")]


def test_a_packed_batch_has_the_text_of_an_instance_once() -> None:
    """The feed's change refers to the row; an intermediate state keeps its own text."""
    working_set = fleet()
    between = make_instance(1, host="host-1")
    batch = committed(
        working_set, (Put(between),), (Put(fast_replace(between, name="last", revision=1)),)
    )
    raw = zlib.decompress(pack_batch(batch))
    assert raw.count(b'"name":"last"') == 1
    assert raw.count(f'"name":"{between.name}"'.encode()) == 1
    assert unpack_batch(pack_batch(batch)) == batch


def test_a_batch_packed_by_an_older_berth_is_unpacked() -> None:
    """A batch that contains the text of each change can still be unpacked."""
    batch = committed(fleet(), PLACED)
    assert unpack_batch(zlib.compress(msgspec.msgpack.encode(batch))) == batch


def test_a_damaged_batch_is_an_error() -> None:
    """A damaged batch raises a LedgerError."""
    batch = pack_batch(RowBatch(1, 1))
    nowhere = RowBatch(1, 1, inserts={CHANGES: [(1, 0, "instance", 7)]})
    astray = zlib.compress(msgspec.msgpack.encode(nowhere))
    for damaged in (b"", batch[:-3], b"x" * 40, astray):
        with pytest.raises(LedgerError, match="daybook"):
            unpack_batch(damaged)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (PLACED, True),
        ((Put(make_pending_request(1)), Guard("g", 9)), True),
        ((Heartbeats(("host-1",), 5.0),), True),
        ((Free("nobody"),), True),
        (
            (
                make_take(1),
                TransferAllocations(VM_1, MOVE),
                Put(make_migration(1)),
                Put(make_action(1)),
            ),
            True,
        ),
        ((Put(make_migration(1)), Remove(Kind.MIGRATION, MOVE.uuid)), True),
        ((Put(make_flavor(1)),), False),
        ((Put(make_service(1)),), False),
        ((Put(make_provider(1)),), False),
        ((Remove(Kind.SERVICE, "host-1"),), False),
    ],
)
def test_only_the_lives_of_instances_are_deferrable(unit: Unit, expected: bool) -> None:
    """A batch that puts or removes a record of the fleet is not deferrable; other batches are."""
    assert is_deferrable(committed(fleet(), unit)) is expected


def test_merged_batches_have_the_last_state_of_everything() -> None:
    """A record put and removed leaves only its deletion, and each row is written once."""
    working_set = fleet()
    moved = fast_replace(make_instance(1, host="host-1"), name="renamed", revision=1)
    pages = [
        committed(working_set, PLACED, (Put(make_pending_request(2)),)),
        committed(working_set, (Put(moved),), (Remove(Kind.PENDING_REQUEST, "req-2"),)),
        committed(working_set, (Free(VM_1),), (make_take(2, amounts={VCPU: 1}),)),
    ]
    total = merge_batches(pages)
    assert (total.first, total.version) == (pages[0].first, working_set.version)
    assert total.spent == [(HOST_1, VCPU, 1, 1)]
    assert [row[0] for row in total.inserts[ALLOCATIONS]] == [make_uuid("instance", 2)]
    assert total.freed == []
    assert [row[0] for row in total.inserts[CLAIM_KEYS]] == ["claim-1", "claim-2"]
    assert [row[2] for row in total.upserts["instances"]] == ["renamed"]
    assert total.born == {VM_1}
    assert total.removed[Kind.PENDING_REQUEST] == ["req-2"]
    assert total.inserts[CHANGES] == [row for batch in pages for row in batch.inserts[CHANGES]]
    assert count_rows(total) < sum(count_rows(batch) for batch in pages)


def test_allocations_in_the_tables_are_deleted() -> None:
    """Stored allocations that were freed are deleted; new ones that were freed are not inserted."""
    working_set = fleet()
    committed(working_set, (make_take(1),))
    pages = [
        committed(working_set, (Free(VM_1),)),
        committed(working_set, (make_take(2), Free(make_uuid("instance", 2)))),
    ]
    total = merge_batches(pages)
    assert total.freed[0] == VM_1
    assert total.inserts[ALLOCATIONS] == []
    assert total.spent == [(HOST_1, VCPU, -1, 0)]


def test_transferred_allocations_are_written_once() -> None:
    """Only the last holder gets rows; an intermediate holder gets none."""
    working_set = fleet()
    committed(working_set, (make_take(1),))
    third = make_moving_consumer(2)
    pages = [
        committed(working_set, (TransferAllocations(VM_1, MOVE),)),
        committed(working_set, (TransferAllocations(MOVE.uuid, third), Put(make_migration(1)))),
        committed(working_set, (Put(replace(make_migration(1), stage=Stage.ARRIVED)),)),
    ]
    total = merge_batches(pages)
    assert total.freed == [VM_1]
    assert [row[0] for row in total.inserts[ALLOCATIONS]] == [third.uuid]
    assert [row[0] for row in total.upserts["consumers"]] == [third.uuid]
    assert total.removed[Kind.CONSUMER] == [MOVE.uuid]
    assert [row[4] for row in total.upserts["migrations"]] == ["finished"]
    assert total.spent == []
