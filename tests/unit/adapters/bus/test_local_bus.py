"""The behaviour of the local bus beyond the contract of the port."""

import asyncio

import pytest

from berth.adapters.bus.local import LocalBus, _wait_for
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.errors import UnavailableError
from berth.ports.bus import Command
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.testing.builders import make_decision, make_instance, make_request
from berth.testing.virtual_time import VirtualLoop, run_virtually
from tests.unit.services.wiring import Told

ECHO: Command[Instance, Instance] = Command("unit", "echo", Instance, Instance)


async def echo(instance: Instance) -> Instance:
    """Return the argument."""
    return instance


async def break_down(instance: Instance) -> Instance:
    """Raise an unexpected error."""
    raise ZeroDivisionError


async def break_down_later(instance: Instance) -> Instance:
    """Raise an unexpected error after the caller has stopped waiting."""
    await asyncio.sleep(10)
    raise ZeroDivisionError


def test_what_is_carried_is_a_copy() -> None:
    """Arguments and replies are encoded and decoded, as between two processes."""

    async def main() -> None:
        bus, sent = LocalBus(Told()), make_instance()
        bus.serve(ECHO, echo)
        came = await bus.call(ECHO, sent, timeout_s=1)
        assert came == sent
        assert came is not sent

    run_virtually(main)


def test_a_bus_that_does_not_encode_hands_over_what_it_gets() -> None:
    """With `encodes=False`, the bus copies neither the argument nor the reply."""

    async def main() -> None:
        bus, sent = LocalBus(Told(), encodes=False), make_instance()
        bus.serve(ECHO, echo)
        assert await bus.call(ECHO, sent, timeout_s=1) is sent

    run_virtually(main)


def test_what_cannot_be_sent_is_found_here() -> None:
    """An argument that cannot be encoded raises a TypeError in the sender."""

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
    """A place order and its decision arrive unchanged."""

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
    """Calls go to the servers of a command in rotation."""

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
    """The caller learns that the command failed, and the telemetry gets the cause."""

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
    """A failure after a timeout, a cancelled call or a fanout is reported, and no task remains."""

    async def main() -> None:
        told = Told()
        bus = LocalBus(told)
        bus.serve(ECHO, break_down_later)
        if way == "fanout":
            await bus.fanout(ECHO, make_instance())
        elif way == "timeout":
            with pytest.raises(UnavailableError, match="did not answer within 1 s"):
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


# --- waiting for one task ---------------------------------------------------------------------


async def finish_after(seconds: float) -> str:
    """Return after this many seconds of virtual time."""
    await asyncio.sleep(seconds)
    return "done"


def elapsed_s() -> float:
    """Return the virtual time since the start."""
    return asyncio.get_running_loop().time()


def left_behind(task: asyncio.Task[str]) -> list[object]:
    """Return the callbacks of a task and the pending timers of the loop."""
    timers: list[asyncio.TimerHandle] = getattr(asyncio.get_running_loop(), "_scheduled", [])
    callbacks: list[object] = getattr(task, "_callbacks", None) or []
    return [*callbacks, *(timer for timer in timers if not timer.cancelled())]


def test_waiting_ends_with_the_task() -> None:
    """The wait ends when the task does, with the result available and no timer left."""

    async def main() -> None:
        task = asyncio.create_task(finish_after(2))
        await _wait_for(task, 60)
        assert (elapsed_s(), task.done()) == (2, True)
        assert task.result() == "done"
        assert left_behind(task) == []

    run_virtually(main)


def test_who_waits_for_a_task_that_is_done_goes_on_at_once() -> None:
    """Waiting for a finished task takes no time and leaves no timer."""

    async def main() -> None:
        task = asyncio.create_task(finish_after(2))
        await task
        await _wait_for(task, 60)
        assert elapsed_s() == 2
        assert left_behind(task) == []

    run_virtually(main)


def test_waiting_ends_with_the_time_and_the_task_goes_on() -> None:
    """A wait that times out leaves no callback, and the task finishes at its own time."""

    async def main() -> None:
        task = asyncio.create_task(finish_after(5))
        await asyncio.sleep(0)  # lets the task set its own timer
        mine = left_behind(task)
        await _wait_for(task, 3)
        assert (elapsed_s(), task.done()) == (3, False)
        assert left_behind(task) == mine
        assert await task == "done"
        assert elapsed_s() == 5

    run_virtually(main)


def test_a_task_may_end_with_the_time() -> None:
    """A task that ends in the same loop iteration as the timeout causes no error."""

    async def hang() -> str:
        """Advance the clock past the timeout, so that the timer and the task are due together."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop._jump.elapsed_s += 10
        return "done"

    async def main() -> None:
        loop, trouble = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, context: trouble.append(context))
        task = asyncio.create_task(hang())
        await _wait_for(task, 3)
        assert task.result() == "done"
        await asyncio.sleep(1)
        assert trouble == []

    run_virtually(main)


def test_who_stops_waiting_stops_nothing_else() -> None:
    """A cancelled wait leaves no callback on the task and does not cancel it."""

    async def main() -> None:
        task = asyncio.create_task(finish_after(5))
        await asyncio.sleep(0)
        mine = left_behind(task)
        waiting = asyncio.create_task(_wait_for(task, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert left_behind(task) == mine
        assert await task == "done"

    run_virtually(main)


def test_what_a_task_raises_is_not_raised_where_it_is_waited_for() -> None:
    """An error or a cancellation of the task stays in the task and is not raised by the wait."""

    async def main() -> None:
        failing = asyncio.create_task(break_down(make_instance()))
        stopped = asyncio.create_task(finish_after(5))
        asyncio.get_running_loop().call_later(1, stopped.cancel)
        await _wait_for(failing, 60)
        await _wait_for(stopped, 60)
        assert isinstance(failing.exception(), ZeroDivisionError)
        assert (elapsed_s(), stopped.cancelled()) == (1, True)

    run_virtually(main)
