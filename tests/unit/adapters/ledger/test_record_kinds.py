"""Every kind in the registry is stored by the ledgers, has a table and survives the codec."""

from collections.abc import AsyncIterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import pytest_asyncio

from berth.adapters.ledger import MemoryLedger, open_ledger
from berth.adapters.ledger.engine.codec import (
    decode_event,
    decode_record,
    encode_event,
    event_kind,
)
from berth.adapters.ledger.engine.working_set import (
    InventoryLimits,
    ProviderCapacity,
    WorkingSet,
)
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.row_batch import row_batch_of
from berth.domain.compute.instance import Instance
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Snapshot
from berth.domain.ledger.record import RECORD_SPECS, Kind, Record
from berth.domain.ledger.write import Put, Unit
from berth.ports.ledger import Ledger
from berth.testing.builders import make_fleet, make_share
from berth.testing.ledger_conformance.fixtures import commit
from berth.testing.ledger_conformance.reallocations import put
from tests.unit.domain.ledger.test_record import RECORDS

pytestmark = pytest.mark.parametrize("kind", RECORD_SPECS, ids=str)


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    """Yield an empty ledger that needs no server."""
    is_file = request.param == "sqlite"
    opened = await open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") if is_file else MemoryLedger()
    yield opened
    await opened.close()


def saved(kind: Kind) -> tuple[list[Unit], Record]:
    """Return the units that save a record of a kind, and the record as it is stored."""
    record, _ = RECORDS[kind]
    if isinstance(record, Consumer):
        share = replace(make_share(1, on_1=1), consumer=record)
        return [*make_fleet(1), put(share)], replace(record, generation=1)
    stored: Record = record
    if isinstance(record, Instance):
        stored = replace(record, revision=1)
    elif isinstance(record, Provider):
        stored = replace(record, used=dict.fromkeys(record.inventories, 0))
    return [(Put(record),)], stored


def capacity_of(provider: Provider) -> ProviderCapacity:
    """Return the capacity of a provider without usage."""
    limits = {name: InventoryLimits.of(one) for name, one in provider.inventories.items()}
    return ProviderCapacity(provider.generation, limits, dict.fromkeys(limits, 0))


async def test_a_record_is_stored_and_read_back(ledger: Ledger, kind: Kind) -> None:
    """A record is read by its key, and is in the feed if its kind is."""
    units, stored = saved(kind)
    spec, key = RECORD_SPECS[kind], RECORDS[kind][1]
    version = await commit(ledger, *units)
    assert await ledger.get(spec.noun, key) == stored
    events = [change.event for change in await ledger.changes(version - 1)]
    assert (stored in events) is spec.in_feed


def test_a_record_survives_the_codec(kind: Kind) -> None:
    """A record is decoded unchanged, both as a record and as an event of the feed."""
    record, _ = RECORDS[kind]
    text = encode_event(record)
    assert decode_record(RECORD_SPECS[kind].noun, text) == record
    assert decode_event(event_kind(record), text) == record


def test_a_row_fills_the_columns_of_its_table(kind: Kind) -> None:
    """The key is first, the body is last, and the row has a value for each column."""
    record, key = RECORDS[kind]
    working_set = WorkingSet(version=1)
    working_set.change_set.puts[kind, key] = record
    if isinstance(record, Provider):
        working_set.capacities[key] = capacity_of(record)
    batch = row_batch_of(working_set, working_set.take_changes(), at_s=0.0, first=1)
    ((name, rows),) = batch.upserts.items()
    table = schema.RECORD_TABLES[kind]
    assert name == table.name == RECORD_SPECS[kind].collection
    assert len(rows[0]) == len(table.columns)
    assert rows[0][0] == key
    assert [column.name for column in table.columns][-1] == "body"


def test_a_snapshot_has_a_field_for_each_kind_in_the_feed(kind: Kind) -> None:
    """A snapshot has a field for a kind exactly if the kind is in the feed."""
    spec = RECORD_SPECS[kind]
    assert (spec.collection in {field.name for field in fields(Snapshot)}) is spec.in_feed
