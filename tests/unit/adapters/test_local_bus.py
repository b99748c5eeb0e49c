"""The local bus: what it does beyond the port."""

import asyncio

import pytest

from berth.adapters.bus.local import LocalBus
from berth.domain.decision import Decision
from berth.domain.errors import UnavailableError
from berth.domain.instance import Instance
from berth.lab.kernel import run_virtually
from berth.ports.bus import Command
from berth.services.commands import PLACE, PlaceOrder
from berth.testing.builders import make_decision, make_instance, make_request
from tests.unit.services.wiring import Told

ECHO: Command[Instance, Instance] = Command("unit", "echo", Instance, Instance)


async def echo(instance: Instance) -> Instance:
    """Answer with what came."""
    return instance


async def break_down(instance: Instance) -> Instance:
    """Fail by a mistake."""
    raise ZeroDivisionError


async def break_down_later(instance: Instance) -> Instance:
    """Fail when nobody waits any more."""
    await asyncio.sleep(10)
    raise ZeroDivisionError


def test_what_is_carried_is_a_copy() -> None:
    """It was encoded and decoded, so that what works here works between two processes."""

    async def main() -> None:
        bus, sent = LocalBus(Told()), make_instance()
        bus.serve(ECHO, echo)
        came = await bus.call(ECHO, sent, timeout_s=1)
        assert came == sent
        assert came is not sent

    run_virtually(main)


def test_a_bus_that_does_not_encode_hands_over_what_it_gets() -> None:
    """Nothing is copied on the way there or back."""

    async def main() -> None:
        bus, sent = LocalBus(Told(), encodes=False), make_instance()
        bus.serve(ECHO, echo)
        assert await bus.call(ECHO, sent, timeout_s=1) is sent

    run_virtually(main)


def test_what_cannot_be_sent_is_found_here() -> None:
    """An argument that no codec knows fails at its sender."""

    async def main() -> None:
        bus = LocalBus(Told())
        anything: Command[object, Instance] = Command("unit", "any", object, Instance)

        async def answer(thing: object) -> Instance:
            return make_instance()

        bus.serve(anything, answer)
        with pytest.raises(TypeError):
            await bus.call(anything, object(), timeout_s=1)

    run_virtually(main)


def test_every_command_can_be_sent() -> None:
    """Orders and decisions come out as they went in."""

    async def main() -> None:
        bus, order = LocalBus(Told()), PlaceOrder(make_request(), (make_instance(),), accepted=True)
        came: list[PlaceOrder] = []

        async def place(order: PlaceOrder) -> Decision:
            came.append(order)
            return make_decision()

        bus.serve(PLACE, place)
        assert await bus.call(PLACE, order, timeout_s=1) == make_decision()
        assert came == [order]

    run_virtually(main)


def test_servers_take_turns() -> None:
    """The first asked is asked again when all others were."""

    async def main() -> None:
        bus, asked = LocalBus(Told()), list[int]()
        for number in range(3):

            async def serve(instance: Instance, number: int = number) -> Instance:
                asked.append(number)
                return instance

            bus.serve(ECHO, serve)
        for _ in range(6):
            await bus.call(ECHO, make_instance(), timeout_s=1)
        assert asked == [0, 1, 2, 0, 1, 2]

    run_virtually(main)


def test_a_mistake_is_told_with_its_cause() -> None:
    """The caller learns that it failed, the operator why."""

    async def main() -> None:
        told = Told()
        bus = LocalBus(told)
        bus.serve(ECHO, break_down)
        with pytest.raises(UnavailableError, match="unexpectedly"):
            await bus.call(ECHO, make_instance(), timeout_s=1)
        ((name, error),) = told.failures
        assert name == "command_failed"
        assert isinstance(error, ZeroDivisionError)

    run_virtually(main)


@pytest.mark.parametrize("way", ["timeout", "cancel", "fanout"])
def test_a_failure_that_nobody_waits_for_is_told(way: str) -> None:
    """After a timeout, a cancelled call, and a fanout; no task is left over."""

    async def main() -> None:
        told = Told()
        bus = LocalBus(told)
        bus.serve(ECHO, break_down_later)
        if way == "fanout":
            await bus.fanout(ECHO, make_instance())
        elif way == "timeout":
            with pytest.raises(UnavailableError, match="did not answer in 1 s"):
                await bus.call(ECHO, make_instance(), timeout_s=1)
        else:
            call = asyncio.create_task(bus.call(ECHO, make_instance(), timeout_s=60))
            await asyncio.sleep(1)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(20)
        assert told.failed == ["command_failed"]
        assert bus._tasks == set()

    run_virtually(main)
