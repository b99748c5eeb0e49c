"""The broker of a run, as each process reaches it."""

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
    """The process that uses a connection to the broker."""

    def spawn(self, coro: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run a coroutine inside the process, which cancels it when it dies."""
        ...


class Brokered:
    """One process's connection to the broker; see the port `Bus`.

    A command continues when its caller dies, and ends when the server's process does.

    Args:
        broker: the broker that all processes share.
        home: the process.
        away: returns how the broker is unavailable to this process, None if it is available.
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
        """See `Bus.call`. The answer to an executed command may be lost."""
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
        """See `Bus.serve`. Calls to a server that cannot reach the broker fail."""

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
        """See `Bus.serves`; a silent broker is not noticed."""
        return self._away() is not Away.REFUSED

    def leave(self) -> None:
        """Stop serving all commands, because the process is dead."""
        for stop in self._stops:
            stop()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller may have died, so the error is retrieved here to avoid a warning.
            task.exception()

    async def _get_through(self) -> None:
        if self._away() is Away.SILENT:
            await asyncio.sleep(_CONFIRM_S)
            raise UnavailableError("the broker did not confirm")
        if self._away() is Away.REFUSED:
            raise UnavailableError("there is no connection to the broker")
