"""An event loop in virtual time, whose clock jumps to the next timer.

A sleep of an hour takes as little real time as a sleep of a microsecond, and two runs with equal
inputs take the same steps in the same order. Code on this loop must not use threads or blocking
sockets and files, and must draw randomness from seeds.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from berth.domain.errors import BerthError

T = TypeVar("T")

STARTED_AT_S = 1_700_000_000.0
"""The Unix time at which a virtual loop starts."""


class VirtualDeadlockError(BerthError):
    """All tasks wait and no timer is set, so no task would ever run again."""


class _Jump(selectors.SelectSelector):
    """A selector that advances the virtual time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Advance the time by the timeout, and return no ready files.

        Raises:
            VirtualDeadlockError: the timeout is None.
        """
        # The event loop passes None if it has no timer. A selector would then block forever,
        # whereas a test should fail.
        if timeout is None:
            raise VirtualDeadlockError("all tasks wait and no timer is set, so none can ever run")
        if timeout > 0:
            self.elapsed_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, counted from 0."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # Timers within a microsecond are due. After a virtual year, adjacent floats are further
        # apart than asyncio's default resolution of 1 ns, and the loop could wait for a time that
        # is never reached.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._jump.elapsed_s


class VirtualClock:
    """The time of the running virtual loop; implements the port `Clock`."""

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        return STARTED_AT_S + asyncio.get_running_loop().time()

    def ticks_ns(self) -> int:
        """Return a monotonic count of nanoseconds."""
        return int(asyncio.get_running_loop().time() * 1e9)

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of virtual seconds."""
        await asyncio.sleep(seconds)


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in virtual time, and return its result.

    Raises:
        VirtualDeadlockError: the coroutine waits for an event that cannot happen.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
