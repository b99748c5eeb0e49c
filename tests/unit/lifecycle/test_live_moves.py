"""Tests for live migrations and evacuations."""

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Stage
from berth.domain.errors import ConflictError, InvalidInputError
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import DOWN_S, Town, caller, open_town

SLOW = DriverFaults(delay_s={"take_in": 1.0, "hand_over": 2.0})


def slow(*, failing: str = "") -> list[FakeHost]:
    """Return three hosts whose live moves take three seconds."""
    faults = DriverFaults(delay_s=SLOW.delay_s, share={failing: 1.0} if failing else {})
    return [FakeHost(f"host-{number}", faults=faults) for number in (1, 2, 3)]


@pytest.mark.parametrize("was", [Status.ACTIVE, Status.PAUSED])
async def test_a_running_guest_moves_without_a_stop(was: Status) -> None:
    """A live migration keeps the guest booted and moves all of its capacity."""
    town = await open_town()
    vm = await town.create()
    if was is Status.PAUSED:
        await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller(1))
        await town.work()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(2))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task, now.migration_uuid) == (was, None, None)
    assert now.host != vm.host
    assert await town.used() == {now.host: 1}
    power = "running" if was is Status.ACTIVE else "paused"
    assert town.guests() == {now.host: [power]}
    assert town.machines[now.host or ""].guests[vm.uuid].boots == 1
    assert (await town.migration()).status == "completed"
    assert await town.held() == 1
    await town.assert_settled()


@pytest.mark.parametrize("verb", ["take_in", "hand_over"])
async def test_a_live_move_that_fails_everywhere_goes_on_where_it_was(verb: str) -> None:
    """A live migration that fails on every host leaves the guest and its capacity at the source."""
    town = await open_town(*slow(failing=verb))
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller())
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host) == (Status.ACTIVE, vm.host)
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {vm.host: ["running"]})
    assert town.machines[vm.host or ""].guests[vm.uuid].boots == 1
    assert {one.status for one in await town.ledger.migrations(town.every)} == {"failed"}
    assert "No valid host" in (await town.action(vm)).message
    await town.assert_settled()


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5])
async def test_a_live_move_can_be_cancelled(seconds: float) -> None:
    """A cancelled live migration leaves the guest at the source and tries no other host."""
    town = await open_town(*slow())
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller())
    await town.work(seconds)
    number = (await town.migration()).number
    await town.operations.cancel_live_migration(vm.uuid, number, caller(7))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host) == (Status.ACTIVE, vm.host)
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {vm.host: ["running"]})
    assert (await town.migration()).status == "cancelled"
    cancelling, moving = (await town.ledger.actions(vm.uuid))[:2]
    assert (cancelling.name, cancelling.message) == ("live_migration_cancel", "")
    assert (moving.name, moving.message) == ("live-migration", "The move was cancelled.")
    await town.assert_settled()


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5])
@pytest.mark.parametrize("deletes", [False, True])
async def test_a_live_move_survives_what_comes_between(*, seconds: float, deletes: bool) -> None:
    """A restart of the agents or a delete during a live migration leaves no second guest."""
    town = await open_town(*slow())
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller())
    await town.work(seconds)
    if deletes:
        await town.desk.instances.delete(vm.uuid, service_down_time_s=DOWN_S)
    else:
        await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    if deletes:
        assert (await town.used(), town.guests(), await town.held()) == ({}, {}, 0)
    else:
        assert now.status is Status.ACTIVE
        assert (await town.used(), town.guests()) == ({now.host: 1}, {now.host: ["running"]})
        assert town.machines[now.host or ""].guests[vm.uuid].boots == 1
    await town.assert_settled()


async def handed_over_unsaid(town: Town) -> Instance:
    """Hand a guest over without a record of it in the ledger, and return its instance."""
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller())
    await town.work(1.5)
    migration = await town.migration()
    await town.pool.close()
    await town.drivers[vm.host or ""].hand_over(vm.uuid, migration.address)
    return vm


async def test_a_guest_that_has_left_its_host_is_looked_for_on_the_other_one() -> None:
    """A guest missing at the source is looked for at the destination.

    The state cannot be reset before the destination's agent has answered.
    """
    town = await open_town(*slow())
    vm = await handed_over_unsaid(town)
    target = (await town.migration()).destination.host
    rest = {name: fake for name, fake in town.fakes.items() if name != target}
    await town.restart(rest)
    await town.work()
    assert (await town.migration()).stage is Stage.LANDING
    assert (await town.get(vm.uuid)).host == vm.host
    for deed in (
        town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(8)),
        town.operations.reset_state(vm.uuid, Status.SHUTOFF, caller(9)),
    ):
        with pytest.raises(ConflictError, match="has left its host"):
            await deed
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.ACTIVE, target, None)
    assert (await town.used(), town.guests()) == ({target: 1}, {target: ["running"]})
    assert town.machines[target].guests[vm.uuid].boots == 1
    await town.assert_settled()


async def test_a_host_that_cannot_tell_what_it_has_gives_no_guest_up() -> None:
    """A source host that cannot list its guests does not give its guest up."""
    town = await open_town(*slow())
    vm = await handed_over_unsaid(town)
    source, target = vm.host or "", (await town.migration()).destination.host
    mute = FakeHost(source, faults=DriverFaults(share={"guests": 1.0}))
    await town.restart({**town.fakes, source: mute})
    await town.work()
    assert (await town.migration()).stage is Stage.MOVING
    assert town.guests() == {target: ["running"]}
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.ACTIVE, target, None)
    assert town.guests() == {target: ["running"]}
    await town.assert_settled()


async def test_a_guest_that_has_arrived_without_a_record_is_not_destroyed() -> None:
    """A guest that arrived without a record is reported as an orphan and not destroyed."""
    town = await open_town(*slow())
    vm = await handed_over_unsaid(town)
    target = (await town.migration()).destination.host
    town.machines[target].guests[vm.uuid].is_orphan = True
    await town.restart(town.fakes)
    await town.work(700.0)
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.ERROR, vm.host, None)
    assert town.guests() == {target: ["running"]}
    assert "orphan_guest" in town.desk.told.events


@pytest.mark.parametrize("waits", [True, False])
async def test_a_guest_that_is_nowhere_is_said_to_be_lost(*, waits: bool) -> None:
    """A guest lost during a live migration leaves its instance in ERROR, and a rebuild works."""
    town = await open_town(*slow())
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller())
    await town.work(1.5)
    await town.pool.close()
    del town.machines[vm.host or ""].guests[vm.uuid]
    target = (await town.migration()).destination.host
    if not waits:
        del town.machines[target].guests[vm.uuid]
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.ERROR, vm.host, None)
    assert now.fault is not None
    assert "lost" in now.fault.message
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {})
    assert (await town.migration()).status == "failed"
    await town.operations.rebuild(vm.uuid, Image("other"), caller(5))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    await town.assert_settled()


async def dead_host(town: Town) -> str:
    """Create an instance, kill its host, and return the host's name."""
    vm = await town.create()
    assert vm.host is not None
    await town.kill(vm.host)
    return vm.host


async def test_a_host_that_is_up_is_not_evacuated() -> None:
    """An instance whose host is up cannot be evacuated."""
    town = await open_town()
    vm = await town.create()
    with pytest.raises(InvalidInputError, match="still in use"):
        await town.operations.evacuate(vm.uuid, MoveTarget(), caller(), service_down_time_s=DOWN_S)


async def test_an_evacuation_holds_the_dead_room_until_the_host_is_back() -> None:
    """The migration holds the dead host's capacity until the host's agent is back."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    await town.kill(vm.host)
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(), service_down_time_s=DOWN_S)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task, now.host != vm.host) == (Status.ACTIVE, None, True)
    assert await town.used() == {vm.host: 1, now.host: 1}
    migration = await town.migration()
    assert (migration.status, await town.held()) == ("done", 2)
    holding = await town.ledger.consumer_allocations(vm.uuid)
    assert holding is not None
    assert len(holding.allocations) == 1
    await town.restart(town.fakes)
    await town.work()
    assert (await town.used(), town.guests()) == ({now.host: 1}, {now.host: ["running"]})
    assert (await town.migration()).status == "completed"
    await town.assert_settled()


async def test_an_evacuation_of_what_was_on_its_way() -> None:
    """An evacuation ends an unfinished live migration first and works when repeated."""
    town = await open_town(*slow())
    vm = await town.create()
    assert vm.host is not None
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work(1.5)
    await town.kill(vm.host)
    with pytest.raises(ConflictError, match="evacuate the instance again"):
        await town.operations.evacuate(vm.uuid, MoveTarget(), caller(2), service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ERROR
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(3), service_down_time_s=DOWN_S)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host != vm.host) == (Status.ACTIVE, True)
    assert await town.used() == {vm.host: 1, now.host: 1}
    await town.restart(town.fakes)
    await town.work()
    assert (await town.used(), town.guests()) == ({now.host: 1}, {now.host: ["running"]})
    assert await town.held() == 1
    await town.assert_settled()
