"""Tests for actions in quick succession and events that come late, twice or out of order."""

import asyncio
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Status, Task
from berth.ports.virt import Power
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.town import DOWN_S, caller, open_town

LONG_S = 700.0


async def test_a_second_move_does_not_wait_for_what_the_first_has_left() -> None:
    """A move completes while an earlier evacuation still waits for its dead host.

    An agent that starts meanwhile does not confuse the two moves.
    """
    faults = DriverFaults(delay_s={"stop": 5.0})
    town = await open_town(*(FakeHost(f"host-{number}", faults=faults) for number in (1, 2, 3)))
    vm = await town.create()
    for number in range(6):  # the order of the moves' ids is chance
        vm = await town.get(vm.uuid)
        host = vm.host or ""
        await town.kill(host)
        asked = caller(10 * number + 1)
        await town.operations.evacuate(vm.uuid, MoveTarget(), asked, service_down_time_s=DOWN_S)
        await town.work()
        await town.operations.migrate(vm.uuid, MoveTarget(), caller(10 * number + 2))
        await town.work(3.0)
        assert (await town.get(vm.uuid)).task is Task.RESIZE_MIGRATING
        rest = {name: fake for name, fake in town.fakes.items() if name != host}
        await town.restart(rest)
        await town.work()
        assert (await town.get(vm.uuid)).status is Status.RESIZED
        await town.desk.hosts.set_service(host, forced_down=False)
        await town.restart(town.fakes)
        await town.work()
        confirmed = caller(10 * number + 3)
        await town.operations.confirm(vm.uuid, confirmed, service_down_time_s=DOWN_S)
        await town.work()
        assert await town.held() == 1
    await town.assert_settled()


async def test_an_evacuation_that_is_asked_for_twice_is_one() -> None:
    """An evacuation that is requested twice is carried out once."""
    town = await open_town()
    vm = await town.create()
    await town.kill(vm.host or "")
    for number in (1, 2):
        asked = caller(number)
        await town.operations.evacuate(vm.uuid, MoveTarget(), asked, service_down_time_s=DOWN_S)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host != vm.host) == (Status.ACTIVE, True)
    assert len(await town.ledger.migrations(town.every)) == 1
    assert await town.used() == {vm.host: 1, now.host: 1}
    await town.assert_settled()


async def test_nothing_is_remembered_of_what_is_done() -> None:
    """The agent pool keeps no entries about finished work after a delete during a move."""
    town = await open_town(FakeHost("host-1"), FakeHost("host-2"), hosts=2)
    vm = await town.create()
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work()
    await town.desk.instances.delete(vm.uuid)
    await town.work()
    assert (await town.used(), town.guests()) == ({}, {})
    assert not town.pool._done
    await town.assert_settled()


async def test_a_cancelled_move_that_fails_first_is_cancelled() -> None:
    """A live migration that is cancelled and then fails has the status `cancelled`."""
    faults = DriverFaults(delay_s={"take_in": 2.0}, share={"take_in": 1.0})
    town = await open_town(*(FakeHost(f"host-{number}", faults=faults) for number in (1, 2, 3)))
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work(1.0)
    number = (await town.migration()).number
    await town.operations.cancel_live_migration(vm.uuid, number, caller(2))
    await town.work()
    assert (await town.migration()).status == "cancelled"
    assert town.guests() == {vm.host: ["running"]}
    await town.assert_settled()


async def test_a_resized_guest_is_started_again_after_a_crash() -> None:
    """A resized guest that crashes is started again before the resize is confirmed."""
    town = await open_town()
    vm = await town.create()
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work()
    host = (await town.get(vm.uuid)).host or ""
    town.machines[host].set_power(vm.uuid, Power.CRASHED)
    await town.work(LONG_S)
    assert town.machines[host].guests[vm.uuid].power is Power.RUNNING
    await town.assert_settled()


async def test_a_paused_guest_that_is_gone_is_off() -> None:
    """An instance whose paused guest disappeared becomes SHUTOFF."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.PAUSE, caller(1))
    await town.work()
    del town.machines[vm.host or ""].guests[vm.uuid]
    await town.work(LONG_S)
    assert (await town.get(vm.uuid)).status is Status.SHUTOFF
    await town.assert_settled()


@pytest.mark.parametrize("seconds", [0.2, 0.7])
async def test_a_look_at_a_host_does_not_undo_a_start(seconds: float) -> None:
    """A reconciliation that read the instance before a start does not stop its guest."""
    town = await open_town(
        FakeHost("host-1", faults=DriverFaults(delay_s={"guests": 1.0})), hosts=1
    )
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller(1))
    await town.work()
    looking = asyncio.create_task(town.pool._reconcile("host-1"))
    await asyncio.sleep(seconds)
    await town.operations.begin(vm.uuid, lifecycle.START, caller(2))
    await town.work()
    await looking
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert town.guests() == {"host-1": ["running"]}


async def test_what_one_move_has_left_goes_before_the_next_arrives() -> None:
    """The remains of a move are cleared before an evacuation to the same host."""
    faults = DriverFaults(delay_s={"spawn": 10.0})
    town = await open_town(FakeHost("host-1"), FakeHost("host-2", faults=faults), hosts=2)
    vm = await town.create(replace(make_request(1), force_hosts=("host-1",)))
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work(5.0)
    assert (await town.migration()).stage == "arriving"
    await town.desk.hosts.set_service("host-1", forced_down=True)
    asked, target = caller(2), MoveTarget(host="host-2")
    await town.operations.evacuate(vm.uuid, target, asked, service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).host == "host-2"
    assert (town.guests(), await town.used()) == ({"host-2": ["running"]}, {"host-2": 1})
    await town.assert_settled()


async def test_a_step_that_fails_half_done_leaves_the_truth() -> None:
    """A hard reboot that stops the guest and fails to start it leaves the instance SHUTOFF."""
    town = await open_town(hosts=1)
    vm = await town.create()
    failing = FakeHost("host-1", faults=DriverFaults(share={"spawn": 1.0}))
    await town.restart({"host-1": failing})
    await town.operations.begin(vm.uuid, lifecycle.REBOOT_HARD, caller(1))
    await town.work(30.0)
    now = await town.get(vm.uuid)
    assert (now.status, now.task) == (Status.SHUTOFF, None)
    assert (await town.action(vm)).message == "The action reboot failed on the instance's host."
    await town.assert_settled()
