"""Tests for resizes and cold migrations: completion, revert, failures and interruptions."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import Transition
from berth.domain.compute.migration import MoveKind
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InstanceStateError, InvalidInputError
from berth.domain.ledger.write import Put
from berth.services.decisions.history import decision_called, decisions_about
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town

LARGER = replace(BIG, vcpus=3)
SLOW = DriverFaults(delay_s={"stop": 1.0, "fetch_disks": 1.0, "offer_disks": 1.0})


async def resized(town: Town, instance: Instance) -> Instance:
    """Resize an instance and return it when it waits for confirmation."""
    await town.operations.resize(instance.uuid, LARGER, caller(1))
    await town.work()
    return await town.get(instance.uuid)


async def confirm(town: Town, instance: Instance) -> Instance:
    """Confirm a move, wait until it is done, and return the instance."""
    await town.operations.confirm(instance.uuid, caller(8), service_down_time_s=DOWN_S)
    await town.work()
    return await town.get(instance.uuid)


async def revert(town: Town, instance: Instance) -> Instance:
    """Revert a move, wait until it is done, and return the instance."""
    await town.operations.revert(instance.uuid, caller(9), service_down_time_s=DOWN_S)
    await town.work()
    return await town.get(instance.uuid)


async def test_a_resize_takes_room_on_both_sides_until_it_is_confirmed() -> None:
    """A resized instance holds capacity on both hosts until the resize is confirmed.

    The migration holds the former capacity and the instance the new one.
    """
    town = await open_town()
    vm = await town.create()
    now = await resized(town, vm)
    assert (now.status, now.task, now.flavor) == (Status.RESIZED, None, LARGER)
    assert now.host != vm.host
    assert await town.used() == {vm.host: 1, now.host: 3}
    assert town.guests() == {vm.host: ["stopped"], now.host: ["running"]}
    migration = await town.migration()
    assert (migration.kind, migration.status) == (MoveKind.RESIZE, "finished")
    assert (migration.source.host, migration.destination.host) == (vm.host, now.host)
    holding = await town.ledger.consumer_allocations(migration.uuid)
    assert holding is not None
    assert holding.consumer.consumer_type == "MIGRATION"
    await town.assert_settled()
    done = await confirm(town, now)
    assert (done.status, done.host, done.migration_uuid) == (Status.ACTIVE, now.host, None)
    assert (await town.used(), town.guests()) == ({now.host: 3}, {now.host: ["running"]})
    assert (await town.migration()).status == "confirmed"
    assert await town.held() == 1
    await town.assert_settled()


@pytest.mark.parametrize("was", [Status.ACTIVE, Status.SHUTOFF])
async def test_a_resize_can_be_reverted(was: Status) -> None:
    """A revert restores the host, the flavor, the capacity and the power state."""
    town = await open_town()
    vm = await town.create()
    if was is Status.SHUTOFF:
        await town.operations.begin(vm.uuid, lifecycle.STOP, caller(2))
        await town.work()
    now = await resized(town, vm)
    power = "running" if was is Status.ACTIVE else "stopped"
    assert town.guests() == {vm.host: ["stopped"], now.host: [power]}
    back = await revert(town, now)
    assert (back.status, back.host, back.flavor) == (was, vm.host, vm.flavor)
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {vm.host: [power]})
    assert (await town.migration()).status == "reverted"
    assert [one.name for one in await town.ledger.actions(vm.uuid)][:2] == [
        "revertResize",
        "resize",
    ]
    await town.assert_settled()


async def test_a_resize_may_stay_on_its_host() -> None:
    """A resize in place holds the capacity of both flavors until it is confirmed or reverted."""
    town = await open_town(hosts=1, resizes_in_place=True)
    vm = await town.create()
    now = await resized(town, vm)
    assert (now.host, now.status) == (vm.host, Status.RESIZED)
    assert await town.used() == {"host-1": 4}
    assert town.guests() == {"host-1": ["running"]}
    back = await revert(town, now)
    assert (back.flavor, await town.used()) == (vm.flavor, {"host-1": 1})
    assert town.machines["host-1"].guests[vm.uuid].flavor == vm.flavor
    await town.operations.resize(vm.uuid, LARGER, caller(2))
    await town.work()
    done = await confirm(town, await town.get(vm.uuid))
    assert (done.flavor, await town.used()) == (LARGER, {"host-1": 3})
    assert town.guests() == {"host-1": ["running"]}
    await town.assert_settled()


async def test_a_resize_in_place_counts_once() -> None:
    """Until its end, it is one instance for groups, limits, builds, flavors and images."""
    town = await open_town(hosts=1, resizes_in_place=True)
    group = ServerGroup("group", "duo", GroupPolicy.ANTI_AFFINITY, max_server_per_host=2)
    await town.ledger.commit([(Put(group),)])
    vm = await town.create(replace(make_request(), group_uuid="group"))

    def counts() -> tuple[object, ...]:
        hosts = town.desk.replica.hosts
        flavors = [
            sum(hosts.occupants.flavor_rows(one).values()) for one in ("1", LARGER.flavor_id)
        ]
        members = hosts.occupants.groups.rows("group").get(0)
        return int(hosts.num_instances[0]), members, sum(flavors)

    assert counts() == (1, 1, 1)
    now = await resized(town, vm)
    assert (now.host, now.status) == (vm.host, Status.RESIZED)
    assert counts() == (1, 1, 1)
    assert int(town.desk.replica.hosts.num_io_ops[0]) == 0
    further = await town.create(replace(make_request(2), group_uuid="group"))
    assert further.host == vm.host
    assert counts() == (2, 2, 2)
    await confirm(town, now)
    assert counts() == (2, 2, 2)
    await town.assert_settled()


async def test_a_cold_migration_may_name_its_host() -> None:
    """A cold migration goes to the host that the caller names."""
    town = await open_town(vcpus=2)
    vm = await town.create()
    target = next(name for name in ("host-3", "host-2") if name != vm.host)
    await town.operations.migrate(vm.uuid, MoveTarget(host=target), caller(1))
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.host, now.status, now.flavor) == (target, Status.RESIZED, vm.flavor)
    assert (await confirm(town, now)).host == target


async def test_without_room_the_instance_stays_as_it_was() -> None:
    """A resize without room changes nothing, and the action records the reason."""
    town = await open_town(vcpus=2)
    vm = await town.create()
    now = await resized(town, vm)
    assert (now.status, now.host, now.task) == (Status.ACTIVE, vm.host, None)
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {vm.host: ["running"]})
    action = await town.action(vm)
    assert action.name == "resize"
    assert "No valid host" in action.message
    await town.assert_settled()


async def test_nobody_reads_the_disks_of_a_stopped_server_that_stays_where_it_was() -> None:
    """The disks of a stopped instance are no longer offered after a revert or a failed move."""
    town = await open_town()
    vm = await town.create()
    await town.operations.begin(vm.uuid, lifecycle.STOP, caller())
    await town.work()
    machine = town.machines[vm.host or ""]
    now = await resized(town, vm)
    assert machine.guests[vm.uuid].offered
    await town.operations.revert(now.uuid, caller(2), service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.SHUTOFF
    assert not machine.guests[vm.uuid].offered
    for name in town.machines.keys() - {vm.host}:
        town.drivers[name]._fake = FakeHost(name, faults=DriverFaults(share={"fetch_disks": 1.0}))
    now = await resized(town, vm)
    assert (now.status, now.host) == (Status.SHUTOFF, vm.host)
    assert not machine.guests[vm.uuid].offered
    await town.assert_settled()


@pytest.mark.parametrize("verb", ["offer_disks", "fetch_disks"])
async def test_a_move_that_fails_everywhere_leaves_it_running_where_it_was(verb: str) -> None:
    """A move that fails on every host leaves the guest running where it was.

    No other host holds capacity or a guest.
    """
    faults = DriverFaults(share={verb: 1.0})
    town = await open_town(*(FakeHost(f"host-{n}", faults=faults) for n in (1, 2, 3)))
    vm = await town.create()
    now = await resized(town, vm)
    assert (now.status, now.host, now.flavor) == (Status.ACTIVE, vm.host, vm.flavor)
    assert (await town.used(), town.guests()) == ({vm.host: 1}, {vm.host: ["running"]})
    message = (await town.action(vm)).message
    assert "No valid host" in message
    assert message.endswith("The move failed on 2 hosts before.")
    assert {one.status for one in await town.ledger.migrations(town.every)} == {"error"}
    assert await town.held() == 1
    await town.assert_settled()
    last = await decision_called(town.ledger, vm.uuid)
    asked = await decision_called(town.ledger, caller().request_id)
    assert last is not None
    assert asked is not None
    assert last.request_id.endswith("/2")
    assert last.refusal is not None
    assert asked.request_id == last.request_id
    about = await decisions_about(town.ledger, now)
    assert (about[0], about[-1].request_id) == (last, vm.request_id)


async def test_a_move_that_fails_on_one_host_goes_to_the_next() -> None:
    """A move that fails on one host continues on another one."""
    town = await open_town()
    vm = await town.create()
    others = [name for name in town.machines if name != vm.host]
    faults = DriverFaults(share={"fetch_disks": 1.0})
    first = (await town.operations.resize(vm.uuid, LARGER, caller(1))).host
    assert first == vm.host
    town.drivers[others[0]]._fake = FakeHost(others[0], faults=faults)
    town.drivers[others[1]]._fake = FakeHost(others[1])
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.host) == (Status.RESIZED, others[1])
    assert await town.used() == {vm.host: 1, others[1]: 3}
    assert len(await town.ledger.migrations(town.every)) in {1, 2}
    assert (await confirm(town, now)).status is Status.ACTIVE
    await town.assert_settled()


@pytest.mark.parametrize(
    ("step", "error"), [(lifecycle.RESIZE, InvalidInputError), (lifecycle.CONFIRM, None)]
)
async def test_what_makes_no_sense_is_refused(
    step: Transition, error: type[Exception] | None
) -> None:
    """A resize to the same flavor or a smaller disk, and a needless confirmation, are refused."""
    town = await open_town()
    vm = await town.create()
    if error is None:
        with pytest.raises(InstanceStateError):
            await town.operations.confirm(vm.uuid, caller(), service_down_time_s=DOWN_S)
        return
    assert step is lifecycle.RESIZE
    with pytest.raises(error, match="already"):
        await town.operations.resize(vm.uuid, vm.flavor, caller())
    with pytest.raises(error, match="smaller"):
        await town.operations.resize(vm.uuid, replace(LARGER, root_gb=0), caller())


@pytest.mark.parametrize("forced", [False, True])
async def test_a_target_may_be_written_in_any_case(*, forced: bool) -> None:
    """Target host names ignore case; the instance's own host and unknown hosts are refused."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    with pytest.raises(InvalidInputError, match="already"):
        await town.operations.migrate(vm.uuid, MoveTarget(vm.host.upper(), forced=forced), caller())
    with pytest.raises(InvalidInputError, match="'HOST-9' could not be found"):
        await town.operations.migrate(vm.uuid, MoveTarget("HOST-9", forced=forced), caller())
    there = next(name for name in town.machines if name != vm.host)
    await town.operations.live_migrate(vm.uuid, MoveTarget(there.upper(), forced=forced), caller())
    await town.work()
    assert (await town.get(vm.uuid)).host == there
    await town.assert_settled()


async def test_a_lone_member_of_an_affinity_group_can_be_moved() -> None:
    """The only member of an affinity group can move; anti-affinity members stay apart."""
    town = await open_town()
    group = ServerGroup("group-1", "together", GroupPolicy.AFFINITY, "project-1")
    apart = ServerGroup("group-2", "apart", GroupPolicy.ANTI_AFFINITY, "project-1")
    await town.ledger.write(Put(group), Put(apart))
    vm = await town.create(replace(make_request(1), group_uuid="group-1"))
    now = await resized(town, vm)
    assert (now.status, now.host != vm.host) == (Status.RESIZED, True)
    await confirm(town, now)
    request = replace(make_request(2, count=2), group_uuid="group-2")
    first = await town.create(request)
    second = await town.get(request.instance_uuids[1])
    await town.operations.migrate(first.uuid, MoveTarget(), caller(5))
    await town.work()
    moved = await town.get(first.uuid)
    assert not (await town.action(first)).message
    assert {moved.host, first.host, second.host} == {"host-1", "host-2", "host-3"}


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5])
async def test_a_move_survives_the_death_of_the_agents(seconds: float) -> None:
    """A resize completes although the agents were restarted in the middle of it."""
    town = await open_town(*(FakeHost(f"host-{n}", faults=SLOW) for n in (1, 2, 3)))
    vm = await town.create()
    await town.operations.resize(vm.uuid, LARGER, caller(1))
    await town.work(seconds)
    await town.restart(town.fakes)
    await town.work()
    now = await town.get(vm.uuid)
    assert now.status is Status.RESIZED
    assert await town.used() == {vm.host: 1, now.host: 3}
    await confirm(town, now)
    assert (await town.used(), town.guests()) == ({now.host: 3}, {now.host: ["running"]})
    await town.assert_settled()


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 30.0])
async def test_a_delete_on_the_way_leaves_nothing(seconds: float) -> None:
    """Deleting an instance during a resize leaves no guest and no allocation on either host."""
    town = await open_town(*(FakeHost(f"host-{n}", faults=SLOW) for n in (1, 2, 3)))
    vm = await town.create()
    await town.operations.resize(vm.uuid, LARGER, caller(1))
    await town.work(seconds)
    await town.desk.instances.delete(vm.uuid, service_down_time_s=DOWN_S)
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.DELETED
    assert (await town.used(), town.guests(), await town.held()) == ({}, {}, 0)
    assert (await town.migration()).has_ended
    await town.assert_settled()


async def test_a_confirmation_does_not_wait_for_a_dead_host() -> None:
    """A confirmation completes although the source host is down.

    The agent of that host destroys the former guest when it is back.
    """
    town = await open_town()
    vm = await town.create()
    now = await resized(town, vm)
    assert vm.host is not None
    await town.kill(vm.host)
    done = await confirm(town, now)
    assert done.status is Status.ACTIVE
    assert await town.used() == {vm.host: 1, now.host: 3}
    await town.restart(town.fakes)
    await town.work()
    assert (await town.used(), town.guests()) == ({now.host: 3}, {now.host: ["running"]})
    await town.assert_settled()
