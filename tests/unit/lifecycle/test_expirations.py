"""Tests for resizes that are confirmed because their time has passed.

`test_soft_deletions` tests that soft-deleted instances are reclaimed.
"""

import asyncio

import pytest

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Stage
from berth.services.servers.expirations import Expirations, ExpirationTimes
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town
from tests.unit.services.wiring import running

WINDOW_S = 3_600.0


def expirations(town: Town, **times: float) -> Expirations:
    """Return the periodic work of one scheduler."""
    return Expirations(
        ledger=town.ledger,
        replica=town.desk.replica,
        operations=town.operations,
        instances=town.desk.instances,
        clock=town.desk.clock,
        telemetry=town.desk.told,
        times=ExpirationTimes(**times),
        service_down_time_s=lambda: DOWN_S,
    )


async def resized(town: Town) -> Instance:
    """Return an instance that waits for the confirmation of its resize."""
    await town.flavor()
    vm = await town.create()
    await town.operations.resize(vm.uuid, BIG, caller(1))
    await town.work()
    now = await town.get(vm.uuid)
    assert now.status is Status.RESIZED
    return now


@pytest.mark.parametrize("is_up", [True, False])
async def test_a_resize_is_confirmed_once_after_its_window(*, is_up: bool) -> None:
    """Two schedulers confirm it once, not before its time, although it is locked."""
    town = await open_town()
    vm = await resized(town)
    await town.operations.lock(vm.uuid, None, caller(2))
    both = [expirations(town, confirm_resize_s=WINDOW_S) for _ in range(2)]
    assert await both[0].confirm_resizes() == 0
    await asyncio.sleep(WINDOW_S)
    source = (await town.migration()).source.host
    if not is_up:
        await town.kill(source)
        both = [expirations(town, confirm_resize_s=WINDOW_S) for _ in range(2)]
    assert sum(await asyncio.gather(*(one.confirm_resizes() for one in both))) == 1
    await town.work()
    assert await both[1].confirm_resizes() == 0
    now = await town.get(vm.uuid)
    assert (now.status, now.flavor, now.migration_uuid) == (Status.ACTIVE, vm.flavor, None)
    wanted = Stage.CONFIRMED if is_up else Stage.LEFT_BEHIND
    assert (await town.migration()).stage is wanted
    confirmed = [one for one in await town.ledger.actions(vm.uuid) if one.name == "confirmResize"]
    assert [(one.project_id, one.user_id) for one in confirmed] == [(vm.project_id, "")]
    assert confirmed[0].request_id.startswith("req-")


async def test_the_periodic_work_confirms_soon_after_the_window() -> None:
    """The work is repeated at least ten times in a window, and not at all without one."""
    town = await open_town()
    vm = await resized(town)
    async with running(expirations(town, confirm_resize_s=WINDOW_S).run):
        await asyncio.sleep(WINDOW_S - 200.0)
        assert (await town.get(vm.uuid)).status is Status.RESIZED
        await asyncio.sleep(300.0)
        assert (await town.get(vm.uuid)).status is Status.ACTIVE
    await expirations(town).run()
    pauses = [ExpirationTimes(one).pause_s for one in (0.0, 5.0, 100.0, 1e6)]
    assert pauses == [None, 1.0, 10.0, 60.0]


async def test_what_is_being_reverted_is_not_confirmed() -> None:
    """A task in progress takes precedence."""
    town = await open_town()
    vm = await resized(town)
    await town.work(WINDOW_S)
    await town.operations.revert(vm.uuid, caller(3), service_down_time_s=DOWN_S)
    assert await expirations(town, confirm_resize_s=1.0).confirm_resizes() == 0
    await town.work()
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert (await town.migration()).stage is Stage.REVERTED
