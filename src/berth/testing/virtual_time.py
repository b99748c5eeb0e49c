"""Virtual time: an event loop whose clock jumps to the next thing that is to happen.

Nothing in it waits for real: a sleep of an hour takes as long as one of a microsecond, and two
runs with the same inputs take the same steps in the same order. So whatever runs on it must not
use threads, sockets or files that wait, and must draw its chance from seeds.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from berth.domain.errors import BerthError

T = TypeVar("T")

STARTED_AT_S = 1_700_000_000.0
"""Unix time when a virtual loop starts."""


class VirtualDeadlockError(BerthError):
    """Every task waits for another, and no timer is set: nothing would ever happen again."""


class _Jump(selectors.SelectSelector):
    """A selector that never waits: it moves the time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time pass that the loop is ready to wait; there is no input or output."""
        if timeout is None:
            raise VirtualDeadlockError("all tasks wait and no timer is set")
        if timeout > 0:
            self.elapsed_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, counted from 0."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # What is due within a microsecond is due: after a year a float has nothing finer, and
        # asyncio would ask for a time that never comes.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._jump.elapsed_s


class VirtualClock:
    """The time of the virtual loop that runs; see the port `Clock`."""

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        return STARTED_AT_S + asyncio.get_running_loop().time()

    def ticks_ns(self) -> int:
        """Return a monotonic count of nanoseconds."""
        return int(asyncio.get_running_loop().time() * 1e9)

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in virtual time.

    Raises:
        VirtualDeadlockError: it waits for something that cannot come.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
