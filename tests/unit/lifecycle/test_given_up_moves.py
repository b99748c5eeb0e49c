"""Tests for moves whose destination host died and that an administrator gives up."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration, Stage
from berth.domain.ledger.write import Put, Unit
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town

SLOW = DriverFaults(
    delay_s=dict.fromkeys(("stop", "fetch_disks", "spawn", "take_in", "hand_over"), 10.0)
)


async def slow_town() -> Town:
    """Return a town in which every step of a move takes ten seconds."""
    fakes = [FakeHost(f"host-{number}", faults=SLOW) for number in (1, 2, 3)]
    return await open_town(*fakes)


async def give_up(town: Town, instance: Instance) -> Instance:
    """Reset an instance to ACTIVE, let the agents work, and return it."""
    await town.operations.reset_state(instance.uuid, Status.ACTIVE, caller(7))
    await town.work()
    return await town.get(instance.uuid)


async def assert_cleared(town: Town, instance: Instance) -> None:
    """Bring all hosts back, and check that only the instance's host has its guest and capacity."""
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(instance.uuid)
    assert town.guests() == {now.host: ["running"]}
    assert await town.used() == {now.host: now.flavor.vcpus}
    assert await town.held() == 1
    await town.assert_settled()


async def dies(town: Town, seconds: float) -> Migration:
    """Let a move run for a while, kill its destination host, and return the migration."""
    await town.work(seconds)
    migration = await town.migration()
    await town.kill(migration.destination.host)
    await town.work()
    return migration


async def test_a_resize_to_a_host_that_died() -> None:
    """A resize to a dead host waits; once given up, the guest starts again at the source."""
    town = await slow_town()
    vm = await town.create()
    await town.operations.resize(vm.uuid, BIG, caller(1))
    await dies(town, 15.0)
    assert (await town.get(vm.uuid)).task is Task.RESIZE_MIGRATED
    now = await give_up(town, vm)
    assert (now.status, now.host, now.flavor) == (Status.ACTIVE, vm.host, vm.flavor)
    await town.operations.begin(vm.uuid, lifecycle.REBOOT_HARD, caller(8))
    await town.work()
    assert town.guests()[vm.host or ""] == ["running"]
    await assert_cleared(town, vm)


async def test_a_live_move_to_a_host_that_died() -> None:
    """A live migration to a dead host that is given up leaves the guest at the source."""
    town = await slow_town()
    vm = await town.create()
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(1))
    await dies(town, 5.0)
    assert (await town.get(vm.uuid)).task is Task.MIGRATING
    now = await give_up(town, vm)
    assert (now.status, now.host) == (Status.ACTIVE, vm.host)
    await assert_cleared(town, vm)


async def test_a_resized_instance_whose_new_host_died() -> None:
    """A resized instance on a dead host can be evacuated once its resize is given up."""
    town = await slow_town()
    vm = await town.create()
    await town.operations.resize(vm.uuid, BIG, caller(1))
    migration = await dies(town, 120.0)
    assert (await town.get(vm.uuid)).status is Status.RESIZED
    assert Status.RESIZED not in lifecycle.EVACUATE.begins
    now = await give_up(town, vm)
    assert now.host == migration.destination.host
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(8), service_down_time_s=DOWN_S)
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.flavor) == (Status.ACTIVE, BIG)
    assert now.host != migration.destination.host
    await assert_cleared(town, vm)


async def test_an_agent_that_lives_leaves_evacuated_guests_alone() -> None:
    """A live agent whose host is marked down keeps the guest until the evacuation has ended."""
    town = await slow_town()
    vm = await town.create()
    host = vm.host or ""
    await town.kill(host)
    await town.restart(town.fakes)
    boots = town.machines[host].guests[vm.uuid].boots
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(1), service_down_time_s=DOWN_S)
    await town.work(5.0)
    assert town.machines[host].guests[vm.uuid].boots == boots
    await town.work()
    now = await town.get(vm.uuid)
    assert now.host != host
    assert town.guests() == {now.host: ["running"]}
    await town.assert_settled()


async def test_an_evacuation_of_what_is_going_back_by_the_time_that_it_is_written() -> None:
    """An evacuation that is written after the move began its return takes no capacity twice."""
    faults = DriverFaults(delay_s={"fetch_disks": 5.0, "spawn": 10.0}, share={"fetch_disks": 1.0})
    town = await open_town(*(FakeHost(f"host-{number}", faults=faults) for number in (1, 2, 3)))
    vm = await town.create()
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(1))
    await town.work(3.0)
    assert (await town.migration()).stage is Stage.ARRIVING
    service = await town.ledger.get(Service, vm.host or "")
    assert service is not None
    await town.ledger.write(Put(replace(service, forced_down=True)))
    before: list[Stage] = []

    async def slowly(units: Sequence[Unit]) -> None:
        records = [getattr(write, "record", None) for unit in units for write in unit]
        if any(isinstance(one, Action) and one.name == "evacuate" for one in records):
            town.ledger.before_commit = None
            await town.desk.clock.sleep(7.0)  # the other host finds that it cannot have the disks
            before.append((await town.migration()).stage)

    town.ledger.before_commit = slowly
    ask = town.operations.evacuate(vm.uuid, MoveTarget(), caller(2), service_down_time_s=DOWN_S)
    evacuation = asyncio.ensure_future(ask)
    await town.work(9.0)
    await evacuation
    assert before == [Stage.RESTORING]
    used = await town.used()
    assert used[vm.host or ""] == vm.flavor.vcpus, used
    await town.work()
    await assert_cleared(town, vm)
