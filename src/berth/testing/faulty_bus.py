"""A bus on which things go wrong, by a seed: messages are lost, late, doubled, out of order."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import Bus, Command

A = TypeVar("A")
R = TypeVar("R")


@dataclass(slots=True)
class Faults:
    """How often what goes wrong, 0 to 1 each, and the longest that a message is on its way.

    Messages that take different times overtake each other.
    """

    lost: float = 0.0
    answer_lost: float = 0.0
    doubled: float = 0.0
    delay_s: float = 0.0


class FaultyBus:
    """Stands before another bus; see the port `Bus`. What `serves` says stays true.

    Args:
        bus: what carries the messages that get there.
        faults: may be changed at any time.
        rng: chooses what goes wrong.
    """

    def __init__(self, bus: Bus, faults: Faults, rng: Random) -> None:
        self._bus = bus
        self._faults = faults
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """See `Bus.call`. Who is not answered waits until the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._happens(self._faults.doubled):
                    double = self._bus.call(command, args, timeout_s=timeout_s, server=server)
                    self._spawn(self._later(double))
                await self._travel()
                if self._happens(self._faults.lost):
                    await asyncio.Event().wait()
                reply = await self._bus.call(command, args, timeout_s=timeout_s, server=server)
                await self._travel()
                if self._happens(self._faults.answer_lost):
                    await asyncio.Event().wait()
                return reply
        except TimeoutError as error:
            raise UnavailableError(f"{command.topic}.{command.name} was lost") from error

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """See `Bus.cast`. It is sent later, so that one that is sent after it may come first."""
        for _ in range(self._copies()):
            sent = self._bus.cast(command, args, timeout_s=timeout_s, server=server)
            self._spawn(self._later(sent))

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """See `Bus.fanout`, and `cast`."""
        for _ in range(self._copies()):
            self._spawn(self._later(self._bus.fanout(command, args)))

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """See `Bus.serve`."""
        return self._bus.serve(command, handler, server=server)

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """See `Bus.serves`."""
        return self._bus.serves(command, server=server)

    def _copies(self) -> int:
        if self._happens(self._faults.lost):
            return 0
        return 2 if self._happens(self._faults.doubled) else 1

    def _happens(self, share: float) -> bool:
        return self._rng.random() < share

    async def _travel(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._faults.delay_s))

    async def _later(self, sent: Coroutine[Any, Any, Any]) -> None:
        """Have something sent that nobody waits for."""
        try:
            await self._travel()
        except BaseException:
            sent.close()
            raise
        try:
            await sent
        except BerthError:
            # It did not arrive, or its server refused: whoever sent it does not hear of it.
            return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
