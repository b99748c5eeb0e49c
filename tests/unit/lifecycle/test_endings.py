"""Tests for interrupted actions: their history ends, and nothing is left over."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Stage
from berth.domain.compute.request import Request
from berth.domain.compute.turns import has_turn
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Free, Put
from berth.ports.virt import DriverFeature
from berth.services.servers.moves import MoveTarget
from berth.services.servers.teardown import delete_instance, without_move
from berth.testing.builders import make_instance, make_migration, make_request
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town


def slow(verb: str, *, hosts: int = 3) -> list[FakeHost]:
    """Return hosts that take ten seconds for one verb."""
    faults = DriverFaults(delay_s={verb: 10.0})
    return [FakeHost(f"host-{number}", faults=faults) for number in range(1, hosts + 1)]


async def shelved(town: Town, request: Request | None = None) -> Instance:
    """Create an instance and shelve it."""
    vm = await town.create(request)
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work()
    return await town.get(vm.uuid)


async def message(town: Town, instance: Instance, name: str) -> str:
    """Return the message of an action and assert that the action has ended."""
    (found,) = [one for one in await town.ledger.actions(instance.uuid) if one.name == name]
    assert found.ended_at_s is not None
    return found.message


async def test_a_delete_ends_what_goes_on() -> None:
    """Deleting an instance ends its running action with a message."""
    town = await open_town(*slow("stop"))
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
    await town.work(1.0)
    await town.desk.instances.delete(vm.uuid)
    await town.work()
    assert await message(town, vm, "stop") == "The instance was deleted."
    await town.assert_settled()


@pytest.mark.parametrize("evacuates", [False, True])
async def test_another_word_ends_what_goes_on(*, evacuates: bool) -> None:
    """A state reset or an evacuation ends the running action with a message."""
    town = await open_town(*slow("stop"))
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
    await town.work(1.0)
    if evacuates:
        await town.kill(vm.host or "")
        await town.operations.evacuate(vm.uuid, MoveTarget(), caller(2), service_down_time_s=DOWN_S)
    else:
        await town.operations.reset_state(vm.uuid, Status.ERROR, caller(2))
    await town.work()
    assert await message(town, vm, "stop") == "Another action interrupted this action."
    await town.assert_settled()


async def test_a_confirmation_that_is_done_at_once_ends() -> None:
    """Confirming a move whose source host is down ends the action immediately."""
    town = await open_town()
    vm = await town.create()
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work()
    await town.kill(vm.host or "")
    await town.operations.confirm(vm.uuid, caller(2), service_down_time_s=DOWN_S)
    assert await message(town, vm, "confirmResize") == ""
    assert (await town.get(vm.uuid)).action is None


async def test_a_move_that_is_given_up_on_its_way_back_keeps_its_room() -> None:
    """A revert that a state reset interrupts keeps the capacity that the instance took back."""
    town = await open_town(*slow("spawn"))
    vm = await town.create()
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work()
    await town.operations.revert(vm.uuid, caller(2), service_down_time_s=DOWN_S)
    await town.work(5.0)
    assert (await town.migration()).stage == "restoring"
    await town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(3))
    await town.work()
    assert (await town.used(), await town.held()) == ({vm.host: 1}, 1)
    assert (await town.migration()).has_ended
    await town.assert_settled()


@pytest.mark.parametrize("confirms", [False, True])
async def test_a_resize_in_place_that_is_given_up_leaves_the_guest(*, confirms: bool) -> None:
    """A resize in place that ends early leaves the guest running with its new capacity."""
    town = await open_town(hosts=1, resizes_in_place=True)
    await town.flavor()
    vm = await town.create()
    await town.operations.resize(vm.uuid, replace(BIG, vcpus=2), caller(1))
    await town.work()
    if confirms:
        await town.kill("host-1")
        await town.operations.confirm(vm.uuid, caller(2), service_down_time_s=DOWN_S)
        await town.restart(town.fakes)
    else:
        await town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(2))
    await town.work()
    assert (await town.used(), town.guests()) == ({"host-1": 2}, {"host-1": ["running"]})
    assert (await town.migration()).has_ended
    assert await town.held() == 1
    await town.assert_settled()


async def test_what_is_on_no_host_is_not_said_to_be_active() -> None:
    """An instance without a host cannot be reset to ACTIVE."""
    town = await open_town()
    vm = await shelved(town)
    with pytest.raises(ConflictError, match="no host"):
        await town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(2))


async def test_deleting_what_is_on_no_host_deletes_its_disks() -> None:
    """Deleting a shelved instance deletes its stored disks once an agent is back."""
    town = await open_town(FakeHost("host-1", lacks=frozenset({DriverFeature.DISKS})), hosts=2)
    vm = await shelved(town, replace(make_request(1), force_hosts=("host-2",)))
    assert vm.host is None
    await town.pool.close()
    await town.desk.instances.delete(vm.uuid)
    await town.desk.instances.delete(vm.uuid)
    assert (await town.get(vm.uuid)).task is Task.DELETING
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.disks, town.network.stored) == (Status.DELETED, None, {})
    await town.assert_settled()


async def test_the_disks_are_known_before_the_guest_goes() -> None:
    """The address of the stored disks is recorded before the guest is destroyed.

    A change of the record during the shelve does not lose it.
    """
    town = await open_town(*slow("destroy"))
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work(5.0)
    going = await town.get(vm.uuid)
    assert (going.status, going.disks is not None) == (Status.SHELVED, True)
    await town.ledger.write(Put(replace(going, name="other")))
    await town.work()
    away = await town.get(vm.uuid)
    assert (away.status, away.host) == (Status.SHELVED_OFFLOADED, None)
    assert list(town.network.stored) == [away.disks]
    await town.assert_settled()


async def test_disks_that_were_stored_in_vain_go() -> None:
    """Disks that were stored while the instance was deleted are deleted."""
    town = await open_town(*slow("store_disks"))
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work(5.0)
    await town.desk.instances.delete(vm.uuid)
    await town.work()
    assert ((await town.get(vm.uuid)).status, town.network.stored) == (Status.DELETED, {})


async def test_stored_disks_go_though_the_agent_dies_after_the_unshelve() -> None:
    """Stored disks are deleted after an unshelve although the agent was restarted."""
    town = await open_town(*slow("drop_stored"))
    vm = await shelved(town)
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))
    await town.work(5.0)
    now = await town.get(vm.uuid)
    assert (now.status, now.disks is None, len(town.network.stored)) == (Status.ACTIVE, False, 1)
    await town.restart(town.fakes)
    await town.work()
    assert ((await town.get(vm.uuid)).disks, town.network.stored) == (None, {})
    assert town.guests() == {now.host: ["running"]}
    await town.assert_settled()


async def test_a_move_that_only_a_newer_version_knows_is_left_to_it() -> None:
    """A move in an unknown stage is neither deleted nor given up, and no agent acts on it."""
    move = replace(make_migration(1), stage=Stage("hovering"))
    vm = replace(make_instance(1), host=move.source.host, migration_uuid=move.uuid)
    for attempt in (delete_instance, without_move):
        with pytest.raises(ConflictError, match="does not know the move"):
            attempt(vm, move, 7.0)
    for task in (None, Task.DELETING, Task.REBUILDING):
        assert not has_turn(move.source.host, replace(vm, task=task), move)


def test_a_delete_during_a_resize_in_place_frees_both_sizes() -> None:
    """No agent has to clean up after a move within one host, so its room is freed at once."""
    move = make_migration(1)
    move = replace(move, destination=replace(move.destination, host=move.source.host))
    vm = replace(make_instance(1), host=move.source.host, migration_uuid=move.uuid)
    unit = delete_instance(vm, move, 7.0)
    assert [one for one in unit if isinstance(one, Free)] == [Free(vm.uuid), Free(move.uuid)]
    assert Put(replace(move, stage=Stage.FAILED, updated_at_s=7.0)) in unit
