"""Virtual time passes only while all tasks wait, and a deadlock is an error."""

import asyncio
import time

import pytest

from berth.testing.virtual_time import (
    STARTED_AT_S,
    VirtualClock,
    VirtualDeadlockError,
    run_virtually,
)


def test_a_year_passes_at_once() -> None:
    """Sleeping for a year moves the virtual clock by a year, within 5 real seconds."""

    async def main() -> tuple[float, int]:
        clock = VirtualClock()
        await clock.sleep(31_536_000)
        return clock.now_s(), clock.ticks_ns()

    began_s = time.monotonic()
    assert run_virtually(main) == (STARTED_AT_S + 31_536_000, 31_536_000_000_000_000)
    assert time.monotonic() - began_s < 5


def test_short_times_pass_however_late_it_is() -> None:
    """A sleep that is too short to change the clock's float ends, and is not a deadlock."""

    async def main() -> float:
        clock = VirtualClock()
        await clock.sleep(31_536_000.1)
        for _ in range(100):
            await clock.sleep(1e-9)
        return asyncio.get_running_loop().time()

    assert run_virtually(main) == pytest.approx(31_536_000.1)


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    """Sleepers wake by time, and those with the same time in the order in which they began."""

    async def main() -> list[str]:
        woken: list[str] = []

        async def sleep(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append(f"{name} {asyncio.get_running_loop().time():g}")

        await asyncio.gather(sleep("a", 2), sleep("b", 1), sleep("c", 2), sleep("d", 1.5))
        return woken

    assert run_virtually(main) == ["b 1", "d 1.5", "a 2", "c 2"]


def test_timeouts_are_virtual_too() -> None:
    """`asyncio.timeout` and `wait_for` end when their virtual time is over."""

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3600)
        return asyncio.get_running_loop().time()

    assert run_virtually(main) == 3660


def test_waiting_for_what_cannot_come_is_an_error() -> None:
    """Waiting for an event that no task can set raises VirtualDeadlockError."""

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(VirtualDeadlockError):
        run_virtually(main)
