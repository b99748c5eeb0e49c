"""Tests for the launch time of instances and the action that records their creation."""

from collections.abc import Awaitable, Callable

import pytest

from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, creation_of
from berth.services.servers.moves import MoveTarget
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town

Launch = Callable[[Town, Instance], Awaitable[object]]


async def rebuild(town: Town, vm: Instance) -> None:
    """Rebuild the instance from another image."""
    await town.operations.rebuild(vm.uuid, Image("other"), caller(1))


async def resize(town: Town, vm: Instance) -> None:
    """Resize the instance to a larger flavor."""
    await town.operations.resize(vm.uuid, BIG, caller(1))


async def resize_and_revert(town: Town, vm: Instance) -> None:
    """Resize the instance and revert the resize."""
    await resize(town, vm)
    await town.work()
    await town.operations.revert(vm.uuid, caller(2), service_down_time_s=DOWN_S)


async def unshelve(town: Town, vm: Instance) -> None:
    """Shelve and unshelve the instance."""
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(1))
    await town.work()
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(2))


async def evacuate(town: Town, vm: Instance) -> None:
    """Kill the instance's host and evacuate the instance."""
    assert vm.host is not None
    await town.kill(vm.host)
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(1), service_down_time_s=DOWN_S)


@pytest.mark.parametrize("launch", [rebuild, resize, resize_and_revert, unshelve, evacuate])
async def test_a_creation_ends_once(launch: Launch) -> None:
    """A later launch updates `launched_at_s` and leaves the create action unchanged."""
    town = await open_town()
    await town.flavor()
    vm = await town.create()
    created, begun_s = creation_of(vm), town.desk.clock.now_s()
    assert created.ended_at_s == vm.launched_at_s
    await launch(town, vm)
    await town.work()
    now = await town.get(vm.uuid)
    assert now.launched_at_s is not None
    assert now.launched_at_s >= begun_s
    assert await kept(town, vm) == [created]


async def test_a_second_launch_keeps_what_the_first_one_said() -> None:
    """The create action is recorded once and keeps its times after several rebuilds."""
    town = await open_town()
    vm = await town.create()
    for number in (1, 2, 3):
        await town.operations.rebuild(vm.uuid, Image("other"), caller(number))
        await town.work()
    assert await kept(town, vm) == [creation_of(vm)]
    assert [one.name for one in await town.ledger.actions(vm.uuid)] == ["rebuild"] * 3 + ["create"]


async def kept(town: Town, vm: Instance) -> list[object]:
    """Return the recorded create actions of an instance."""
    actions = await town.ledger.actions(vm.uuid)
    return [one for one in actions if one.request_id == vm.request_id]
