"""Tests for drains in adverse conditions: wrong clocks, failing rules, large hosts, lost hosts."""

from dataclasses import replace

import pytest

from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance
from berth.domain.compute.maintenance import (
    LEASE_S,
    Drain,
    DrainMode,
    DrainState,
    Maintenance,
    MoveState,
    ServerMove,
)
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Put
from berth.services.maintenance import drain_plans
from berth.services.maintenance.maintenances import DrainOrder
from tests.unit.lifecycle.test_drains import on_host, service_of
from tests.unit.lifecycle.town import Town, caller, open_town
from tests.unit.lifecycle.upkeep import HOST, OPERATOR, Upkeep, create_on

_DAY_S = 86_400.0


async def full_town(*sizes: int) -> tuple[Town, list[Instance]]:
    """Return two hosts, of which the second is full, and servers of these sizes on the first."""
    town = await open_town(hosts=2)
    await create_on(town, 99, "host-2", vcpus=16)
    return town, [await create_on(town, n, vcpus=size) for n, size in enumerate(sizes, 1)]


async def change_move(upkeep: Upkeep, vm: Instance, **fields: object) -> None:
    """Overwrite fields of a server's entry in the drain of host-1."""
    record = await upkeep.maintenances.get(HOST)
    assert record.drain is not None
    moves = tuple(
        replace(one, **fields) if one.instance_uuid == vm.uuid else one  # type: ignore[arg-type]
        for one in record.drain.moves
    )
    drain = replace(record.drain, moves=moves)
    await upkeep.town.ledger.write(Put(replace(record, drain=drain)))


async def round_of(upkeep: Upkeep) -> None:
    """Let the first scheduler work once on all maintenance."""
    await next(iter(upkeep.controllers.values())).round()


async def test_a_drain_may_fail_for_days() -> None:
    """The pause stays at its maximum, however often a server has found no room."""
    town, (vm,) = await full_town(1)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(deadline_s=town.desk.clock.now_s() + 30 * _DAY_S))
    await round_of(upkeep)
    await change_move(upkeep, vm, attempts=5_000, next_try_s=0.0)
    await round_of(upkeep)
    move = await upkeep.move(vm)
    assert (move.state, move.attempts) == (MoveState.FAILED, 5_001)
    assert move.next_try_s - town.desk.clock.now_s() == pytest.approx(60.0, abs=1.0)
    assert not town.desk.told.failures


async def test_a_failure_on_one_host_does_not_stop_the_drains_of_others() -> None:
    """A rule that fails for the servers of one host is logged, and the next host is emptied."""
    town = await open_town(hosts=3)
    await create_on(town, 1)
    other = await create_on(town, 2, "host-2")
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.maintenances.drain("host-2", DrainOrder(), OPERATOR)
    town.desk.policies.mistakes = 1
    await round_of(upkeep)
    assert town.desk.told.failed == ["maintenance_failed"]
    assert (await town.get(other.uuid)).task is not None


async def test_a_lease_from_a_clock_that_was_ahead_ends() -> None:
    """A scheduler whose clock was a day ahead dies; another one does not wait for a day."""
    town = await open_town()
    await create_on(town, 1)
    upkeep = Upkeep(town)
    record = await upkeep.drain()
    ahead_s = town.desk.clock.now_s() + _DAY_S
    await town.ledger.write(Put(record.taken("dead", ahead_s + LEASE_S)))
    await upkeep.work(60.0)
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_a_pause_ends_although_the_clock_was_set_back() -> None:
    """An attempt that is due far in the future is made now."""
    town, (vm,) = await full_town(1)
    upkeep = Upkeep(town)
    await upkeep.drain()
    await round_of(upkeep)
    await change_move(upkeep, vm, next_try_s=town.desk.clock.now_s() + _DAY_S)
    await round_of(upkeep)
    assert (await upkeep.move(vm)).attempts == 2


async def test_a_server_that_is_given_up_takes_no_room_from_others() -> None:
    """The joint plan leaves it out, although it is the largest and would be placed first."""
    town = await open_town(hosts=2)
    await create_on(town, 99, "host-2", vcpus=14)
    large, small = await create_on(town, 1, vcpus=2), await create_on(town, 2)
    upkeep = Upkeep(town)
    record = await upkeep.drain()
    assert record.drain is not None
    given_up = ServerMove(large.uuid, large.name, MoveState.FAILED, "live", attempts=4)
    await town.ledger.write(Put(replace(record, drain=replace(record.drain, moves=(given_up,)))))
    await upkeep.work(120.0)
    assert (await town.get(small.uuid)).host == "host-2"
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.INCOMPLETE, "1 server cannot be moved")


async def test_all_refusals_of_a_plan_are_saved_at_once() -> None:
    """Each save writes the whole record, so one save for each server would be too many."""
    town, _ = await full_town(*[1] * 6)
    upkeep = Upkeep(town)
    await upkeep.drain()
    before = town.ledger.commits
    await round_of(upkeep)
    assert town.ledger.commits - before == 1
    drain = await upkeep.done()
    assert drain.in_state(MoveState.FAILED) == 6
    assert len({move.request_id for move in drain.moves}) == 6


async def test_a_host_with_many_servers_is_planned_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan has a limited number of decisions, the preview says so, and all servers leave."""
    monkeypatch.setattr(drain_plans, "PLANNED_MAX", 2)
    town = await open_town()
    for number, vcpus in enumerate((1, 1, 3, 1, 2), 1):
        await create_on(town, number, vcpus=vcpus)
    upkeep = Upkeep(town)
    before = town.desk.policies.decisions
    planned = await upkeep.maintenances.preview(HOST, DrainOrder())
    assert town.desk.policies.decisions - before == 2
    sizes = {one.instance.flavor.vcpus for one in planned if one.fits}
    assert sizes == {2, 3}
    assert {one.reason for one in planned if not one.fits} == {
        "is planned once 2 other servers have moved"
    }
    await upkeep.drain(DrainOrder(parallel=5))
    await upkeep.work(300.0)
    assert (await upkeep.done()).state is DrainState.DRAINED
    assert not await on_host(town)


async def test_servers_without_room_do_not_keep_smaller_ones_from_being_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are tried again later are planned after those that are due."""
    monkeypatch.setattr(drain_plans, "PLANNED_MAX", 2)
    town = await open_town(hosts=2)
    await create_on(town, 99, "host-2", vcpus=14)
    for number, vcpus in enumerate((3, 3, 3, 1, 1), 1):
        await create_on(town, number, vcpus=vcpus)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(deadline_s=town.desk.clock.now_s() + _DAY_S, parallel=2))
    await upkeep.work(120.0)
    assert [one.flavor.vcpus for one in await on_host(town)] == [3, 3, 3]


async def test_an_unconfirmed_move_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the confirmation of a cold move is refused, the entry has the reason."""
    town = await open_town()
    vm = await create_on(town, 1)
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
    await town.work()
    upkeep = Upkeep(town)

    async def refused(*_: object, **__: object) -> None:
        raise ConflictError("the source host is on fire")

    await upkeep.drain(DrainOrder(mode=DrainMode.COLD))
    with monkeypatch.context() as patch:
        patch.setattr(type(town.operations), "confirm", refused)
        await upkeep.work(60.0)
        move = await upkeep.move(vm)
    assert move.state is MoveState.MOVING
    assert "on fire" in move.reason
    await upkeep.work(60.0)
    assert (await upkeep.move(vm)).reason == ""
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_a_repeated_drain_keeps_what_an_operator_did_meanwhile() -> None:
    """The host was disabled for another reason since, so it stays disabled at the end."""
    town = await open_town()
    upkeep = Upkeep(town)
    until_s = town.desk.clock.now_s() + 100.0
    await upkeep.maintenances.maintain(HOST, until_s, "new disk")
    await town.desk.hosts.set_service(HOST, disabled=True, disabled_reason="smoke")
    await upkeep.drain()
    assert (await service_of(town)).disabled_reason == "smoke"
    await upkeep.work(200.0)
    assert not await upkeep.maintenances.all()
    service = await service_of(town)
    assert (service.disabled, service.disabled_reason) == (True, "smoke")


async def test_enabling_the_service_ends_a_maintenance_without_a_drain() -> None:
    """A host that takes servers is not listed as in maintenance."""
    town = await open_town()
    upkeep = Upkeep(town)
    await upkeep.maintenances.maintain(HOST, None, "new disk")
    await upkeep.work(10.0)
    assert await upkeep.maintenances.all()
    await town.desk.hosts.set_service(HOST, disabled=False)
    await upkeep.work(10.0)
    assert not await upkeep.maintenances.all()
    assert not (await service_of(town)).disabled


async def test_the_maintenance_of_a_removed_host_ends() -> None:
    """The host is removed after its last server has left, before a scheduler has seen that."""
    town = await open_town()
    vm = await create_on(town, 1)
    upkeep = Upkeep(town)
    await upkeep.drain()
    await round_of(upkeep)
    await town.work(60.0)
    assert (await town.get(vm.uuid)).host != HOST
    assert (await upkeep.move(vm)).state is MoveState.MOVING
    await town.desk.hosts.remove(HOST)
    await round_of(upkeep)
    assert not await town.ledger.all(Maintenance)


async def test_the_moves_of_a_host_are_read_before_its_servers() -> None:
    """In the other order, a server that arrives between both reads would be in neither."""
    town = await open_town()
    upkeep = Upkeep(town)
    await upkeep.drain()
    town.ledger.reads.clear()
    await round_of(upkeep)
    lists = [one for one in town.ledger.reads if one.startswith(("instances", "migrations"))]
    assert lists == [f"migrations {HOST}", f"instances {HOST}"]


def test_a_drain_record_keeps_its_lease_within_reason() -> None:
    """The lease holds while it runs, and not if it ends later than any lease can."""
    record = Maintenance("h", "r", drain=Drain()).taken("one", 100.0 + LEASE_S)
    assert record.is_taken_from("two", 100.0)
    assert not record.is_taken_from("one", 100.0)
    assert not record.is_taken_from("two", 100.0 + LEASE_S)
    assert not record.is_taken_from("two", 100.0 - 3 * LEASE_S)
