"""Tests for drains, which empty a host through the ordinary moves of its servers."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeHost
from berth.adapters.virt.fake.host import DriverFaults
from berth.domain.compute import lifecycle
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.maintenance import DrainMode, DrainState, Maintenance, MoveState
from berth.domain.compute.migration import MoveKind
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.write import Put
from berth.ports.ledger import InstanceQuery
from berth.services.maintenance.maintenances import DrainOrder
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import BIG, Town, caller, open_town
from tests.unit.lifecycle.upkeep import HOST, OPERATOR, Upkeep, create_on
from tests.unit.services.wiring import running


async def on_host(town: Town, host: str = HOST) -> list[Instance]:
    """Return the instances on a host."""
    return await town.ledger.instances(InstanceQuery(host=host))


async def service_of(town: Town, host: str = HOST) -> Service:
    """Return the service of a host."""
    found = await town.ledger.get(Service, host)
    assert found is not None
    return found


async def test_a_drain_moves_every_server_and_leaves_the_host_disabled() -> None:
    """Running servers move live, servers that are off move cold and are confirmed."""
    town = await open_town()
    running_vm, off = await create_on(town, 1), await create_on(town, 2)
    await town.operations.begin(off.uuid, lifecycle.STOP, caller())
    await town.work()
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(parallel=2, reason="new memory"))
    await upkeep.work()
    assert not await on_host(town)
    drain = await upkeep.done()
    assert drain.state is DrainState.DRAINED
    assert {move.state for move in drain.moves} == {MoveState.MOVED}
    kinds = {one.instance_uuid: one.kind for one in await town.ledger.migrations(town.every)}
    assert kinds == {running_vm.uuid: MoveKind.LIVE, off.uuid: MoveKind.COLD}
    assert (await town.get(off.uuid)).status is Status.SHUTOFF
    assert (await town.get(off.uuid)).migration_uuid is None
    for vm in (running_vm, off):
        assert (await upkeep.move(vm)).destination == (await town.get(vm.uuid)).host
    service = await service_of(town)
    assert (service.disabled, service.disabled_reason) == (True, "new memory")
    assert HOST not in await town.used()
    assert town.desk.told.events.count("drain_ended") == 1
    await town.assert_settled()


async def test_at_most_the_given_number_of_servers_move_at_once() -> None:
    """At every moment no more servers move than the drain permits, and all arrive."""
    faults = DriverFaults(delay_s={"hand_over": 5.0})
    town = await open_town(FakeHost(HOST, faults=faults))
    for number in range(1, 7):
        await create_on(town, number)
    upkeep = Upkeep(town, "scheduler-1", "scheduler-2")
    await upkeep.drain(DrainOrder(parallel=2))
    seen: set[int] = set()

    async def watch() -> None:
        while True:
            moving = [one for one in await on_host(town) if one.task is not None]
            seen.add(len(moving))
            await asyncio.sleep(0.5)

    async with running(watch):
        await upkeep.work(300.0)
    assert (await upkeep.done()).state is DrainState.DRAINED
    assert max(seen) == 2


async def test_the_destinations_are_chosen_together() -> None:
    """A small server leaves the only host that suits the large one, however they are ordered."""
    town = await open_town(hosts=3, vcpus=16)
    # This leaves 4 VCPUs on host-2 and 2 on host-3.
    await create_on(town, 8, "host-2", vcpus=16 - 4)
    await create_on(town, 9, "host-3", vcpus=16 - 2)
    small, large = await create_on(town, 1, vcpus=2), await create_on(town, 2, vcpus=4)
    upkeep = Upkeep(town)
    preview = await upkeep.maintenances.preview(HOST, DrainOrder())
    planned = {one.instance.uuid: one.destination for one in preview}
    assert planned == {small.uuid: "host-3", large.uuid: "host-2"}
    await upkeep.drain(DrainOrder(parallel=2))
    await upkeep.work()
    assert (await town.get(small.uuid)).host == "host-3"
    assert (await town.get(large.uuid)).host == "host-2"


async def test_a_drain_never_breaks_a_group() -> None:
    """Anti-affine members stay apart; two affine members stay, with a reason."""
    town = await open_town(hosts=3)
    apart = ServerGroup("apart", "apart", GroupPolicy.ANTI_AFFINITY, "project-1")
    together = ServerGroup("together", "together", GroupPolicy.AFFINITY, "project-1")
    await town.ledger.write(Put(apart), Put(together))
    one = await create_on(town, 1, group="apart")
    await create_on(town, 2, "host-2", group="apart")
    pair = [await create_on(town, number, group="together") for number in (3, 4)]
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(parallel=5))
    await upkeep.work(300.0)
    assert (await town.get(one.uuid)).host == "host-3"
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.INCOMPLETE, "2 servers cannot be moved")
    for member in pair:
        move = await upkeep.move(member)
        assert (move.state, (await town.get(member.uuid)).host) == (MoveState.FAILED, HOST)
        assert "ServerGroupAffinityFilter" in move.reason
        decision = await town.ledger.get(Decision, move.request_id)
        assert decision is not None
        assert decision.verdict is Verdict.REFUSED


async def test_what_has_no_room_stays_with_the_decision_that_says_why() -> None:
    """A drain without a deadline ends after some attempts; a repeated one finds the new room."""
    town = await open_town(hosts=2)
    blocker = await create_on(town, 9, "host-2", vcpus=16 - 1)
    fits, big = await create_on(town, 1), await create_on(town, 2, vcpus=2)
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work(300.0)
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.INCOMPLETE, "1 server cannot be moved")
    assert (await town.get(fits.uuid)).host == "host-2"
    move = await upkeep.move(big)
    assert (move.state, move.attempts) == (MoveState.FAILED, 4)
    assert move.reason
    assert await town.ledger.get(Decision, move.request_id) is not None
    await town.desk.instances.delete(blocker.uuid, caller(5), service_down_time_s=60.0)
    await upkeep.drain()
    await upkeep.work()
    assert (await upkeep.done()).state is DrainState.DRAINED
    assert [len(await on_host(town, host)) for host in (HOST, "host-2")] == [0, 2]


@pytest.mark.parametrize(("mode", "verb"), [(DrainMode.LIVE, "take_in"), (DrainMode.COLD, "spawn")])
async def test_a_failed_move_is_tried_on_another_host(mode: DrainMode, verb: str) -> None:
    """The next attempt avoids the host on which the last one failed."""
    town = await open_town(FakeHost("host-2", faults=DriverFaults(share={verb: 1.0})))
    vm = await create_on(town, 1)
    # The other host has less room, so the scheduler prefers the failing one.
    await create_on(town, 9, "host-3", vcpus=8)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(mode=mode))
    await upkeep.work(300.0)
    assert (await town.get(vm.uuid)).host == "host-3"
    assert (await upkeep.move(vm)).attempts == 1
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_a_deadline_ends_a_drain() -> None:
    """Moves that run at the deadline end, no further ones begin, and the rest is listed."""
    town = await open_town(FakeHost(HOST, faults=DriverFaults(delay_s={"hand_over": 20.0})))
    for number in range(1, 4):
        await create_on(town, number)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(deadline_s=town.desk.clock.now_s() + 30.0))
    await upkeep.work(300.0)
    drain = await upkeep.done()
    assert drain.state is DrainState.INCOMPLETE
    assert drain.message == "the deadline has passed; 1 server left"
    assert Counter(await upkeep.states()) == {MoveState.MOVED: 2, MoveState.WAITING: 1}


async def test_a_deadline_in_the_future_keeps_a_drain_trying() -> None:
    """With a deadline, servers without room are tried again until then."""
    town = await open_town(hosts=2)
    blocker = await create_on(town, 9, "host-2", vcpus=16)
    await create_on(town, 1)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(deadline_s=town.desk.clock.now_s() + 3_600.0))
    await upkeep.work(900.0)
    assert (await upkeep.done()).state is DrainState.RUNNING
    await town.desk.instances.delete(blocker.uuid, caller(5), service_down_time_s=60.0)
    await upkeep.work(120.0)
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_a_stopped_drain_ends_its_moves_and_continues_later() -> None:
    """A cold move in progress is confirmed after the stop, and nothing else begins."""
    town = await open_town(FakeHost(HOST, faults=DriverFaults(delay_s={"stop": 10.0})))
    first, second = await create_on(town, 1), await create_on(town, 2)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(mode=DrainMode.COLD))
    await upkeep.work(4.0)
    assert sorted(await upkeep.states()) == [MoveState.MOVING, MoveState.WAITING]
    await upkeep.maintenances.stop(HOST)
    await upkeep.work()
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.STOPPED, "an operator stopped the drain")
    assert Counter(await upkeep.states()) == {MoveState.MOVED: 1, MoveState.WAITING: 1}
    moved = [vm for vm in (first, second) if (await town.get(vm.uuid)).host != HOST]
    assert [(await town.get(vm.uuid)).status for vm in moved] == [Status.ACTIVE]
    assert (await service_of(town)).disabled
    await upkeep.drain()
    await upkeep.work()
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_another_scheduler_continues_after_a_death() -> None:
    """A scheduler that dies in the middle of a drain is replaced once its lease has ended."""
    town = await open_town(FakeHost(HOST, faults=DriverFaults(delay_s={"hand_over": 3.0})))
    for number in range(1, 6):
        await create_on(town, number)
    await Upkeep(town, "first").drain()
    upkeep = Upkeep(town, "first")
    await upkeep.work(5.0)
    taken = await upkeep.maintenances.get(HOST)
    assert taken.taken_by == "first"
    other = Upkeep(town, "second")
    await other.work(5.0)
    assert (await other.maintenances.get(HOST)).taken_by == "first"
    await other.work(300.0)
    assert (await other.maintenances.get(HOST)).taken_by == "second"
    assert (await other.done()).state is DrainState.DRAINED
    each = Counter(one.instance_uuid for one in await town.ledger.migrations(town.every))
    assert set(each.values()) == {1}


async def test_a_scheduler_that_lost_the_record_begins_no_move() -> None:
    """A change between the read and the start of a move rejects the start."""
    town = await open_town()
    await create_on(town, 1)
    upkeep = Upkeep(town)
    await upkeep.drain()

    async def stop_first(_: object) -> None:
        town.ledger.before_commit = None
        await upkeep.maintenances.stop(HOST)

    town.ledger.before_commit = stop_first
    await upkeep.controllers["scheduler-1"].round()
    assert (await on_host(town))[0].task is None
    assert town.desk.told.events[-1] == "maintenance_superseded"
    assert (await upkeep.done()).state is DrainState.STOPPED


async def test_shelving_frees_a_host_without_destinations() -> None:
    """Servers are shelved and offloaded, also where agents keep shelved servers on their hosts."""
    for offloads in (True, False):
        town = await open_town(hosts=1, offloads=offloads)
        vms = [await create_on(town, number) for number in (1, 2)]
        upkeep = Upkeep(town)
        await upkeep.drain(DrainOrder(mode=DrainMode.SHELVE, parallel=2))
        await upkeep.work()
        for vm in vms:
            assert (await town.get(vm.uuid)).status is Status.SHELVED_OFFLOADED
        assert (await upkeep.done()).state is DrainState.DRAINED
        assert await town.held() == 0


async def test_locked_and_suspended_servers_stay_with_a_reason() -> None:
    """A locked server moves only if the operator asks for it; others name what would help."""
    town = await open_town()
    locked, suspended = await create_on(town, 1), await create_on(town, 2)
    await town.operations.lock(locked.uuid, None, caller())
    await town.operations.begin(suspended.uuid, lifecycle.SUSPEND, caller())
    await town.work()
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work()
    drain = await upkeep.done()
    assert (drain.state, len(drain.moves)) == (DrainState.INCOMPLETE, 2)
    assert "is locked" in (await upkeep.move(locked)).reason
    assert "is suspended; resume it" in (await upkeep.move(suspended)).reason
    await upkeep.drain(DrainOrder(moves_locked=True))
    await town.operations.begin(suspended.uuid, lifecycle.RESUME, caller(2))
    await upkeep.work()
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_an_unconfirmed_resize_keeps_a_host_from_being_empty() -> None:
    """Its owner has to confirm or revert it; the drain does not."""
    town = await open_town()
    await town.flavor()
    vm = await create_on(town, 1)
    await town.operations.resize(vm.uuid, BIG, caller())
    await town.work()
    assert (await town.get(vm.uuid)).host != HOST
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work()
    drain = await upkeep.done()
    assert drain.state is DrainState.INCOMPLETE
    assert "waits for confirmation" in drain.moves[0].reason
    assert drain.moves[0].name == vm.name
    await town.operations.confirm(vm.uuid, caller(2), service_down_time_s=60.0)
    await upkeep.drain()
    await upkeep.work()
    assert (await upkeep.done()).state is DrainState.DRAINED


async def test_an_incomplete_drain_is_complete_once_an_operator_has_emptied_the_host() -> None:
    """The drain need not be repeated for that."""
    town = await open_town()
    vm = await create_on(town, 1)
    await town.operations.lock(vm.uuid, None, caller())
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work(30.0)
    assert (await upkeep.done()).state is DrainState.INCOMPLETE
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(2))
    await upkeep.work(60.0)
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.DRAINED, "")
    assert drain.moves[0].reason == "left the host otherwise"


async def test_enabling_the_service_stops_a_drain() -> None:
    """A host that takes servers again must not be drained at the same time."""
    town = await open_town(hosts=2)
    await create_on(town, 9, "host-2", vcpus=16)
    await create_on(town, 1)
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work(3.0)
    await town.desk.hosts.set_service(HOST, disabled=False)
    await upkeep.work(30.0)
    drain = await upkeep.done()
    assert (drain.state, drain.message) == (DrainState.STOPPED, "the compute service was enabled")


async def test_a_maintenance_ends_at_its_time() -> None:
    """The host is disabled until then, and afterwards as it was before."""
    town = await open_town()
    upkeep = Upkeep(town)
    until_s = town.desk.clock.now_s() + 100.0
    await upkeep.maintenances.maintain(HOST, until_s, "new disk")
    await upkeep.work(90.0)
    assert (await service_of(town)).disabled_reason == "new disk"
    await upkeep.work(30.0)
    assert not (await service_of(town)).disabled
    assert not await upkeep.maintenances.all()
    await town.desk.hosts.set_service(HOST, disabled=True, disabled_reason="broken")
    await upkeep.maintenances.maintain(HOST, town.desk.clock.now_s() + 10.0, "new disk")
    await upkeep.work(30.0)
    service = await service_of(town)
    assert (service.disabled, service.disabled_reason) == (True, "broken")


async def test_a_host_disabled_for_another_reason_meanwhile_stays_disabled() -> None:
    """The end of a maintenance undoes only what the maintenance did."""
    town = await open_town()
    upkeep = Upkeep(town)
    await upkeep.maintenances.maintain(HOST, town.desk.clock.now_s() + 10.0, "new disk")
    await town.desk.hosts.set_service(HOST, disabled=True, disabled_reason="smoke")
    await upkeep.work(30.0)
    service = await service_of(town)
    assert (service.disabled, service.disabled_reason) == (True, "smoke")


async def test_resuming_a_host_ends_moves_in_progress_properly() -> None:
    """A cold move in progress is still confirmed, then the record is gone."""
    town = await open_town(FakeHost(HOST, faults=DriverFaults(delay_s={"stop": 10.0})))
    await create_on(town, 1)
    await create_on(town, 2)
    upkeep = Upkeep(town)
    await upkeep.drain(DrainOrder(mode=DrainMode.COLD))
    await upkeep.work(4.0)
    await upkeep.maintenances.resume(HOST)
    assert not (await service_of(town)).disabled
    assert (await upkeep.maintenances.get(HOST)).is_ending
    await upkeep.work()
    assert not await upkeep.maintenances.all()
    statuses = [one.status for one in await town.ledger.instances(InstanceQuery())]
    assert statuses == [Status.ACTIVE, Status.ACTIVE]
    assert len(await on_host(town)) == 1


async def test_a_server_that_appears_later_is_moved_as_well() -> None:
    """A scheduler with an old table may place a server on a host that is being drained."""
    town = await open_town()
    upkeep = Upkeep(town)
    await upkeep.drain()
    await upkeep.work(10.0)
    assert (await upkeep.done()).state is DrainState.DRAINED
    await create_on(town, 1)
    await upkeep.work()
    drain = await upkeep.done()
    assert (drain.state, [move.state for move in drain.moves]) == (
        DrainState.DRAINED,
        [MoveState.MOVED],
    )
    assert not await on_host(town)


async def test_invalid_orders_are_refused() -> None:
    """Errors name the field, and a host that is down is to be evacuated instead."""
    town = await open_town()
    upkeep = Upkeep(town)
    past_s = town.desk.clock.now_s() - 1.0
    for order in (
        DrainOrder(parallel=0),
        DrainOrder(parallel=101),
        DrainOrder(mode=DrainMode("teleport")),
        DrainOrder(deadline_s=past_s),
    ):
        with pytest.raises(InvalidInputError):
            await upkeep.drain(order)
    with pytest.raises(InvalidInputError, match="until"):
        await upkeep.maintenances.maintain(HOST, past_s, None)
    with pytest.raises(NotFoundError):
        await upkeep.maintenances.drain("host-9", DrainOrder(), OPERATOR)
    with pytest.raises(NotFoundError):
        await upkeep.maintenances.stop(HOST)
    await town.ledger.write(Put(replace(await service_of(town), forced_down=True)))
    with pytest.raises(ConflictError, match="evacuate"):
        await upkeep.drain()
    assert not await town.ledger.all(Maintenance)


async def test_a_preview_changes_nothing() -> None:
    """It names destinations and reasons, and leaves the table and the ledger as they were."""
    town = await open_town()
    vm = await create_on(town, 1)
    upkeep = Upkeep(town)
    before = await town.ledger.version()
    (planned,) = await upkeep.maintenances.preview(HOST, DrainOrder())
    assert planned.instance == vm
    assert planned.destination in {"host-2", "host-3"}
    assert await town.ledger.version() == before
    assert [town.desk.used(number) for number in (2, 3)] == [{}, {}]
