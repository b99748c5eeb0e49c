"""Tests for writing off a host that never comes back."""

import pytest

from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Stage
from berth.domain.errors import ConflictError, NotFoundError
from berth.services.fleet.write_off import WriteOffPlan, WriteOffService
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town


class Case:
    """A town in which an instance's host has died."""

    def __init__(self, town: Town, host: str, vm: Instance) -> None:
        self.town, self.host, self.vm = town, host, vm

    @property
    def writing(self) -> WriteOffService:
        """Return the write-off service."""
        return WriteOffService(
            self.town.ledger, self.town.desk.replica, self.town.desk.clock, self.town.desk.told
        )

    async def plan(self) -> WriteOffPlan:
        """Return the plan of a write-off."""
        return await self.writing.plan(self.host, service_down_time_s=DOWN_S)

    async def write_off(self) -> WriteOffPlan:
        """Write the host off and return what was done."""
        return await self.writing.write_off(self.host, service_down_time_s=DOWN_S)

    async def force(self, *, down: bool = True) -> None:
        """Set or clear the forced-down state of the host."""
        await self.town.desk.hosts.set_service(self.host, forced_down=down)


async def evacuated() -> Case:
    """Return a case whose instance was evacuated from its dead host."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    await town.kill(vm.host)
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(), service_down_time_s=DOWN_S)
    await town.work()
    return Case(town, vm.host, await town.get(vm.uuid))


async def test_what_was_left_is_ended_and_freed() -> None:
    """A write-off ends the move that was left and frees its allocation, as planned."""
    case = await evacuated()
    assert await case.town.used() == {case.host: 1, case.vm.host: 1}
    planned = await case.plan()
    assert [one.migration.instance_uuid for one in planned.moves] == [case.vm.uuid]
    assert planned.freed["VCPU"] == 1
    assert await case.town.used() == {case.host: 1, case.vm.host: 1}
    assert await case.write_off() == planned
    assert await case.town.used() == {case.vm.host: 1}
    assert (await case.town.migration()).stage is Stage.COMPLETED
    assert "host_written_off" in case.town.desk.told.events
    assert (await case.write_off()).moves == ()


async def test_a_host_that_is_not_forced_down_is_not_written_off() -> None:
    """A host that is not forced down cannot be written off."""
    case = await evacuated()
    await case.force(down=False)
    for deed in (case.plan, case.write_off):
        with pytest.raises(ConflictError, match="force-down"):
            await deed()
    assert (await case.town.migration()).stage is Stage.LEFT_BEHIND


async def test_a_host_whose_agent_lives_is_not_written_off() -> None:
    """A host that sends heartbeats cannot be written off."""
    case = await evacuated()
    case.town.desk.liveness.note(case.host)
    with pytest.raises(ConflictError, match="sent a heartbeat"):
        await case.write_off()
    assert (await case.town.migration()).stage is Stage.LEFT_BEHIND


async def test_a_host_that_comes_back_meanwhile_is_not_written_off() -> None:
    """A host whose forced-down state is cleared meanwhile is not written off."""
    case = await evacuated()

    async def come_back(_: object) -> None:
        case.town.ledger.before_commit = None
        await case.force(down=False)

    case.town.ledger.before_commit = come_back
    with pytest.raises(ConflictError, match="force-down"):
        await case.write_off()
    assert await case.town.used() == {case.host: 1, case.vm.host: 1}


async def test_nobody_is_written_off_who_is_not_there() -> None:
    """An unknown host cannot be written off."""
    town = await open_town()
    writing = WriteOffService(town.ledger, town.desk.replica, town.desk.clock, town.desk.told)
    with pytest.raises(NotFoundError):
        await writing.write_off("host-99", service_down_time_s=DOWN_S)


async def test_an_only_copy_is_never_touched() -> None:
    """Instances on the host, and moves with data there, keep their allocations."""
    town = await open_town()
    await town.flavor()
    vm = await town.create()
    assert vm.host is not None
    await town.operations.resize(vm.uuid, BIG, caller())
    await town.work(0.001)
    moving = await town.migration()
    await town.kill(moving.source.host)
    stays = await town.create(make_request(2))
    await town.desk.clock.sleep(DOWN_S + 1)
    case = Case(town, moving.source.host, vm)
    held = await town.used()
    done = await case.write_off()
    assert done.moves == ()
    assert await town.used() == held
    assert (await town.migration()).stage is moving.stage
    assert [one.uuid for one in done.waiting] == [moving.uuid]
    assert (await town.get(stays.uuid)).status is Status.ACTIVE


async def test_instances_that_are_there_are_named() -> None:
    """A write-off lists the instances on the host."""
    town = await open_town()
    vm = await town.create()
    assert vm.host is not None
    await town.kill(vm.host)
    await town.desk.clock.sleep(DOWN_S + 1)
    done = await Case(town, vm.host, vm).write_off()
    assert done.instances == (vm.uuid,)
    assert await town.used() == {vm.host: 1}
    assert await town.get(vm.uuid) == vm


async def test_a_host_that_returns_all_the_same_loses_what_was_written_off() -> None:
    """The agent of a host that returns destroys the guest that was written off."""
    case = await evacuated()
    await case.write_off()
    town = case.town
    assert case.vm.uuid in town.machines[case.host].guests
    await town.restart(town.fakes)
    await town.work()
    assert town.guests() == {case.vm.host: ["running"]}
    service = await town.ledger.get(Service, case.host)
    assert service is not None
    assert [one.key for one in service.audit.mended] == [case.vm.uuid]
    assert "on another host" in service.audit.mended[0].text
    assert service.forced_down
