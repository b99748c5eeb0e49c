"""Tests for soft deletions: what is kept, restored, reclaimed, and what takes precedence."""

import asyncio
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Stage
from berth.domain.compute.quota import Quota, QuotaExceededError
from berth.domain.errors import ConflictError, InstanceLockedError, InstanceStateError
from berth.domain.ledger.write import Put
from berth.ports.virt import Power
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.test_expirations import expirations
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town

INTERVAL_S = 3_600.0
STUCK = FakeHost("host-1", faults=DriverFaults(share={"stop": 1.0}))
"""A host that cannot stop guests."""


async def soft_delete(town: Town, vm: Instance, number: int = 1) -> Instance:
    """Soft-delete an instance, let the agents work, and return it."""
    ask = town.operations.soft_delete
    await ask(vm.uuid, caller(number, is_admin=False), service_down_time_s=DOWN_S)
    await town.work()
    return await town.get(vm.uuid)


async def test_a_soft_deleted_instance_is_off_and_keeps_its_claims() -> None:
    """The guest is powered off, the room stays claimed, and the history has a deletion."""
    town = await open_town()
    vm = await town.create()
    now = await soft_delete(town, vm)
    assert (now.status, now.task, now.host) == (Status.SOFT_DELETED, None, vm.host)
    assert town.guests() == {vm.host: ["stopped"]}
    assert await town.used() == {vm.host: 1}
    action = await town.action(vm)
    assert (action.name, action.message) == ("delete", "")
    assert [one.name for one in action.events] == ["compute_soft_delete_instance"]
    for number, step in enumerate((lifecycle.START, lifecycle.REBOOT_HARD, lifecycle.RESCUE)):
        with pytest.raises(InstanceStateError, match="vm_state soft-delete"):
            await town.operations.begin(vm.uuid, step, caller(10 + number))
    await town.assert_settled()


async def test_a_restored_instance_runs_with_its_disk() -> None:
    """Restoring starts the guest, even one that was off, and leaves no trace in the record."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    town.machines[vm.host].guests[vm.uuid].disk = "mine"
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
    await town.work()
    await soft_delete(town, vm, 2)
    await town.operations.restore(vm.uuid, caller(3))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task, now.extra) == (Status.ACTIVE, None, vm.extra)
    guest = town.machines[vm.host].guests[vm.uuid]
    assert (guest.power, guest.disk) == (Power.RUNNING, "mine")
    action = await town.action(vm)
    assert (action.name, action.events[0].name) == ("restore", "compute_restore_instance")
    with pytest.raises(InstanceStateError, match=r"'restore'.*vm_state active"):
        await town.operations.restore(vm.uuid, caller(4))


async def test_a_restore_is_within_the_quota() -> None:
    """A soft-deleted instance leaves room in the quota, which a restore needs again."""
    town = await open_town()
    vm = await town.create()
    await town.ledger.write(Put(Quota(vm.project_id, instances=1)))
    await town.desk.follower.catch_up()
    await soft_delete(town, vm)
    other = await town.create(make_request(2))
    assert other.status is Status.ACTIVE
    with pytest.raises(QuotaExceededError):
        await town.operations.restore(vm.uuid, caller(2))
    assert (await town.get(vm.uuid)).task is None
    await town.desk.instances.delete(other.uuid, service_down_time_s=DOWN_S)
    await town.work()
    await town.operations.restore(vm.uuid, caller(3))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE


async def test_an_instance_is_reclaimed_once_after_the_interval() -> None:
    """Two schedulers delete it once, not before its time; its owner's changes do not delay it."""
    town = await open_town()
    vm = await soft_delete(town, await town.create())
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 0
    await town.operations.lock(vm.uuid, "mine", caller(2))
    await town.work(INTERVAL_S)
    both = [expirations(town, reclaim_s=INTERVAL_S) for _ in range(2)]
    assert sum(await asyncio.gather(*(one.reclaim() for one in both))) == 1
    await town.work()
    assert sum([await one.reclaim() for one in both]) == 0
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert (town.guests(), await town.held()) == ({}, 0)
    actions = await town.ledger.actions(vm.uuid)
    assert [(one.name, one.user_id) for one in actions] == [
        ("delete", ""),
        ("lock", "user-1"),
        ("delete", "user-1"),
    ]
    assert all(one.ended_at_s is not None for one in actions)


async def test_a_reclaim_is_completed_without_the_host() -> None:
    """It is repeated if the host dies before its agent has destroyed the guest."""
    town = await open_town()
    vm = await soft_delete(town, await town.create())
    assert vm.host is not None
    await town.work(INTERVAL_S)
    counts = [await expirations(town, reclaim_s=INTERVAL_S).reclaim() for _ in range(2)]
    assert (counts, (await town.get(vm.uuid)).task) == ([1, 0], Task.DELETING)
    await town.kill(vm.host)
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 1
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert await town.held() == 0
    assert [one.name for one in await town.ledger.actions(vm.uuid)] == ["delete", "delete"]


async def test_a_soft_deletion_is_completed_without_the_host() -> None:
    """It ends if the host dies before its agent has stopped the guest; the reclaim follows."""
    town = await open_town()
    vm = await town.create()
    ask = town.operations.soft_delete
    await ask(vm.uuid, caller(1, is_admin=False), service_down_time_s=DOWN_S)
    assert await expirations(town, reclaim_s=INTERVAL_S).finish_soft_deletions() == 0
    assert vm.host is not None
    await town.kill(vm.host)
    both = [expirations(town, reclaim_s=INTERVAL_S) for _ in range(2)]
    assert sum([await one.finish_soft_deletions() for one in both]) == 1
    now = await town.get(vm.uuid)
    assert (now.status, now.task, now.host) == (Status.SOFT_DELETED, None, vm.host)
    assert await both[0].reclaim() == 0
    await asyncio.sleep(INTERVAL_S)
    assert await both[0].reclaim() == 1
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert await town.held() == 0


async def test_a_restored_instance_is_not_deleted_again() -> None:
    """Finishing a soft deletion changes nothing if its owner was faster to restore the instance."""
    town = await open_town()
    vm = await soft_delete(town, await town.create())
    await town.operations.restore(vm.uuid, caller(2))
    for status in (Status.SOFT_DELETED, Status.ACTIVE):
        before = await town.get(vm.uuid)
        assert before.status is status
        await town.operations.soft_delete(
            vm.uuid, caller(3), service_down_time_s=DOWN_S, only_finish=True
        )
        assert await town.get(vm.uuid) == before
        await town.work()


async def test_the_deletions_of_many_dead_hosts_end_in_several_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round reads the instances of a limited number of hosts, and the next one of the others."""
    monkeypatch.setattr("berth.services.servers.expirations._HOSTS_MAX", 1)
    town = await open_town()
    vms = [await town.create(make_request(number)) for number in (1, 2)]
    assert len({vm.host for vm in vms}) == 2
    for number, vm in enumerate(vms):
        ask = town.operations.soft_delete
        await ask(vm.uuid, caller(number), service_down_time_s=DOWN_S)
    await town.restart({})
    await asyncio.sleep(2 * DOWN_S)
    work = expirations(town, reclaim_s=INTERVAL_S)
    assert [await work.finish_soft_deletions() for _ in range(3)] == [1, 1, 0]


async def test_what_is_being_restored_is_not_reclaimed() -> None:
    """A restore that was accepted in time takes precedence, also over a reclaim that has begun."""
    town = await open_town()
    vm = await soft_delete(town, await town.create())
    await town.work(INTERVAL_S)
    await town.operations.restore(vm.uuid, caller(2))
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 0
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 0


async def test_a_force_deletion_does_not_wait() -> None:
    """A delete of a soft-deleted instance frees its room at once."""
    town = await open_town()
    vm = await soft_delete(town, await town.create())
    assert await town.desk.instances.delete(vm.uuid, caller(2), service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert await town.held() == 0


@pytest.mark.parametrize("in_place", [False, True])
async def test_a_soft_deletion_confirms_a_resize(*, in_place: bool) -> None:
    """As in Nova, a resize that waits for its confirmation is confirmed."""
    town = await open_town(hosts=1 if in_place else 3, resizes_in_place=in_place)
    await town.flavor()
    vm = await town.create()
    await town.operations.resize(vm.uuid, BIG, caller(1))
    await town.work()
    now = await soft_delete(town, vm, 2)
    assert (now.status, now.flavor.flavor_id) == (Status.SOFT_DELETED, BIG.flavor_id)
    assert (now.migration_uuid, now.counts_as) == (None, None)
    assert (await town.migration()).stage is Stage.CONFIRMED
    assert await town.used() == {now.host: 1}
    assert town.guests() == {now.host: ["stopped"]}
    await town.assert_settled()


async def test_a_soft_deletion_ends_a_move_and_any_task() -> None:
    """A move that has not arrived is given up; its destination is cleaned up."""
    town = await open_town()
    await town.flavor()
    vm = await town.create()
    await town.operations.resize(vm.uuid, BIG, caller(1))
    now = await soft_delete(town, vm, 2)
    assert (now.status, now.host, now.flavor) == (Status.SOFT_DELETED, vm.host, vm.flavor)
    assert await town.used() == {vm.host: 1}
    assert town.guests() == {vm.host: ["stopped"]}
    await town.assert_settled()


async def test_on_a_host_that_is_down_the_guest_is_stopped_later() -> None:
    """The status changes at once; the agent stops the guest when it is back."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    await town.kill(vm.host)
    now = await soft_delete(town, vm)
    assert (now.status, now.task) == (Status.SOFT_DELETED, None)
    assert town.guests() == {vm.host: ["running"]}
    action = await town.action(vm)
    assert action.ended_at_s is not None
    await town.restart(town.fakes)
    await town.work()
    assert town.guests() == {vm.host: ["stopped"]}
    assert (await town.get(vm.uuid)).status is Status.SOFT_DELETED


async def test_a_guest_that_was_paused_on_a_host_that_was_down_runs_after_a_restore() -> None:
    """The agent that comes back may learn of deletion and restore at once."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller(1))
    await town.work()
    await town.kill(vm.host)
    await soft_delete(town, vm, 2)
    await town.operations.restore(vm.uuid, caller(3))
    await town.restart(town.fakes)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert town.guests() == {vm.host: ["running"]}


async def test_a_failed_soft_deletion_and_a_failed_restore_change_nothing() -> None:
    """The instance keeps its status and gets a fault; both can be tried again."""
    town = await open_town(hosts=1)
    vm = await town.create()
    bad = {"host-1": FakeHost("host-1", faults=DriverFaults(share={"stop": 1.0, "spawn": 1.0}))}
    await town.restart(bad)
    now = await soft_delete(town, vm)
    assert (now.status, now.task, now.extra) == (Status.ACTIVE, None, vm.extra)
    assert now.fault is not None
    assert now.fault.message == "The instance could not be deleted."
    await town.restart({"host-1": FakeHost("host-1")})
    assert (await soft_delete(town, vm, 2)).status is Status.SOFT_DELETED
    await town.restart(bad)
    await town.operations.restore(vm.uuid, caller(3))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task) == (Status.SOFT_DELETED, None)
    assert (await town.action(vm)).message == "The instance could not be restored."
    await town.work(INTERVAL_S)
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 1


async def test_a_failed_deletion_during_a_restore_leaves_the_instance_reclaimable() -> None:
    """It stays soft-deleted, and keeps the time of the request."""
    town = await open_town(hosts=1)
    vm = await soft_delete(town, await town.create())
    await town.restart({"host-1": STUCK})
    await town.operations.restore(vm.uuid, caller(2))
    # The agent has started the guest, and has not reported it yet.
    town.machines["host-1"].guests[vm.uuid].power = Power.RUNNING
    now = await soft_delete(town, vm, 3)
    assert (now.status, now.task) == (Status.SOFT_DELETED, None)
    assert now.fault is not None
    await town.work(INTERVAL_S)
    assert await expirations(town, reclaim_s=INTERVAL_S).reclaim() == 1


@pytest.mark.parametrize("was_off", [False, True])
async def test_a_failed_soft_deletion_leaves_no_resize_without_a_move(*, was_off: bool) -> None:
    """The resize is confirmed nevertheless, so the status is the one before the resize."""
    town = await open_town(hosts=1, resizes_in_place=True)
    await town.flavor()
    vm = await town.create()
    if was_off:
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
        await town.work()
    await town.operations.resize(vm.uuid, BIG, caller(2))
    await town.work()
    await town.restart({"host-1": STUCK})
    town.machines["host-1"].guests[vm.uuid].power = Power.RUNNING  # or nothing would be stopped
    now = await soft_delete(town, vm, 3)
    assert now.fault is not None
    assert now.status is (Status.SHUTOFF if was_off else Status.ACTIVE)
    assert (now.task, now.migration_uuid) == (None, None)


async def test_a_failed_soft_deletion_leaves_a_shelved_instance_on_its_host() -> None:
    """One that was being unshelved has a host, and can be unshelved there."""
    town = await open_town(hosts=1)
    vm = await town.create()
    await town.restart({"host-1": STUCK})
    # The agent has started the guest, and has not reported it yet.
    unshelving = replace(vm, status=Status.SHELVED_OFFLOADED, task=Task.UNSHELVING)
    await town.ledger.write(Put(unshelving))
    now = await soft_delete(town, vm)
    assert (now.status, now.task, now.host) == (Status.SHELVED, None, "host-1")
    assert now.fault is not None
    await town.restart({"host-1": FakeHost("host-1")})
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE


async def test_who_may_not_be_soft_deleted() -> None:
    """Locked instances are for administrators; one on no host, or being deleted, is refused."""
    town = await open_town()
    vm = await town.create()
    ask = town.operations.soft_delete
    await town.operations.lock(vm.uuid, None, caller(1))
    with pytest.raises(InstanceLockedError):
        await ask(vm.uuid, caller(2, is_admin=False), service_down_time_s=DOWN_S)
    await town.ledger.write(Put(replace(await town.get(vm.uuid), task=Task.DELETING)))
    with pytest.raises(InstanceStateError, match="deleting"):
        await ask(vm.uuid, caller(3), service_down_time_s=DOWN_S)
    other = await town.create(make_request(2))
    await town.operations.begin(other.uuid, lifecycle.SHELVE, caller(4))
    await town.work()
    with pytest.raises(ConflictError, match="not ready"):
        await ask(other.uuid, caller(5), service_down_time_s=DOWN_S)


async def test_an_instance_whose_disks_were_stored_is_restored_from_them() -> None:
    """A soft deletion during the offload keeps the stored disks, which a restore fetches."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    town.machines[vm.host].guests[vm.uuid].disk = "mine"
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    async with asyncio.timeout(100):
        while (await town.get(vm.uuid)).disks is None:
            await town.work(0.01)
    now = await town.get(vm.uuid)
    if now.host is not None:
        await soft_delete(town, vm, 2)
        await town.operations.restore(vm.uuid, caller(3))
        await town.work()
        now = await town.get(vm.uuid)
        assert (now.status, now.disks) == (Status.ACTIVE, None)
        assert now.host is not None
        assert town.machines[now.host].guests[vm.uuid].disk == "mine"
