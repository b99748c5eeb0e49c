"""Tests for power, pause, suspend, rebuild and shelving."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Status, Task
from berth.domain.compute.lifecycle import Transition
from berth.domain.errors import InstanceLockedError, InstanceStateError
from berth.domain.ledger.write import Put
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import caller, open_town

STEPS = [
    ((lifecycle.STOP,), Status.SHUTOFF, "stopped"),
    ((lifecycle.STOP, lifecycle.START), Status.ACTIVE, "running"),
    ((lifecycle.REBOOT_SOFT,), Status.ACTIVE, "running"),
    ((lifecycle.STOP, lifecycle.REBOOT_HARD), Status.ACTIVE, "running"),
    ((lifecycle.PAUSE,), Status.PAUSED, "paused"),
    ((lifecycle.PAUSE, lifecycle.UNPAUSE), Status.ACTIVE, "running"),
    ((lifecycle.SUSPEND,), Status.SUSPENDED, "suspended"),
    ((lifecycle.SUSPEND, lifecycle.RESUME), Status.ACTIVE, "running"),
    ((lifecycle.PAUSE, lifecycle.REBOOT_HARD), Status.ACTIVE, "running"),
]


@pytest.mark.parametrize(("steps", "status", "power"), STEPS)
async def test_a_step_changes_guest_and_record(
    steps: tuple[Transition, ...], status: Status, power: str
) -> None:
    """Each step changes the guest and the record, and adds an action to the history."""
    town = await open_town()
    vm = await town.create()
    for number, step in enumerate(steps):
        await town.operations.begin(vm.uuid, step, caller(number))
        await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host) == (status, vm.host)
    assert town.guests() == {vm.host: [power]}
    assert await town.used() == {vm.host: 1}
    actions = await town.ledger.actions(vm.uuid)
    assert [one.name for one in actions] == [step.action for step in reversed(steps)]
    assert all(one.ended_at_s is not None and not one.message for one in actions)
    assert [event.host for one in actions for event in one.events] == [vm.host] * len(steps)
    await town.assert_settled()


@pytest.mark.parametrize(
    "step", [lifecycle.START, lifecycle.UNPAUSE, lifecycle.RESUME, lifecycle.SHELVE_OFFLOAD]
)
async def test_a_step_that_does_not_fit_is_refused(step: Transition) -> None:
    """A step that does not fit the instance's status is refused with that status."""
    town = await open_town()
    vm = await town.create()
    with pytest.raises(InstanceStateError, match=f"'{step.action}'.*vm_state active"):
        await town.operations.begin(vm.uuid, step, caller())
    assert not await town.ledger.actions(vm.uuid)


async def test_two_steps_at_once_are_one_too_many() -> None:
    """A step is refused while a task is in progress."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
    with pytest.raises(InstanceStateError, match="task_state powering-off"):
        await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller(2))


async def test_a_locked_instance_is_for_administrators() -> None:
    """A locked instance refuses its owner's steps until it is unlocked."""
    town = await open_town()
    vm = await town.create()
    await town.operations.lock(vm.uuid, "mine", caller(1))
    with pytest.raises(InstanceLockedError, match="is locked"):
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller(2, is_admin=False))
    await town.operations.unlock(vm.uuid, caller(3))
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(4, is_admin=False))


async def test_what_the_driver_cannot_do_leaves_the_instance_as_it_was() -> None:
    """A step that the driver fails leaves the instance unchanged.

    The action's message does not name the host; the event has the error for operators.
    """
    faults = DriverFaults(share={"pause": 1.0})
    town = await open_town(*(FakeHost(f"host-{n}", faults=faults) for n in (1, 2, 3)))
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller())
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task) == (Status.ACTIVE, None)
    action = await town.action(vm)
    assert action.message == "The action pause failed on the instance's host."
    assert (vm.host or "") not in action.message
    assert "set to fail" in action.events[0].error
    await town.assert_settled()


@pytest.mark.parametrize("was", [Status.ACTIVE, Status.SHUTOFF])
async def test_a_rebuild_makes_the_guest_anew(was: Status) -> None:
    """A rebuild uses the new image on the same host and keeps the instance's status."""
    town = await open_town()
    vm = await town.create()
    if was is Status.SHUTOFF:
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
        await town.work()
    await town.operations.rebuild(vm.uuid, Image("image-2", "other"), caller(2), name="new")
    assert (await town.get(vm.uuid)).task is Task.REBUILDING
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.name, now.host) == (was, "new", vm.host)
    assert now.image == Image("image-2", "other")
    await town.assert_settled()


async def test_a_shelved_instance_leaves_its_host_and_comes_back() -> None:
    """A shelved instance holds no capacity, and an unshelve restores it from its stored disks."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work()
    away = await town.get(vm.uuid)
    assert (away.status, away.host) == (Status.SHELVED_OFFLOADED, None)
    assert (await town.used(), town.guests(), await town.held()) == ({}, {}, 0)
    assert list(town.network.stored) == [away.disks]
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.disks) == (Status.ACTIVE, None)
    assert town.guests() == {now.host: ["running"]}
    assert await town.used() == {now.host: 1}
    assert not town.network.stored
    await town.assert_settled()


async def test_an_instance_may_stay_where_it_is_shelved() -> None:
    """Without offloading, a shelved instance keeps its capacity until it is offloaded."""
    town = await open_town(offloads=False)
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.SHELVED
    assert await town.used() == {vm.host: 1}
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(3))
    await town.work()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE_OFFLOAD, caller(4))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.SHELVED_OFFLOADED
    assert (await town.used(), town.guests()) == ({}, {})
    await town.assert_settled()


async def test_an_unshelve_without_room_leaves_it_shelved() -> None:
    """An unshelve without room leaves the instance shelved, and the action has the reason."""
    town = await open_town(hosts=1, vcpus=1)
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work()
    other = replace(vm, uuid="00000000-0000-4000-8000-0000000000aa", revision=0)
    from berth.testing.builders import make_take  # noqa: PLC0415

    await town.ledger.write(make_take(99), Put(replace(other, host="host-1", node="host-1")))
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.SHELVED_OFFLOADED, None, None)
    assert "ResourcesFilter removed 1" in (await town.action(vm)).message
    assert list(town.network.stored) == [now.disks]
