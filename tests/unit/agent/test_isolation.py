"""Isolated hosts: guests that are paused, and continue only after the control plane was asked."""

import asyncio
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.isolation import Isolation
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.ports.gateway import HostGateway
from berth.ports.virt import Power
from berth.testing.builders import make_instance
from tests.unit.services.wiring import Desk, open_desk, running

PAUSE_S = 30.0


class Rig:
    """A host with active guests, whose control plane falls silent on request."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.driver = FakeDriver(FakeHost("host-1"), desk.clock)
        self.silent_s = 0.0
        self.isolation = self.restarted()

    def restarted(self) -> Isolation:
        """Return the isolation of a new run of the agent."""
        gateway: HostGateway = self.desk.gateway()
        parts = (self.driver, gateway, self.desk.clock, self.desk.told)
        return Isolation("host-1", *parts, silent_s=lambda: self.silent_s, pause_s=PAUSE_S)

    async def put(self, number: int) -> Instance:
        """Put an instance with a running guest on the host."""
        instance = make_instance(number, host="host-1")
        instance = replace(instance, status=Status.ACTIVE, task=None)
        await self.desk.ledger.write(Put(instance))
        await self.driver.spawn(instance)
        return instance

    async def powers(self) -> list[Power]:
        """Return the power states of the guests."""
        return [guest.power for guest in await self.driver.guests()]

    async def wait(self, silent_s: float, seconds: float = 3.0) -> None:
        """Let the agent work while the control plane is silent for so long."""
        self.silent_s = silent_s
        async with running(self.isolation.run):
            await asyncio.sleep(seconds)


async def test_guests_are_paused_while_the_control_plane_is_silent() -> None:
    """Guests run until the time is over, and continue when the control plane has been asked."""
    rig = Rig(await open_desk())
    await rig.put(1)
    await rig.wait(PAUSE_S, 60)
    assert await rig.powers() == [Power.RUNNING]
    await rig.wait(PAUSE_S + 1)
    assert await rig.powers() == [Power.PAUSED]
    await rig.wait(0)
    assert await rig.powers() == [Power.RUNNING]
    assert rig.desk.told.events == ["guests_paused", "guests_resumed"]


async def test_only_guests_that_are_still_here_continue() -> None:
    """Guests whose instance is elsewhere, is paused or has a task stay paused."""
    rig = Rig(await open_desk())
    for number in range(1, 5):
        await rig.put(number)
    await rig.wait(0, 60)
    await rig.wait(PAUSE_S + 1)
    changes: list[dict[str, object]] = [
        {"host": "host-2"},
        {"status": Status.PAUSED},
        {"task": Task.REBUILDING},
    ]
    for number, change in enumerate(changes, 1):
        found = await rig.desk.ledger.get(Instance, make_instance(number).uuid)
        assert found is not None
        await rig.desk.ledger.write(Put(replace(found, **change)))  # type: ignore[arg-type]
    await rig.wait(0)
    assert await rig.powers() == [*[Power.PAUSED] * 3, Power.RUNNING]


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.RESIZED, Status.RESCUED])
async def test_every_guest_that_should_run_continues(status: Status) -> None:
    """The guests of unconfirmed resizes and of rescued instances run like those of active ones."""
    rig = Rig(await open_desk())
    instance = await rig.put(1)
    found = await rig.desk.ledger.get(Instance, instance.uuid)
    assert found is not None
    await rig.desk.ledger.write(Put(replace(found, status=status)))
    await rig.wait(0, 60)
    await rig.wait(PAUSE_S + 1)
    assert await rig.powers() == [Power.PAUSED]
    await rig.wait(0)
    assert await rig.powers() == [Power.RUNNING]


async def test_an_agent_that_starts_waits_before_it_pauses_guests() -> None:
    """The time counts from the start of the agent, and guests of an earlier run continue."""
    rig = Rig(await open_desk())
    await rig.put(1)
    await rig.wait(float("inf"), PAUSE_S - 1)
    assert await rig.powers() == [Power.RUNNING]
    await rig.wait(float("inf"))
    assert await rig.powers() == [Power.PAUSED]
    rig.isolation = rig.restarted()
    await rig.wait(float("inf"), PAUSE_S - 1)
    assert await rig.powers() == [Power.PAUSED]
    await rig.wait(0)
    assert await rig.powers() == [Power.RUNNING]


async def test_a_control_plane_that_does_not_answer_keeps_guests_paused() -> None:
    """A failed question is reported and repeated."""
    rig = Rig(await open_desk())
    await rig.put(1)
    await rig.wait(0, 60)
    await rig.wait(PAUSE_S + 1)
    desk, answer = rig.desk, rig.desk.ledger.get

    async def away(noun: type[Instance], key: str) -> Instance:
        raise UnavailableError("the ledger is away")

    desk.ledger.get = away  # type: ignore[method-assign,assignment]
    await rig.wait(0)
    assert await rig.powers() == [Power.PAUSED]
    assert set(desk.told.failed) == {"isolation_failed"}
    desk.ledger.get = answer  # type: ignore[method-assign]
    await rig.wait(0)
    assert await rig.powers() == [Power.RUNNING]
