"""Tests for rescues: the guest, its record, and what interrupts a rescue."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import InstanceStateError, InvalidInputError
from berth.ports.virt import Power
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.town import DOWN_S, Town, caller, open_town

RESCUE = Image("rescue")


def boots_of(town: Town, vm: Instance) -> tuple[str, str, int]:
    """Return the power state, the rescue image and the number of starts of an instance's guest."""
    assert vm.host is not None
    guest = town.machines[vm.host].guests[vm.uuid]
    return str(guest.power), guest.rescue_image, guest.boots


async def rescued(town: Town) -> Instance:
    """Return a rescued instance."""
    vm = await town.create()
    await town.operations.rescue(vm.uuid, RESCUE, caller(1))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task) == (Status.RESCUED, None)
    return now


@pytest.mark.parametrize("stops", [False, True])
async def test_a_rescue_boots_its_image_and_its_end_the_own_disks(*, stops: bool) -> None:
    """A rescue keeps host and claims; an unrescued instance is active, even if it was off."""
    town = await open_town()
    vm = await town.create()
    if stops:
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller(0))
        await town.work()
    await town.operations.rescue(vm.uuid, RESCUE, caller(1))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host, boots_of(town, vm)) == (
        Status.RESCUED,
        vm.host,
        ("running", "rescue", 2),
    )
    assert now.launched_at_s is not None
    assert vm.launched_at_s is not None
    assert now.launched_at_s > vm.launched_at_s
    assert await town.used() == {vm.host: 1}
    await town.operations.begin(vm.uuid, lifecycle.UNRESCUE, caller(2))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, boots_of(town, vm)) == (Status.ACTIVE, ("running", "", 3))
    assert now.extra == vm.extra
    assert await town.used() == {vm.host: 1}
    actions = await town.ledger.actions(vm.uuid)
    assert [one.name for one in actions][:2] == ["unrescue", "rescue"]
    assert [one.events[0].name for one in actions[:2]] == [
        "compute_unrescue_instance",
        "compute_rescue_instance",
    ]
    # The second launch has made the creation an action of its own.
    assert actions[-1].name == "create"
    assert actions[-1].ended_at_s == vm.launched_at_s
    await town.assert_settled()


async def test_a_rescued_guest_that_died_boots_the_rescue_image_again() -> None:
    """The image survives a crash of the guest, the loss of its process, and a new agent."""
    town = await open_town()
    vm = await rescued(town)
    assert vm.host is not None
    machine = town.machines[vm.host]
    machine.set_power(vm.uuid, Power.CRASHED)
    await town.restart(town.fakes)
    await town.work()
    assert boots_of(town, vm) == ("running", "rescue", 3)
    machine.guests.clear()
    await town.restart(town.fakes)
    await town.work()
    assert boots_of(town, vm)[:2] == ("running", "rescue")
    assert (await town.get(vm.uuid)).status is Status.RESCUED


async def test_a_rescued_guest_that_shuts_itself_down_stays_off() -> None:
    """As in Nova, the status stays RESCUE; the end of the rescue starts the guest."""
    town = await open_town()
    vm = await rescued(town)
    assert vm.host is not None
    town.machines[vm.host].set_power(vm.uuid, Power.STOPPED)
    await town.work(1_300.0)
    assert (await town.get(vm.uuid)).status is Status.RESCUED
    assert boots_of(town, vm) == ("stopped", "rescue", 2)
    await town.operations.begin(vm.uuid, lifecycle.UNRESCUE, caller(2))
    await town.work()
    assert boots_of(town, vm) == ("running", "", 3)


@pytest.mark.parametrize("at", ["rescue", "unrescue"])
async def test_a_failure_ends_in_error_and_a_hard_reboot_on_the_own_disks(at: str) -> None:
    """After a failed rescue or unrescue, as in Nova, a hard reboot returns to the own disks."""
    town = await open_town(hosts=1)
    vm = await rescued(town) if at == "unrescue" else await town.create()
    bad = FakeHost("host-1", faults=DriverFaults(share={"spawn": 1.0}))
    await town.restart({"host-1": bad})
    if at == "rescue":
        await town.operations.rescue(vm.uuid, RESCUE, caller(2))
    else:
        await town.operations.begin(vm.uuid, lifecycle.UNRESCUE, caller(2))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.task) == (Status.ERROR, None)
    assert now.fault is not None
    assert now.fault.message == f"The instance could not be {at}d."
    assert (await town.action(vm)).message == now.fault.message
    await town.restart({"host-1": FakeHost("host-1")})
    await town.operations.begin(vm.uuid, lifecycle.REBOOT_HARD, caller(3))
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert boots_of(town, vm)[:2] == ("running", "")


async def test_what_a_rescued_instance_refuses() -> None:
    """A rescued instance takes no other step; one without an image needs a rescue image."""
    town = await open_town()
    vm = await rescued(town)
    for number, step in enumerate(
        (lifecycle.STOP, lifecycle.REBOOT_HARD, lifecycle.PAUSE, lifecycle.SHELVE)
    ):
        with pytest.raises(InstanceStateError, match="vm_state rescued"):
            await town.operations.begin(vm.uuid, step, caller(10 + number))
    with pytest.raises(InstanceStateError, match=r"'rescue'.*vm_state rescued"):
        await town.operations.rescue(vm.uuid, None, caller(20))
    other = await town.create(replace(make_request(2), image=None))
    with pytest.raises(InstanceStateError, match=r"'unrescue'.*vm_state active"):
        await town.operations.begin(other.uuid, lifecycle.UNRESCUE, caller(21))
    with pytest.raises(InvalidInputError, match="rescue_image_ref"):
        await town.operations.rescue(other.uuid, None, caller(22))


async def test_a_rescued_instance_is_evacuated_only_after_a_reset() -> None:
    """As in Nova, an operator resets the state first; the new guest has its own disks."""
    town = await open_town()
    vm = await rescued(town)
    assert vm.host is not None
    await town.kill(vm.host)
    evacuate = town.operations.evacuate
    with pytest.raises(InstanceStateError, match="vm_state rescued"):
        await evacuate(vm.uuid, MoveTarget(), caller(5), service_down_time_s=DOWN_S)
    await town.operations.reset_state(vm.uuid, Status.ERROR, caller(6))
    await evacuate(vm.uuid, MoveTarget(), caller(7), service_down_time_s=DOWN_S)
    await town.work()
    now = await town.get(vm.uuid)
    assert now.host != vm.host
    assert (now.status, boots_of(town, now)) == (Status.ACTIVE, ("running", "", 1))


async def test_a_rescued_instance_can_be_deleted() -> None:
    """A delete destroys the guest and frees the claims."""
    town = await open_town()
    vm = await rescued(town)
    await town.desk.instances.delete(vm.uuid, caller(9), service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert town.guests() == {}
    assert await town.held() == 0
