"""Pages of the daybook: packed, told apart from what cannot wait, and put together."""

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


def entered(working_set: WorkingSet, *units: Unit) -> RowBatch:
    """Commit a batch and return what it did."""
    first = working_set.version + 1
    for outcome in apply_units(working_set, units):
        assert isinstance(outcome, Committed), outcome
    return row_batch_of(working_set, working_set.take_changes(), at_s=7.0, first=first)


def fleet() -> WorkingSet:
    """Return books of one host."""
    working_set = WorkingSet()
    entered(working_set, *make_fleet(1))
    return working_set


PLACED: Unit = (make_take(1), Put(make_instance(1, host="host-1")), Put(make_decision(1)))


def test_a_page_is_read_as_it_was_packed() -> None:
    """Every value comes back, and numbers are of the same kind."""
    working_set = fleet()
    batch = entered(
        working_set, PLACED, (Heartbeats(("host-1",), 5.5), Guard("g", 9)), (Free(VM_1),)
    )
    assert unpack_batch(pack_batch(batch)) == batch
    assert batch.seen == [("host-1", "5.5")]


def test_a_page_has_the_text_of_an_instance_once() -> None:
    """What the feed tells of it is found again in its row; a state in between stands alone."""
    working_set = fleet()
    between = make_instance(1, host="host-1")
    batch = entered(
        working_set, (Put(between),), (Put(fast_replace(between, name="last", revision=1)),)
    )
    raw = zlib.decompress(pack_batch(batch))
    assert raw.count(b'"name":"last"') == 1
    assert raw.count(f'"name":"{between.name}"'.encode()) == 1
    assert unpack_batch(pack_batch(batch)) == batch


def test_a_page_of_before_is_read() -> None:
    """Pages may have the text of each change beside it."""
    batch = entered(fleet(), PLACED)
    assert unpack_batch(zlib.compress(msgspec.msgpack.encode(batch))) == batch


def test_a_damaged_page_is_told() -> None:
    """What cannot be read raises Berth's own error."""
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
def test_only_the_lives_of_instances_wait(unit: Unit, expected: bool) -> None:
    """Whatever changes the fleet is written to its tables at once."""
    assert is_deferrable(entered(fleet(), unit)) is expected


def test_pages_come_to_the_last_state_of_everything() -> None:
    """What came and went leaves only what undoes it, and rows are counted once."""
    working_set = fleet()
    moved = fast_replace(make_instance(1, host="host-1"), name="renamed", revision=1)
    pages = [
        entered(working_set, PLACED, (Put(make_pending_request(2)),)),
        entered(working_set, (Put(moved),), (Remove(Kind.PENDING_REQUEST, "req-2"),)),
        entered(working_set, (Free(VM_1),), (make_take(2, amounts={VCPU: 1}),)),
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


def test_what_was_there_before_the_pages_is_freed() -> None:
    """An allocation that the tables have is deleted there, though it is taken and freed again."""
    working_set = fleet()
    entered(working_set, (make_take(1),))
    pages = [
        entered(working_set, (Free(VM_1),)),
        entered(working_set, (make_take(2), Free(make_uuid("instance", 2)))),
    ]
    total = merge_batches(pages)
    assert total.freed[0] == VM_1
    assert total.inserts[ALLOCATIONS] == []
    assert total.spent == [(HOST_1, VCPU, -1, 0)]


def test_what_is_handed_on_is_written_once() -> None:
    """From page to page, to the one that has it at last; who gave it has nothing in the tables."""
    working_set = fleet()
    entered(working_set, (make_take(1),))
    third = make_moving_consumer(2)
    pages = [
        entered(working_set, (TransferAllocations(VM_1, MOVE),)),
        entered(working_set, (TransferAllocations(MOVE.uuid, third), Put(make_migration(1)))),
        entered(working_set, (Put(replace(make_migration(1), stage=Stage.ARRIVED)),)),
    ]
    total = merge_batches(pages)
    assert total.freed == [VM_1]
    assert [row[0] for row in total.inserts[ALLOCATIONS]] == [third.uuid]
    assert [row[0] for row in total.upserts["consumers"]] == [third.uuid]
    assert total.removed[Kind.CONSUMER] == [MOVE.uuid]
    assert [row[4] for row in total.upserts["migrations"]] == ["finished"]
    assert total.spent == []
