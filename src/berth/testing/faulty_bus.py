"""A bus that loses, delays, duplicates and reorders messages, reproducibly from a seed."""

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
    """Probabilities of faults, from 0 to 1, and the maximum delay of a message in seconds.

    Each message has its own random delay, so messages overtake each other.
    """

    lost: float = 0.0
    answer_lost: float = 0.0
    duplicated: float = 0.0
    delay_s: float = 0.0


class FaultyBus:
    """Wraps another bus and injects faults into its messages; see the port `Bus`.

    Args:
        bus: carries the messages that are not lost.
        faults: may be changed at any time.
        rng: decides which faults occur.
    """

    def __init__(self, bus: Bus, faults: Faults, rng: Random) -> None:
        self._bus = bus
        self._faults = faults
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """See `Bus.call`. A caller whose message or reply is lost waits for its timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                # The copy has its own delay, so it may arrive before or long after the original.
                if self._happens(self._faults.duplicated):
                    double = self._bus.call(command, args, timeout_s=timeout_s, server=server)
                    self._spawn(self._later(double))
                await self._travel()
                if self._happens(self._faults.lost):
                    await asyncio.Event().wait()
                reply = await self._bus.call(command, args, timeout_s=timeout_s, server=server)
                await self._travel()
                # A lost reply differs from a lost request: the command has been carried out.
                if self._happens(self._faults.answer_lost):
                    await asyncio.Event().wait()
                return reply
        except TimeoutError as error:
            raise UnavailableError(
                f"{command.topic}.{command.name}: no reply within {timeout_s:g} s"
            ) from error

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """See `Bus.cast`. The message may be lost, duplicated or overtaken by a later one."""
        for _ in range(self._copies()):
            sent = self._bus.cast(command, args, timeout_s=timeout_s, server=server)
            self._spawn(self._later(sent))

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """See `Bus.fanout`. Faults are injected as in `cast`."""
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
        return 2 if self._happens(self._faults.duplicated) else 1

    def _happens(self, share: float) -> bool:
        return self._rng.random() < share

    async def _travel(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, self._faults.delay_s))

    async def _later(self, sent: Coroutine[Any, Any, Any]) -> None:
        """Send a message after a delay, in the background."""
        try:
            await self._travel()
        except BaseException:
            # The task was cancelled. A coroutine that is never awaited warns unless it is closed.
            sent.close()
            raise
        try:
            await sent
        except BerthError:
            # No server was found, or its handler failed. The sender is no longer waiting.
            return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        # The event loop keeps only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
