"""Tests for files and disks that a crash leaves: which are reported and which are deleted."""

import pytest

from berth.adapters.virt.fake import FakeDriver
from berth.agent.executor.leftovers import DISKS, FILES
from berth.domain.compute import lifecycle
from berth.domain.compute.host import HostAudit, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.step import LEFTOVER_AGE_S
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Free, Put
from berth.testing.builders import make_uuid
from tests.unit.lifecycle.town import DOWN_S, Town, caller, open_town

LONG_S = LEFTOVER_AGE_S + 700.0


class KilledError(Exception):
    """The exception that simulates the end of an agent's process."""


async def audit_of(town: Town, host: str) -> HostAudit:
    """Return the host audit that the agent has recorded."""
    service = await town.ledger.get(Service, host)
    assert service is not None
    return service.audit


async def stored_in_vain(town: Town, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """Simulate an agent that dies after it stored disks and before it recorded them."""
    vm = await town.create()
    store = FakeDriver.store_disks

    async def store_and_die(driver: FakeDriver, instance_uuid: str) -> str:
        await store(driver, instance_uuid)
        raise KilledError

    monkeypatch.setattr(FakeDriver, "store_disks", store_and_die)
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller())
    await town.work(0.5)
    monkeypatch.setattr(FakeDriver, "store_disks", store)
    await town.pool.close()
    now = await town.get(vm.uuid)
    assert (now.task, now.disks) == (Task.SHELVING, None)
    assert town.network.stored
    return now


async def test_disks_whose_address_was_lost_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored disks without a record are deleted if the instance was deleted meanwhile."""
    town = await open_town()
    vm = await stored_in_vain(town, monkeypatch)
    await town.ledger.write(
        Free(vm.uuid), Put(fast_replace(vm, status=Status.DELETED, task=None, action=None))
    )
    await town.restart(town.fakes)
    await town.work(LONG_S)
    assert town.network.stored == {}
    (note,) = [one for one in (await audit_of(town, vm.host or "")).mended if one.code == DISKS]
    assert note.key == vm.uuid


async def test_disks_that_are_stored_for_a_task_that_goes_on_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stored disks stay if the instance's task continues when the agent is back."""
    town = await open_town()
    vm = await stored_in_vain(town, monkeypatch)
    await town.restart(town.fakes)
    await town.work(2 * LONG_S)
    now = await town.get(vm.uuid)
    assert (now.status, now.host) == (Status.SHELVED_OFFLOADED, None)
    assert now.disks in town.network.stored
    assert (await audit_of(town, vm.host or "")).mended == ()
    await town.assert_settled()


async def test_disks_of_what_is_unknown_are_told_and_stay() -> None:
    """Stored disks of an unknown instance are reported and stay."""
    town = await open_town()
    vm = await town.create()
    host, other = vm.host or "", make_uuid("instance", 77)
    town.network.stored[f"fake+stored:///{other}"] = "bytes"
    town.machines[host].stored = {other: town.desk.clock.now_s()}
    await town.work(LONG_S)
    assert town.network.stored
    assert [(one.code, one.key) for one in (await audit_of(town, host)).found] == [(DISKS, other)]


async def files_of(town: Town, uuid: str, host: str) -> None:
    """Leave files on a host for an instance uuid."""
    town.machines[host].files = {uuid: town.desk.clock.now_s()}


@pytest.mark.parametrize("ends", ["deleted", "elsewhere"])
async def test_files_that_nobody_can_want_are_deleted(ends: str) -> None:
    """Old files of an instance that is deleted or on another host are deleted."""
    town = await open_town()
    vm = await town.create()
    other = next(name for name in town.machines if name != vm.host)
    await files_of(town, vm.uuid, other)
    if ends == "deleted":
        await town.desk.instances.delete(vm.uuid, service_down_time_s=DOWN_S)
    await town.work(LEFTOVER_AGE_S - 1)
    assert town.machines[other].files
    await town.work(LONG_S)
    assert not town.machines[other].files
    assert town.guests() == ({} if ends == "deleted" else {vm.host: ["running"]})
    (note,) = (await audit_of(town, other)).mended
    assert (note.code, note.key) == (FILES, vm.uuid)


async def test_files_of_a_shelved_instance_are_deleted() -> None:
    """Files of a shelved instance are deleted, and the notice says so."""
    town = await open_town()
    vm = await town.create()
    host = vm.host or ""
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller())
    await town.work()
    assert (await town.get(vm.uuid)).host is None
    await files_of(town, vm.uuid, host)
    await town.work(LONG_S)
    assert not town.machines[host].files
    (note,) = [one for one in (await audit_of(town, host)).mended if one.code == FILES]
    assert "the instance is on no host; they were deleted" in note.text


@pytest.mark.parametrize("is_known", [True, False])
async def test_files_that_may_be_the_only_copy_stay(*, is_known: bool) -> None:
    """Files stay if the instance is on this host or unknown, and are reported."""
    town = await open_town()
    vm = await town.create()
    host, uuid = vm.host or "", vm.uuid
    if is_known:
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
        await town.work()
        del town.machines[host].guests[uuid]
    else:
        uuid = make_uuid("instance", 77)
    await files_of(town, uuid, host)
    await town.work(2 * LONG_S)
    assert town.machines[host].files
    assert [(one.code, one.key) for one in (await audit_of(town, host)).found] == [(FILES, uuid)]


async def test_files_of_a_guest_that_comes_here_again_stay() -> None:
    """Files stay if a task of their instance begins before they are deleted."""
    town = await open_town()
    vm = await town.create()
    other = next(name for name in town.machines if name != vm.host)
    await files_of(town, vm.uuid, other)
    await town.desk.clock.sleep(LONG_S)
    now = await town.get(vm.uuid)
    await town.ledger.write(Put(fast_replace(now, task=Task.MIGRATING)))
    await town.work(700.0)
    assert town.machines[other].files
