"""Row batches: the rows that store a batch of units."""

import math
from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.codec import decode_event, decode_record
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.row_batch import (
    ALLOCATIONS,
    CHANGES,
    CLAIM_KEYS,
    INVENTORIES,
    RowBatch,
    row_batch_of,
)
from berth.domain.compute.instance import Instance
from berth.domain.errors import LedgerError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Free, Guard, Heartbeats, Put, Remove, Unit
from berth.testing.builders import (
    make_decision,
    make_fleet,
    make_instance,
    make_provider,
    make_service,
    make_take,
    make_uuid,
)

HOST_1 = make_uuid("host", 1)
VM_1 = make_instance(1)


def written(*units: Unit, before: tuple[Unit, ...] = ()) -> RowBatch:
    """Return the row batch of these units, applied after those of `before`."""
    working_set = WorkingSet()
    apply_units(working_set, before)
    working_set.take_changes()
    first = working_set.version + 1
    assert all(isinstance(outcome, Committed) for outcome in apply_units(working_set, units))
    return row_batch_of(working_set, working_set.take_changes(), at_s=1000.0, first=first)


def test_rows_have_a_value_for_each_column_of_their_table() -> None:
    """The values are in the order of the columns, since they are bound by position."""
    batch = written(*make_fleet(), (make_take(1), Guard("g", 9), Put(VM_1), Put(make_decision(1))))
    for name, rows in [*batch.upserts.items(), *batch.inserts.items()]:
        assert rows
        assert {len(row) for row in rows} == {len(schema.metadata.tables[name].columns)}
    columns = [column.name for column in schema.instances.columns]
    row = dict(zip(columns, batch.upserts[schema.instances.name][0], strict=True))
    assert row["uuid"] == VM_1.uuid
    assert row["status"] == "BUILD"
    assert row["is_live"] is True
    assert row["revision"] == 1
    assert decode_record(Instance, str(row["body"])) == replace(VM_1, revision=1)


def test_a_record_and_its_change_share_their_text() -> None:
    """The record is encoded once, and `seq` numbers the changes of a version from 0."""
    batch = written((make_take(1), Put(VM_1), Put(make_decision(1))), before=(*make_fleet(),))
    (stored,) = batch.upserts[schema.instances.name]
    told, used = batch.inserts[CHANGES]
    assert told[:3] == (2, 0, "instance")
    assert told[3] is stored[-1]
    assert used[:3] == (2, 1, "usage")
    assert decode_event("usage", str(used[3])).used[VCPU] == 1  # type: ignore[union-attr]


def test_every_state_is_in_the_feed_and_the_last_is_stored() -> None:
    """An instance that changes twice in a batch has one row and two changes."""
    again = replace(VM_1, name="again", revision=1)
    batch = written((Put(VM_1),), (Put(again),))
    (stored,) = batch.upserts[schema.instances.name]
    first, last = batch.inserts[CHANGES]
    assert last[3] == stored[-1]
    assert first[3] != last[3]
    assert batch.born == {VM_1.uuid}


def test_what_is_taken_and_freed_in_one_batch_is_not_inserted() -> None:
    """Allocations that the batch frees again are not inserted, as deletions come first."""
    batch = written((make_take(1),), (Free(VM_1.uuid),), before=(*make_fleet(),))
    assert batch.inserts[ALLOCATIONS] == []
    assert batch.freed == [VM_1.uuid]
    assert batch.spent == [(HOST_1, VCPU, 0, 0)]
    assert batch.generations == [1]
    assert batch.inserts[CLAIM_KEYS] == [("claim-1", 2, 1000.0)]


def test_a_provider_is_written_with_what_is_used_at_the_end() -> None:
    """All inventories of a provider are replaced, with the usage of later claims included."""
    batch = written(*make_fleet(), (make_take(1),))
    used = {row[1]: row[-2:] for row in batch.inserts[INVENTORIES]}
    assert used[VCPU] == (1, 1)
    assert batch.emptied == [HOST_1]
    assert batch.spent == []


def test_what_was_put_and_removed_is_removed() -> None:
    """A record that is put and removed is deleted, since it may have existed before the batch."""
    batch = written((Put(make_decision(1)),), (Remove(Kind.DECISION, "req-1"),))
    assert batch.removed == {Kind.DECISION: ["req-1"]}
    assert not batch.upserts


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_no_heartbeat_is_written_that_could_not_be_read(bad: float) -> None:
    """A NaN or infinite heartbeat is refused, because every later snapshot would fail on it."""
    with pytest.raises(LedgerError):
        written((Heartbeats(("host-1",), bad),), before=((Put(make_service(1)),),))
    with pytest.raises(LedgerError):
        written((Put(make_service(1, last_seen_s=bad)),))


def test_capacity_is_written_beside_what_it_is_made_of() -> None:
    """The row has the total, the capacity and the usage, so that SQL need not apply ratios."""
    batch = written((Put(make_provider(1, vcpus=9)),))
    columns = [column.name for column in schema.inventories.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in batch.inserts[INVENTORIES]]
    (vcpus,) = [row for row in rows if row["resource_class"] == VCPU]
    assert (vcpus["total"], vcpus["capacity"], vcpus["used"]) == (9, 9, 0)
