"""Guests and the ledger: what changes by itself is found, and nobody's guest is left alone."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeGuest
from berth.domain import lifecycle
from berth.domain.instance import Instance, Status
from berth.domain.write import Put
from berth.ports.virt import Power
from berth.testing.builders import make_uuid
from tests.unit.lifecycle.town import Town, caller, open_town
from tests.unit.services.wiring import running

LONG_S = 700.0


def guest_of(town: Town, instance: Instance) -> FakeGuest:
    """Return the guest of an instance on its host."""
    return town.machines[instance.host or ""].guests[instance.uuid]


async def test_a_guest_that_shuts_itself_down_is_shut_off() -> None:
    """The instance is told to be so within the interval, and can be started again."""
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
    """With them a change is seen within seconds."""
    town = await open_town()
    vm = await town.create()
    async with running(town.pool.listen):
        await town.work(1.0)
        town.machines[vm.host or ""].set_power(vm.uuid, Power.STOPPED, "by itself")
        await town.work(3.0)
    assert (await town.get(vm.uuid)).status is Status.SHUTOFF


async def test_a_guest_that_crashed_is_started_again() -> None:
    """It should run, and did not choose to end."""
    town = await open_town()
    vm = await town.create()
    town.machines[vm.host or ""].set_power(vm.uuid, Power.CRASHED)
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert guest_of(town, vm).power is Power.RUNNING


async def test_a_guest_that_should_be_off_is_stopped() -> None:
    """Somebody started it behind Berth's back."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
    await town.work()
    town.machines[vm.host or ""].set_power(vm.uuid, Power.RUNNING)
    await town.work(LONG_S)
    assert guest_of(town, vm).power is Power.STOPPED


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_nobody_knows_is_told_of_and_left_alone(*, is_known: bool) -> None:
    """A guest of a deleted instance goes, one that the ledger never heard of stays."""
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
    """The agent was killed and comes back."""
    town = await open_town()
    vm = await town.create()
    await town.restart(town.fakes)
    await town.work()
    assert guest_of(town, vm).boots == 1
    await town.assert_settled()
