"""Tests for moves without progress and requests that stay pending."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.migration import Migration, MoveKind, Place, Stage
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Free, Put, Remove, TransferAllocations
from berth.testing.builders import (
    make_flavor,
    make_migration,
    make_moving_consumer,
    make_request,
    make_service,
    make_take,
    make_uuid,
)
from tests.unit.services.auditing.office import DOWN_S, FULL, LONG_S, Office, open_office

ARRIVED = (Stage.ARRIVED, Stage.CONFIRMING, Stage.RETURNING)


async def moving(office: Office, stage: Stage, **changes: object) -> tuple[Instance, Migration]:
    """Return an instance and its move to the other host in the given stage."""
    vm = await office.place()
    here = int((vm.host or "").removeprefix("host-"))
    other = f"host-{3 - here}"
    now_s = office.desk.clock.now_s()
    migration = fast_replace(
        make_migration(),
        kind=MoveKind.COLD,
        stage=stage,
        source=Place(vm.host or "", vm.node or "", vm.flavor),
        destination=Place(other, other, vm.flavor),
        updated_at_s=now_s,
    )
    await office.ledger.write(
        TransferAllocations(vm.uuid, make_moving_consumer()),
        make_take(1, on=3 - here, amounts=FULL),
        Put(migration),
    )
    changes = {"task": Task.RESIZE_MIGRATING, "migration_uuid": migration.uuid} | changes
    if stage in ARRIVED:
        changes |= {"host": other, "node": other}
    await office.write_instance(vm, updated_at_s=now_s, **changes)
    await office.desk.clock.sleep(DOWN_S + 1)
    return vm, migration


async def silence(office: Office, *silent: str) -> None:
    """Let the services of these hosts be down and all others up."""
    now_s = office.desk.clock.now_s()
    for number in (1, 2):
        last_seen_s = now_s - LONG_S if f"host-{number}" in silent else now_s
        await office.ledger.write(Put(make_service(number, last_seen_s=last_seen_s)))


@pytest.mark.parametrize(
    ("stage", "waits_for", "said"),
    [
        (Stage.LEAVING, "source", "evacuate"),
        (Stage.MOVING, "source", "evacuate"),
        (Stage.ARRIVING, "destination", "reset-state"),
        (Stage.PREPARING, "destination", "reset-state"),
        (Stage.WITHDRAWING, "destination", "reset-state"),
        (Stage.ARRIVED, "source", "confirm"),
        (Stage.CONFIRMING, "source", "wait"),
        (Stage.RETURNING, "destination", "evacuate"),
    ],
)
async def test_a_move_that_waits_for_a_host_that_is_down_is_told(
    stage: Stage, waits_for: str, said: str
) -> None:
    """A move that waits for a host that is down is reported with advice."""
    office = await open_office()
    _, migration = await moving(office, stage)
    host = getattr(migration, waits_for).host
    assert (await office.audit(down_s=LONG_S)).discrepancies == ()
    await silence(office, host)
    found = await office.only(DiscrepancyCode.MOVE_STALLED, down_s=DOWN_S, mends=True)
    assert (found.host, found.lost, found.mend) == (host, FULL, None)
    assert f"waits for {host}, which is down (last seen 2 hours ago)" in found.text
    assert said in found.advice
    other = {"host-1", "host-2"} - {host}
    await silence(office, *other)
    assert (await office.audit(down_s=DOWN_S)).discrepancies == ()


async def test_a_service_that_is_gone_is_no_service() -> None:
    """A move that waits for a host without a service is reported."""
    office = await open_office()
    _, migration = await moving(office, Stage.ARRIVING)
    await office.ledger.write(Remove(Kind.SERVICE, migration.destination.host))
    found = await office.only(DiscrepancyCode.MOVE_STALLED)
    assert "which is not registered" in found.text


async def test_a_move_of_an_instance_that_does_not_know_it_is_told() -> None:
    """A move that its instance does not refer to is reported."""
    office = await open_office()
    await moving(office, Stage.ARRIVING, migration_uuid=None, task=None)
    found = (await office.audit()).discrepancies
    assert {one.code for one in found} == {
        DiscrepancyCode.MOVE_FORGOTTEN,
        DiscrepancyCode.ALLOCATION_ELSEWHERE,
    }


async def test_what_an_evacuation_left_behind_is_told() -> None:
    """What an evacuation left is reported if its host is down, or up for too long."""
    office = await open_office()
    vm, migration = await moving(office, Stage.LEFT_BEHIND, migration_uuid=None, task=None)
    host = migration.destination.host
    await office.write_instance(await office.get(vm.uuid), host=host, node=host)
    await silence(office)
    assert (await office.audit(down_s=DOWN_S)).discrepancies == ()
    await silence(office, migration.source.host)
    found = await office.only(DiscrepancyCode.MOVE_LEFT_BEHIND, down_s=DOWN_S)
    assert (found.host, found.lost) == (migration.source.host, FULL)
    assert f"berth host write-off {migration.source.host}" in found.advice
    await office.desk.clock.sleep(LONG_S)
    await silence(office)
    found = await office.only(DiscrepancyCode.MOVE_LEFT_BEHIND, down_s=DOWN_S)
    assert "is up and has not deleted" in found.text


async def test_what_was_left_on_a_host_that_was_removed_is_nobodys() -> None:
    """A move left on a removed host is not reported if its allocation was freed."""
    office = await open_office()
    vm, migration = await moving(office, Stage.LEFT_BEHIND, migration_uuid=None, task=None)
    host = migration.destination.host
    await office.write_instance(await office.get(vm.uuid), host=host, node=host)
    await office.ledger.write(
        Free(migration.uuid, must_hold=True), Remove(Kind.SERVICE, migration.source.host)
    )
    assert (await office.audit()).discrepancies == ()


async def test_a_request_that_waits_for_long_is_told() -> None:
    """A request that stays pending is reported with the last fault of its instance."""
    office = await open_office()
    vm = await office.place()
    request = replace(make_request(2), instance_uuids=(vm.uuid,))
    fault = Fault(500, "the build failed", 0.0)
    await office.write_instance(vm, task=Task.RESIZE_PREP, fault=fault)
    await office.ledger.write(Put(PendingRequest(request, office.desk.clock.now_s())))
    assert (await office.audit()).discrepancies == ()
    await office.desk.clock.sleep(LONG_S)
    found = await office.only(DiscrepancyCode.REQUEST_WAITS)
    assert found.key == "req-2"
    assert "the last fault of its instance: the build failed" in found.text


async def test_a_request_that_was_refused_before_says_why() -> None:
    """A request that stays pending is reported with the refusal of the last decision."""
    office = await open_office(vcpus=1)
    order = replace(make_request(1), flavor=make_flavor(vcpus=9))
    await office.ledger.write(Put(PendingRequest(order, 0.0)))
    found = await office.only(DiscrepancyCode.REQUEST_WAITS)
    assert "its instance does not exist" in found.text
    vm = await office.place(5)
    request = replace(make_request(6), flavor=make_flavor(vcpus=9), instance_uuids=(vm.uuid,))
    decision = office.desk.decision_service.decide(request)
    assert decision.refusal is not None
    await office.ledger.write(Remove(Kind.PENDING_REQUEST, "req-1"), Put(decision))
    await office.write_instance(vm, decision_id="req-6", status=Status.ACTIVE)
    await office.ledger.write(Put(PendingRequest(replace(request, request_id="req-7"), 0.0)))
    found = await office.only(DiscrepancyCode.REQUEST_WAITS)
    assert decision.refusal.message in found.text


async def test_what_goes_on_meanwhile_is_not_told() -> None:
    """A suspicion that a second look does not confirm is not reported."""
    office = await open_office()
    _, migration = await moving(office, Stage.LEAVING)
    await silence(office, migration.source.host)
    read = office.ledger.snapshot

    async def snapshot(now_s: float) -> object:
        state = await read(now_s)
        await silence(office)
        return state

    office.ledger.snapshot = snapshot  # type: ignore[method-assign,assignment]
    assert (await office.audit(down_s=DOWN_S)).discrepancies == ()
    assert migration.uuid == make_uuid("migration", 1)
