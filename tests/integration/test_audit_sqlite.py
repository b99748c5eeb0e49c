"""An audit of a ledger in a file, which is read table by table."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from berth.adapters.ledger import open_ledger
from berth.adapters.system import LogTelemetry, SystemClock
from berth.domain.discrepancy import AuditAges, AuditReport
from berth.domain.instance import Status
from berth.domain.migration import Stage
from berth.domain.write import Committed, HandOver, Put, Reallocate, Take, Write
from berth.ports.ledger import Ledger
from berth.services.auditing import Auditing
from berth.testing.builders import (
    make_claim,
    make_fleet,
    make_instance,
    make_migration,
    make_moving_consumer,
    make_share,
)

FULL = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    """Two hosts."""
    made = await open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    await made.commit(make_fleet(2))
    yield made
    await made.close()


async def write(ledger: Ledger, *writes: Write) -> None:
    """Commit one unit."""
    (outcome,) = await ledger.commit([writes])
    assert isinstance(outcome, Committed), outcome


async def audit(ledger: Ledger, *, mends: bool) -> AuditReport:
    """Audit without waiting: whatever there is, is old."""
    seen = dict.fromkeys([make_instance(4).uuid], 1.0)
    auditing = Auditing(
        ledger=ledger, clock=SystemClock(), telemetry=LogTelemetry("test"), first_seen_s=seen
    )
    return await auditing.audit(AuditAges(), service_down_time_s=1e12, mends=mends)


async def test_every_kind_of_damage_that_can_be_mended(ledger: Ledger) -> None:
    """A deleted instance, an ended move, a stranger, and an instance that holds nothing."""
    placed = replace(make_instance(1, host="host-1"), status=Status.ACTIVE, task=None)
    deleted = replace(make_instance(2), status=Status.DELETED, task=None)
    await write(ledger, Put(placed))
    await write(ledger, Put(deleted), Take(make_claim(2, amounts=FULL)))
    await write(
        ledger,
        Take(make_claim(3, on=2, amounts=FULL)),
        HandOver(make_instance(3).uuid, make_moving_consumer()),
        Put(replace(make_migration(of=3), stage=Stage.COMPLETED)),
    )
    await write(ledger, Take(make_claim(4)))
    await write(ledger, Reallocate((make_share(1, on_2=2),)))
    dry = await audit(ledger, mends=False)
    assert sorted((one.code, one.mend) for one in dry.discrepancies) == [
        ("missing_allocation", "claim"),
        ("orphaned_allocation", "free"),
        ("orphaned_allocation", "free"),
        ("orphaned_allocation", "free"),
    ]
    assert dry.lost == {"VCPU": 3, "MEMORY_MB": 1024, "DISK_GB": 2}
    assert len(await ledger.allocations()) == 4
    report = await audit(ledger, mends=True)
    assert all(one.is_mended for one in report.discrepancies)
    assert {one.consumer_uuid: one.amounts for one in await ledger.allocations()} == {
        placed.uuid: FULL,
        make_share(1).consumer.uuid: {"VCPU": 2},
    }
    again = await audit(ledger, mends=True)
    assert (again.discrepancies, again.lost, again.others_total) == ((), {}, 1)
