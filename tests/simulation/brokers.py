"""The broker between the processes of a run, as each of them has it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from berth.adapters.bus.local import LocalBus
from berth.domain.errors import UnavailableError
from berth.ports.bus import Command
from tests.simulation.faults import Away

A = TypeVar("A")
R = TypeVar("R")

_CONFIRM_S: Final = 5.0


class Home(Protocol):
    """The process whose way to the broker it is."""

    def spawn(self, coro: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run something inside the process: it dies with it."""
        ...


class Brokered:
    """One process's way to the broker; see the port `Bus`.

    What is carried out for others goes on when they die, and ends when its own process does.

    Args:
        broker: which all processes share.
        home: the process.
        away: tells how the broker is away for this process.
    """

    def __init__(self, broker: LocalBus, home: Home, away: Callable[[], Away | None]) -> None:
        self._broker = broker
        self._home = home
        self._away = away
        self._stops: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """See `Bus.call`. What was carried out may be answered in vain."""
        await self._get_through()
        answer = await self._broker.call(command, args, timeout_s=timeout_s, server=server)
        await self._get_through()
        return answer

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """See `Bus.cast`."""
        await self._get_through()
        await self._broker.cast(command, args, timeout_s=timeout_s, server=server)

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """See `Bus.fanout`."""
        await self._get_through()
        await self._broker.fanout(command, args)

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """See `Bus.serve`. A server that is cut off is not called, as its queue is given up."""

        async def carried_out(args: A) -> R:
            return await handler(args)

        async def serving(args: A) -> R:
            await self._get_through()
            task = self._home.spawn(carried_out(args))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            await asyncio.wait((task,))
            if task.cancelled():
                raise UnavailableError("the server died")
            answer = task.result()
            await self._get_through()
            return answer

        stop = self._broker.serve(command, serving, server=server)
        self._stops.append(stop)
        return stop

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """See `Bus.serves`; silence is noticed late."""
        return self._away() is not Away.REFUSED

    def leave(self) -> None:
        """Serve nothing any more, as the process is dead."""
        for stop in self._stops:
            stop()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever has asked may have died meanwhile, and hears of no error.
            task.exception()

    async def _get_through(self) -> None:
        if self._away() is Away.SILENT:
            await asyncio.sleep(_CONFIRM_S)
            raise UnavailableError("the broker did not confirm")
        if self._away() is Away.REFUSED:
            raise UnavailableError("there is no connection to the broker")
