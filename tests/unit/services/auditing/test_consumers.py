"""Tests for orphaned allocations and foreign consumers."""

import pytest

from berth.domain.compute.instance import Status, Task
from berth.domain.compute.migration import Stage
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.write import Put, Reallocate, TransferAllocations
from berth.testing.builders import (
    make_instance,
    make_migration,
    make_moving_consumer,
    make_share,
    make_take,
    make_uuid,
)
from tests.unit.services.auditing.office import DOWN_S, FULL, open_office

ORPHAN = DiscrepancyCode.ORPHANED_ALLOCATION


async def test_a_cloud_in_order_has_no_discrepancies() -> None:
    """A ledger in which instances hold what they need has no discrepancies."""
    office = await open_office()
    for number in (1, 2, 3):
        await office.place(number)
    report = await office.audit()
    assert (report.discrepancies, report.lost, report.others) == ((), {}, ())
    assert (report.audited.instances, report.audited.consumers) == (3, 3)


async def test_what_a_deleted_instance_holds_is_freed() -> None:
    """The allocation of a deleted instance is reported, and freed by a repair."""
    office = await open_office()
    vm = await office.place()
    await office.write_instance(vm, status=Status.DELETED, terminated_at_s=vm.updated_at_s)
    found = await office.only(ORPHAN)
    assert (found.key, found.host, found.lost) == (vm.uuid, vm.host, FULL)
    assert (found.mend, found.outcome) == ("free", None)
    before = await office.ledger.version()
    report = await office.audit(mends=True)
    (done,) = report.discrepancies
    assert done.outcome is not None
    assert (done.outcome.version, report.lost) == (before + 1, {})
    assert await office.ledger.used(1) == await office.ledger.used(2) == {}
    assert (await office.audit()).discrepancies == ()
    assert office.desk.told.events == ["discrepancy_repaired"]


async def test_what_has_just_been_deleted_is_not_told() -> None:
    """The allocation of a deleted instance is reported only after the grace period."""
    office = await open_office()
    vm = await office.place()
    now_s = office.desk.clock.now_s()
    await office.write_instance(vm, status=Status.DELETED, updated_at_s=now_s)
    assert (await office.audit()).discrepancies == ()
    await office.desk.clock.sleep(DOWN_S + 1)
    await office.only(ORPHAN)


@pytest.mark.parametrize("task", [None, Task.SCHEDULING])
async def test_an_instance_on_no_host_holds_nothing(task: Task | None) -> None:
    """An instance without a host must not hold anything."""
    office = await open_office()
    vm = await office.place()
    status = Status.BUILD if task else Status.ERROR
    await office.write_instance(vm, host=None, node=None, status=status, task=task)
    found = await office.only(ORPHAN, mends=True)
    assert found.is_repaired
    assert await office.ledger.allocations() == []


async def test_what_an_ended_move_holds_is_freed() -> None:
    """The allocation of an ended move is freed, and the report has the move's number."""
    office = await open_office()
    vm = await office.place()
    await office.ledger.write(
        Put(fast_replace(make_migration(7), stage=Stage.CONFIRMED)),
        TransferAllocations(vm.uuid, make_moving_consumer(7)),
        make_take(1, amounts=FULL),
    )
    await office.write_instance(vm, host="host-1", node="host-1")
    await office.desk.clock.sleep(DOWN_S)
    found = await office.only(ORPHAN, mends=True)
    assert found.key == make_uuid("migration", 7)
    assert "the move 7 of" in found.text
    assert found.is_repaired
    assert await office.ledger.consumer_allocations(vm.uuid) is not None


async def test_nobody_knows_how_old_a_stranger_is() -> None:
    """An unknown consumer is freed only after this process has seen it for the grace period."""
    office = await open_office()
    await office.ledger.write(make_take(9))
    found = await office.only(ORPHAN, mends=True)
    assert (found.mend, found.since_s, found.outcome) == (None, None, None)
    await office.desk.clock.sleep(DOWN_S + 1)
    assert (await office.only(ORPHAN)).mend == "free"
    assert (await office.only(ORPHAN, mends=True)).is_repaired
    assert await office.ledger.allocations() == []


async def test_consumers_of_the_placement_api_are_others() -> None:
    """Consumers of the Placement API are listed separately and never changed."""
    office = await open_office()
    move = fast_replace(make_share(2, on_1=1), consumer=make_moving_consumer(2))
    await office.ledger.write(Reallocate((make_share(1, on_1=2), move)))
    report = await office.audit(mends=True)
    assert (report.discrepancies, report.others_total) == ((), 2)
    assert {one.consumer.uuid for one in report.others} == {
        make_uuid("consumer", 1),
        make_uuid("migration", 2),
    }
    assert len(await office.ledger.allocations()) == 2


async def test_a_race_loses_nothing() -> None:
    """A repair is not made if the consumer's allocation is replaced meanwhile."""
    office = await open_office()
    vm = await office.place()
    await office.write_instance(vm, status=Status.DELETED)

    async def be_faster(_: object) -> None:
        office.ledger.before_commit = None
        share = make_share(1, seen=1, on_1=3)
        consumer = fast_replace(share.consumer, uuid=vm.uuid)
        await office.ledger.write(Reallocate((fast_replace(share, consumer=consumer),)))

    office.ledger.before_commit = be_faster
    report = await office.audit(mends=True)
    (found,) = report.discrepancies
    assert found.outcome is not None
    assert "not done: " in found.outcome.text
    assert report.lost == FULL
    assert await office.ledger.used(1) == {"VCPU": 3}
    assert (await office.audit()).others_total == 1


async def test_a_waiting_instance_that_is_placed_meanwhile_is_left_alone() -> None:
    """A repair is not made if the waiting instance is placed meanwhile."""
    office = await open_office()
    vm = await office.place()
    await office.write_instance(vm, host=None, node=None, task=Task.SCHEDULING)

    async def be_faster(_: object) -> None:
        office.ledger.before_commit = None
        await office.write_instance(await office.get(vm.uuid), host=vm.host, node=vm.node)

    office.ledger.before_commit = be_faster
    assert not (await office.only(ORPHAN, mends=True)).is_repaired
    assert len(await office.ledger.allocations()) == 1
    assert make_instance(1).uuid == vm.uuid
