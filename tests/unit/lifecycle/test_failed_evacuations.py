"""Evacuations that fail: until another host has the server, nothing about it changes."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeHost
from berth.adapters.virt.fake.host import DriverFaults
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.ledger.write import Put
from berth.ports.virt import Power
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import DOWN_S, Town, caller, open_town

HOSTS = ("host-1", "host-2", "host-3")


async def evacuate(town: Town, vm: Instance, number: int, *, stops: bool) -> None:
    """Have an instance evacuated, and left off or started on its new host."""
    asked = caller(number)
    await town.operations.evacuate(
        vm.uuid, MoveTarget(), asked, service_down_time_s=DOWN_S, stops=stops
    )


async def check_unchanged(town: Town, before: Instance) -> None:
    """Check that the server and its guest are as before, and stay so when the host is back."""
    for _ in range(2):
        now = await town.get(before.uuid)
        assert (now.status, now.host, now.task) == (Status.ACTIVE, before.host, None)
        assert now.migration_uuid is None
        machine = town.machines[before.host or ""]
        assert machine.guests[before.uuid].power is Power.RUNNING
        # The agent of the host was only cut off; it must not carry out anything of the evacuation.
        service = await town.ledger.get(Service, before.host or "")
        assert service is not None
        await town.ledger.write(Put(replace(service, forced_down=False)))
        await town.restart(town.fakes)
        await town.work(900)
    assert await town.used() == {before.host: before.flavor.vcpus}
    await town.assert_settled()


@pytest.mark.parametrize("stops", [False, True])
async def test_without_room_elsewhere_nothing_changes(*, stops: bool) -> None:
    """No other host has room, so the server stays as it was, also if it was to be left off."""
    town = await open_town(hosts=1)
    vm = await town.create()
    await town.kill(vm.host or "")
    await evacuate(town, vm, 1, stops=stops)
    await town.work()
    assert (await town.action(vm)).message
    await check_unchanged(town, vm)


@pytest.mark.parametrize("stops", [False, True])
async def test_when_every_build_elsewhere_fails_nothing_changes(*, stops: bool) -> None:
    """The destination and all alternates fail, so the server stays as it was."""
    town = await open_town()
    vm = await town.create()
    bad = DriverFaults(share={"spawn": 1.0})
    town.fakes = {name: FakeHost(name, faults=bad) for name in HOSTS if name != vm.host}
    await town.kill(vm.host or "")
    await evacuate(town, vm, 1, stops=stops)
    await town.work(300)
    failed = await town.ledger.migrations(town.every)
    assert {one.destination.host for one in failed} == {*HOSTS} - {vm.host}
    town.fakes = {name: FakeHost(name) for name in HOSTS}
    await check_unchanged(town, vm)


@pytest.mark.parametrize("stops", [False, True])
async def test_when_the_destination_dies_nothing_changes_before_another_has_it(
    *, stops: bool
) -> None:
    """The server keeps its status and host until a second evacuation has brought it elsewhere."""
    slow = DriverFaults(delay_s={"spawn": 1_000.0})
    town = await open_town()
    vm = await town.create()
    source = vm.host or ""
    town.fakes = {name: FakeHost(name, faults=slow) for name in HOSTS if name != source}
    await town.kill(source)
    await evacuate(town, vm, 1, stops=stops)
    await town.work(5)
    first = (await town.migration()).destination.host
    await town.kill(first)
    await town.work(100)
    now = await town.get(vm.uuid)
    assert (now.status, now.host, now.task) == (Status.ACTIVE, source, Task.REBUILDING)
    assert town.machines[source].guests[vm.uuid].power is Power.RUNNING
    (last,) = {*HOSTS} - {source, first}
    town.fakes = {last: FakeHost(last)}
    await town.restart(town.fakes)
    await evacuate(town, vm, 2, stops=stops)
    await town.work()
    now = await town.get(vm.uuid)
    expected = Status.SHUTOFF if stops else Status.ACTIVE
    assert (now.status, now.host, now.task) == (expected, last, None)
    town.fakes = {name: FakeHost(name) for name in HOSTS}
    await town.restart(town.fakes)
    await town.work(900)
    assert set(town.guests()) == {last}
    await town.assert_settled()
