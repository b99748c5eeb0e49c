"""Tests for reconciling guests with the ledger."""

from dataclasses import replace
from itertools import pairwise

import pytest

from berth.adapters.virt.fake import FakeGuest
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import Transition
from berth.domain.ledger.write import Put
from berth.ports.virt import Power
from berth.testing.builders import make_uuid
from tests.unit.lifecycle.town import Town, caller, open_town
from tests.unit.services.wiring import running

LONG_S = 700.0


def guest_of(town: Town, instance: Instance) -> FakeGuest:
    """Return the guest of an instance on its host."""
    return town.machines[instance.host or ""].guests[instance.uuid]


async def test_a_guest_that_shuts_itself_down_is_shut_off() -> None:
    """An instance whose guest shuts down becomes SHUTOFF and can be started again."""
    town = await open_town()
    vm = await town.create()
    town.machines[vm.host or ""].set_power(vm.uuid, Power.STOPPED, "by itself")
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.SHUTOFF
    await town.operations.begin(vm.uuid, lifecycle.START, caller())
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    await town.assert_settled()


async def test_hints_make_it_quick() -> None:
    """A hint from the driver makes a change of power visible within seconds."""
    town = await open_town()
    vm = await town.create()
    async with running(town.pool.listen):
        await town.work(1.0)
        town.machines[vm.host or ""].set_power(vm.uuid, Power.STOPPED, "by itself")
        await town.work(3.0)
    assert (await town.get(vm.uuid)).status is Status.SHUTOFF


async def test_a_guest_that_crashed_is_started_again() -> None:
    """A crashed guest is started again."""
    town = await open_town()
    vm = await town.create()
    town.machines[vm.host or ""].set_power(vm.uuid, Power.CRASHED)
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert guest_of(town, vm).power is Power.RUNNING


async def crash_for(town: Town, vm: Instance, seconds: int) -> list[int]:
    """Crash a guest whenever it runs; return the seconds at which it was started again."""
    starts, boots = list[int](), guest_of(town, vm).boots
    async with running(town.pool.listen):
        await town.work(1.0)
        for second in range(seconds):
            guest = guest_of(town, vm)
            if guest.boots > boots:
                starts.append(second)
                boots = guest.boots
            if guest.power is Power.RUNNING:
                town.machines[vm.host or ""].set_power(vm.uuid, Power.CRASHED)
            await town.work(1.0)
    return starts


async def test_a_guest_that_keeps_crashing_is_started_ever_later_and_at_last_no_more() -> None:
    """A guest that keeps crashing is restarted with growing pauses, five times at most.

    The instance then goes to ERROR, and a hard reboot resets the count.
    """
    town = await open_town()
    vm = await town.create()
    starts = await crash_for(town, vm, 400)
    pauses = [after - before for before, after in pairwise(starts)]
    assert len(starts) == 5
    # The test looks at the guest once a second.
    assert all(
        least - 1 <= pause <= least + 1
        for least, pause in zip((10, 20, 40, 80), pauses, strict=True)
    )
    now = await town.get(vm.uuid)
    assert (now.status, now.task, now.host) == (Status.ERROR, None, vm.host)
    assert now.fault is not None
    assert "5 times within 1,800 s" in now.fault.message
    assert town.desk.told.events.count("guest_given_up") == 1
    await town.operations.begin(vm.uuid, lifecycle.REBOOT_HARD, caller())
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.fault) == (Status.ACTIVE, None)
    assert len(await crash_for(town, vm, 60)) == 3
    assert (await town.get(vm.uuid)).status is Status.ACTIVE


async def test_a_guest_that_crashes_seldom_is_always_started_again() -> None:
    """A guest that crashes seldom is always restarted, because old crashes do not count."""
    town = await open_town()
    vm = await town.create()
    for _ in range(8):
        town.machines[vm.host or ""].set_power(vm.uuid, Power.CRASHED)
        await town.work(LONG_S)
        assert guest_of(town, vm).power is Power.RUNNING
    await town.assert_settled()


@pytest.mark.parametrize("power", [Power.RUNNING, Power.PAUSED])
async def test_a_guest_that_should_be_off_is_stopped(power: Power) -> None:
    """A guest that runs or is paused although its instance is SHUTOFF is stopped."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
    await town.work()
    town.machines[vm.host or ""].set_power(vm.uuid, power)
    await town.work(LONG_S)
    assert guest_of(town, vm).power is Power.STOPPED


@pytest.mark.parametrize("step", [None, lifecycle.PAUSE])
async def test_a_guest_that_its_host_has_suspended_is_suspended(step: Transition | None) -> None:
    """An instance whose host suspended its guest becomes SUSPENDED and can be resumed.

    If the host resumes the guest, the instance becomes ACTIVE again.
    """
    town = await open_town()
    vm = await town.create()
    if step is not None:
        await town.operations.begin(vm.uuid, step, caller())
        await town.work()
    machine = town.machines[vm.host or ""]
    machine.set_power(vm.uuid, Power.SUSPENDED)
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.SUSPENDED
    await town.operations.begin(vm.uuid, lifecycle.RESUME, caller())
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert (guest_of(town, vm).power, guest_of(town, vm).boots) == (Power.RUNNING, 1)
    machine.set_power(vm.uuid, Power.SUSPENDED)
    await town.work(LONG_S)
    machine.set_power(vm.uuid, Power.RUNNING)
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    await town.assert_settled()


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_nobody_knows_is_told_of_and_left_alone(*, is_known: bool) -> None:
    """A guest of a deleted instance is destroyed; an unknown guest is reported and stays."""
    town = await open_town()
    vm = await town.create()
    host = vm.host or ""
    await town.pool.close()
    await town.desk.instances.delete(vm.uuid)
    now = await town.get(vm.uuid)
    await town.ledger.write(Put(replace(now, status=Status.DELETED, task=None)))
    if not is_known:
        guest = town.machines[host].guests.pop(vm.uuid)
        town.machines[host].guests[make_uuid("instance", 77)] = guest
    await town.restart(town.fakes)
    await town.work()
    assert bool(town.machines[host].guests) is not is_known
    assert ("orphan_guest" in town.desk.told.events) is not is_known


async def test_running_guests_are_adopted_and_not_booted_again() -> None:
    """A restarted agent adopts running guests without booting them again."""
    town = await open_town()
    vm = await town.create()
    await town.restart(town.fakes)
    await town.work()
    assert guest_of(town, vm).boots == 1
    await town.assert_settled()
