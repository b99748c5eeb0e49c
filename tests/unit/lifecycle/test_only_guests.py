"""Tests that no sequence of interruptions destroys the only guest of an instance."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError, DriverError, UnavailableError
from berth.domain.ledger.write import Unit
from berth.services.servers.moves import MoveTarget
from berth.testing.builders import make_request
from tests.unit.lifecycle.town import DOWN_S, Town, caller, open_town

DATA = "data"


def slow(verb: str) -> list[FakeHost]:
    """Return three hosts that take ten seconds for one verb."""
    return [FakeHost(f"host-{n}", faults=DriverFaults(delay_s={verb: 10.0})) for n in (1, 2, 3)]


async def filled(town: Town) -> Instance:
    """Create an instance with data on its disk."""
    vm = await town.create()
    assert vm.host is not None
    town.machines[vm.host].guests[vm.uuid].disk = DATA
    return vm


def disks(town: Town) -> list[str]:
    """Return the disk contents of all guests."""
    return [guest.disk for one in town.machines.values() for guest in one.guests.values()]


def when(town: Town, stage: Stage, then: Callable[[], Awaitable[None]]) -> None:
    """Await `then` before the first commit by which a move reaches a stage."""

    async def between(units: object) -> None:
        assert isinstance(units, list | tuple)
        if any(_stage_of(unit) is stage for unit in units):
            town.ledger.before_commit = None
            await then()

    town.ledger.before_commit = between


def _stage_of(unit: Unit) -> Stage | None:
    records = (getattr(write, "record", None) for write in unit)
    return next((one.stage for one in records if isinstance(one, Migration)), None)


async def fail() -> None:
    """Raise the error of an unreachable ledger."""
    raise UnavailableError("away")


async def test_an_evacuation_is_of_the_host_that_is_down() -> None:
    """An evacuation that is written after the instance left the dead host is refused."""
    town = await open_town(FakeHost("host-2", spawn_s=5.0), FakeHost("host-3", spawn_s=5.0))
    vm = await town.create(replace(make_request(1), force_hosts=("host-1",)))
    await town.kill("host-1")
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(2), service_down_time_s=DOWN_S)
    refused: list[ConflictError] = []

    async def again() -> None:
        get: Any = town.ledger.get
        read = 0

        async def slowly(noun: type, key: str) -> object:
            nonlocal read
            found = await get(noun, key)
            if noun is Service and not read:
                read += 1
                await town.desk.clock.sleep(30.0)  # the first one comes to its end meanwhile
            return found

        town.operations._ledger = _Slow(town.ledger, slowly)  # type: ignore[assignment]
        try:
            await town.operations.evacuate(
                vm.uuid, MoveTarget(), caller(3), service_down_time_s=DOWN_S
            )
        except ConflictError as error:
            refused.append(error)
        finally:
            town.operations._ledger = town.ledger

    second = asyncio.ensure_future(again())
    await town.work(20)
    now = await town.get(vm.uuid)
    assert now.status is Status.ACTIVE
    assert now.host is not None
    town.machines[now.host].guests[vm.uuid].disk = DATA
    await town.work(100)
    await second
    assert [str(one) for one in refused if "no longer on host-1" in str(one)], refused
    assert (await town.get(vm.uuid)).host == now.host
    assert town.machines[now.host].guests[vm.uuid].disk == DATA


class _Slow:
    """A ledger whose `get` is replaced."""

    def __init__(self, ledger: object, get: object) -> None:
        self._ledger = ledger
        self.get = get

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.ERROR])
async def test_a_state_that_is_reset_while_its_guest_goes_back(status: Status) -> None:
    """A state reset during a revert keeps the guest at the source."""
    town = await open_town(*slow("destroy"))
    vm = await filled(town)
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(2))
    await town.work(60)
    await town.operations.revert(vm.uuid, caller(3), service_down_time_s=DOWN_S)
    await town.work(5)
    assert (await town.migration()).stage is Stage.RETURNING
    await town.operations.reset_state(vm.uuid, status, caller(4))
    await town.work(200)
    now = await town.get(vm.uuid)
    assert (now.host, now.status in {status, Status.SHUTOFF}) == (vm.host, True)
    assert disks(town) == [DATA]
    assert await town.used() == {vm.host: 1}
    assert await town.held() == 1


async def test_a_state_that_is_reset_when_the_agent_has_died_over_that() -> None:
    """A state reset after the destination's agent died keeps the guest at the source.

    The agent had destroyed the destination's guest without recording it.
    """
    town = await open_town()
    vm = await filled(town)
    await town.operations.migrate(vm.uuid, MoveTarget(), caller(2))
    await town.work(60)
    there = (await town.get(vm.uuid)).host
    assert there is not None
    await town.operations.revert(vm.uuid, caller(3), service_down_time_s=DOWN_S)
    when(town, Stage.RESTORING, fail)
    await town.work(0.5)
    town.ledger.before_commit = None
    await town.kill(there)
    await town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(5))
    await town.restart(town.fakes)
    await town.work(100)
    assert (await town.get(vm.uuid)).host == vm.host
    assert disks(town) == [DATA]


async def test_a_state_that_is_reset_while_a_guest_is_handed_over() -> None:
    """A state reset is refused while a guest is being handed over."""
    town = await open_town(*slow("hand_over"))
    vm = await filled(town)
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(2))
    refused: list[ConflictError] = []

    async def reset() -> None:
        try:
            await town.operations.reset_state(vm.uuid, Status.ACTIVE, caller(4))
        except ConflictError as error:
            refused.append(error)

    when(town, Stage.COMPLETED, reset)
    await town.work(200)
    assert len(refused) == 1
    assert "being handed over" in str(refused[0])
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
    assert disks(town) == [DATA]


async def test_an_evacuation_of_what_had_left_already() -> None:
    """An evacuation is refused after the guest left the dead host.

    The source's agent died before it recorded this, so the destination's agent is asked.
    """
    town = await open_town(*slow("hand_over"))
    vm = await filled(town)
    assert vm.host is not None
    await town.operations.live_migrate(vm.uuid, MoveTarget(), caller(2))

    async def between(units: object) -> None:
        assert isinstance(units, list | tuple)
        if any(_stage_of(unit) is Stage.COMPLETED for unit in units):
            await fail()

    town.ledger.before_commit = between
    await town.work(11.5)
    town.ledger.before_commit = None
    await town.kill(vm.host)
    with pytest.raises(ConflictError, match=r"now checks|no longer on"):
        await town.operations.evacuate(vm.uuid, MoveTarget(), caller(4), service_down_time_s=DOWN_S)
    await town.work(200)
    now = await town.get(vm.uuid)
    assert (now.status, now.host != vm.host) == (Status.ACTIVE, True)
    assert disks(town) == [DATA]


async def test_what_is_stored_is_of_this_shelve() -> None:
    """A shelve stores the disks anew although disks of an earlier shelve remain."""
    town = await open_town()
    vm = await filled(town)
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(2))
    await town.work()
    broken = {"drop_stored"}
    for driver in town.drivers.values():
        _break(driver, broken)
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(3))
    await town.work(20)
    now = await town.get(vm.uuid)
    assert (now.status, now.disks is not None) == (Status.ACTIVE, True)
    assert now.host is not None
    town.machines[now.host].guests[vm.uuid].disk = "later"
    broken.add("store_disks")
    await town.operations.begin(vm.uuid, lifecycle.SHELVE, caller(4))
    await town.work(20)
    assert (await town.get(vm.uuid)).status is Status.SHELVED
    broken.clear()
    await town.operations.begin(vm.uuid, lifecycle.SHELVE_OFFLOAD, caller(5))
    await town.work(20)
    assert disks(town) == []
    await town.operations.unshelve(vm.uuid, MoveTarget(), caller(6))
    await town.work(20)
    assert disks(town) == ["later"]


def _break(driver: object, broken: set[str]) -> None:
    act = driver._act  # type: ignore[attr-defined]

    async def failing(name: str, *, delays: bool = True) -> None:
        if name in broken:
            raise DriverError(f"{name} fails")
        await act(name, delays=delays)

    driver._act = failing  # type: ignore[attr-defined]


async def test_a_move_that_is_given_up_between_two_reads() -> None:
    """A move that is replaced between two reads of an agent causes no failure."""
    town = await open_town(FakeHost("host-2", spawn_s=5.0), FakeHost("host-3", spawn_s=5.0))
    vm = await town.create(replace(make_request(1), force_hosts=("host-1",)))
    await town.kill("host-1")
    await town.operations.evacuate(vm.uuid, MoveTarget(), caller(2), service_down_time_s=DOWN_S)
    get: Any = town.ledger.get
    hits = 0

    async def torn(noun: type, key: str) -> object:
        nonlocal hits
        if noun is Migration and not hits:
            one = await get(noun, key)
            if isinstance(one, Migration) and one.stage is Stage.ARRIVING:
                hits += 1
                await town.operations.evacuate(
                    vm.uuid, MoveTarget(), caller(3), service_down_time_s=DOWN_S
                )
        return await get(noun, key)

    town.ledger.get = torn  # type: ignore[method-assign,assignment]
    await town.work(120)
    assert hits == 1
    assert town.desk.told.failed == []
    assert (await town.get(vm.uuid)).status is Status.ACTIVE
