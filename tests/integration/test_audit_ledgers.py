"""Audits of every kind of ledger: they find and repair the same, and yield to other writers."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from berth.adapters.ledger import MemoryLedger, migrate, open_ledger
from berth.adapters.system import LogTelemetry, SystemClock
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Stage
from berth.domain.ledger.discrepancy import AuditAges, AuditReport, DiscrepancyCode
from berth.domain.ledger.write import (
    Committed,
    Free,
    Outcome,
    Put,
    Reallocate,
    Take,
    TransferAllocations,
    Unit,
    Write,
)
from berth.ports.ledger import Ledger
from berth.services.auditing import AuditService
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.testing.builders import (
    make_claim,
    make_fleet,
    make_instance,
    make_migration,
    make_moving_consumer,
    make_share,
)
from berth.testing.emptying import empty

FULL = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
LEDGERS = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=LEDGERS)
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a ledger of each kind, an empty string for one in memory."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(request.getfixturevalue("fresh_sqlite_url")) if request.param == "sqlite" else ""


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    """Yield a ledger with two hosts."""
    made: Ledger = MemoryLedger()
    if url:
        await migrate(url)
        if url.startswith("postgres"):
            await empty(url)
        made = await open_ledger(url)
    await made.commit(make_fleet(2))
    yield made
    await made.close()


async def write(ledger: Ledger, *writes: Write) -> None:
    """Commit one unit."""
    (outcome,) = await ledger.commit([writes])
    assert isinstance(outcome, Committed), outcome


async def audit(ledger: Ledger, *, mends: bool, host: str | None = None) -> AuditReport:
    """Return an audit's report in which every record counts as old."""
    seen = dict.fromkeys([make_instance(4).uuid], 1.0)
    clock, replica = SystemClock(), Replica()
    await Follower(ledger, clock, [replica]).start()
    auditing = AuditService(
        ledger=ledger,
        replica=replica,
        clock=clock,
        telemetry=LogTelemetry("test"),
        first_seen_s=seen,
    )
    return await auditing.audit(AuditAges(), service_down_time_s=1e12, mends=mends, host=host)


async def damage(ledger: Ledger) -> Instance:
    """Write three orphaned allocations and a foreign consumer; return an instance without any."""
    placed = replace(make_instance(1, host="host-1"), status=Status.ACTIVE, task=None)
    deleted = replace(make_instance(2), status=Status.DELETED, task=None)
    await write(ledger, Put(placed))
    await write(ledger, Put(deleted), Take(make_claim(2, amounts=FULL)))
    await write(
        ledger,
        Take(make_claim(3, on=2, amounts=FULL)),
        TransferAllocations(make_instance(3).uuid, make_moving_consumer()),
        Put(replace(make_migration(of=3), stage=Stage.COMPLETED)),
    )
    await write(ledger, Take(make_claim(4)))
    await write(ledger, Reallocate((make_share(1, on_2=2),)))
    return placed


async def test_every_kind_of_damage_that_can_be_mended(ledger: Ledger) -> None:
    """An audit repairs all damage and leaves a foreign consumer alone."""
    placed = await damage(ledger)
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
    assert all(one.is_repaired for one in report.discrepancies)
    assert {one.consumer_uuid: one.amounts for one in await ledger.allocations()} == {
        placed.uuid: FULL,
        make_share(1).consumer.uuid: {"VCPU": 2},
    }
    again = await audit(ledger, mends=True)
    assert (again.discrepancies, again.lost, again.others_total) == ((), {}, 1)


async def test_hosts_one_by_one_make_up_the_whole(ledger: Ledger) -> None:
    """Audits of single hosts find together what the audit of the whole ledger finds."""
    await damage(ledger)
    whole = await audit(ledger, mends=False)
    found = [
        one
        for host in ("host-1", "host-2")
        for one in (await audit(ledger, mends=False, host=host)).discrepancies
    ]
    assert sorted(found, key=str) == sorted(whole.discrepancies, key=str)
    await audit(ledger, mends=True, host="host-2")
    left = await audit(ledger, mends=False)
    assert {one.host for one in left.discrepancies} == {"host-1"}


async def test_a_sound_ledger_is_sound_host_by_host(ledger: Ledger) -> None:
    """Audits find nothing in a sound ledger with a move, as a whole or for single hosts."""
    for number in (1, 2):
        vm = replace(make_instance(number, host="host-1"), status=Status.ACTIVE, task=None)
        await write(ledger, Put(vm), Take(make_claim(number, amounts=FULL)))
    move = replace(make_migration(of=2), stage=Stage.ARRIVING)
    vm = await instance(ledger, 2)
    await write(
        ledger,
        TransferAllocations(vm.uuid, make_moving_consumer()),
        Take(replace(make_claim(2, on=2, amounts=FULL | {"VCPU": 2}), key="move")),
        Put(move),
        Put(replace(vm, migration_uuid=move.uuid)),
    )
    for host in (None, "host-1", "host-2"):
        report = await audit(ledger, mends=False, host=host)
        assert (report.discrepancies, report.lost) == ((), {}), host


async def instance(ledger: Ledger, number: int) -> Instance:
    """Return the stored record of an instance."""
    found = await ledger.get(Instance, make_instance(number).uuid)
    assert found is not None
    return found


async def racing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *writes: Write) -> None:
    """Commit a unit immediately before the next commit of the ledger."""
    commit = ledger.commit

    async def be_faster(units: Sequence[Unit]) -> list[Outcome]:
        monkeypatch.setattr(ledger, "commit", commit)
        await write(ledger, *writes)
        return await commit(units)

    monkeypatch.setattr(ledger, "commit", be_faster)


@pytest.mark.parametrize("host", [None, "host-1"])
async def test_an_action_that_ends_meanwhile_has_the_last_word(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, host: str | None
) -> None:
    """An instance that is deleted just before its claim is repaired holds nothing afterwards."""
    vm = replace(make_instance(1, host="host-1"), status=Status.ACTIVE, task=None)
    await write(ledger, Put(vm))
    now = await instance(ledger, 1)
    gone = replace(now, status=Status.DELETED, host=None, node=None)
    await racing(ledger, monkeypatch, Free(vm.uuid), Put(gone))
    (found,) = (await audit(ledger, mends=True, host=host)).discrepancies
    assert (found.code, found.is_repaired) == (DiscrepancyCode.MISSING_ALLOCATION, False)
    assert await ledger.allocations() == []


async def test_what_is_claimed_meanwhile_is_not_freed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that is placed just before its old claim is freed keeps its new claim."""
    vm = replace(make_instance(2), status=Status.SHELVED_OFFLOADED, task=None, disks="somewhere")
    await write(ledger, Put(vm), Take(make_claim(2, amounts=FULL)))
    now = await instance(ledger, 2)
    placed = replace(now, host="host-2", node="host-2", status=Status.ACTIVE)
    claim = replace(make_claim(2, on=2, amounts=FULL), key="unshelve")
    await racing(ledger, monkeypatch, Free(vm.uuid), Take(claim), Put(placed))
    (found,) = (await audit(ledger, mends=True)).discrepancies
    assert not found.is_repaired
    assert [one.amounts for one in await ledger.allocations()] == [FULL]
    assert (await audit(ledger, mends=False)).discrepancies == ()


async def test_what_a_client_changes_meanwhile_is_not_freed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allocation that a client replaces just before it is freed is kept."""
    deleted = replace(make_instance(2), status=Status.DELETED, task=None)
    await write(ledger, Put(deleted), Take(make_claim(2, amounts=FULL)))
    share = make_share(1, on_1=3)
    consumer = replace(share.consumer, uuid=deleted.uuid)
    theirs = replace(share, consumer=consumer, is_checked=False)
    await racing(ledger, monkeypatch, Reallocate((theirs,)))
    (found,) = (await audit(ledger, mends=True)).discrepancies
    assert not found.is_repaired
    assert [one.amounts for one in await ledger.allocations()] == [{"VCPU": 3}]
