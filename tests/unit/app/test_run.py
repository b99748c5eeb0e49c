"""Supervision: a loop that fails is started again after a pause."""

import asyncio
from itertools import pairwise
from random import Random

from berth.app.run import supervise
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told


class Loop:
    """A loop that fails or ends after some time and records its starts."""

    def __init__(self, *, lasts_s: float = 0.0, fails: bool = True) -> None:
        self.started_at_s: list[float] = []
        self.told = Told()
        self._lasts_s = lasts_s
        self._fails = fails

    async def __call__(self) -> None:
        """Record the start, run for some time, and then fail or return."""
        self.started_at_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._lasts_s)
        if self._fails:
            raise RuntimeError("no")

    async def supervised(self, seconds: float) -> list[float]:
        """Supervise the loop for a while and return the times between its starts."""
        task = asyncio.create_task(
            supervise("loop", self, clock=VirtualClock(), telemetry=self.told, rng=Random(1))
        )
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        times = self.started_at_s
        return [after - before for before, after in pairwise(times)]


async def test_pauses_grow_up_to_a_bound() -> None:
    """The pauses of a loop that fails immediately grow up to 15 seconds."""
    loop = Loop()
    pauses = await loop.supervised(300.0)
    assert 0.05 <= pauses[0] <= 0.15
    assert max(pauses) <= 15.0
    assert min(pauses[-5:]) >= 5.0
    assert set(loop.told.failed) == {"loop_failed"}


async def test_a_loop_that_ran_well_is_started_soon() -> None:
    """A failure after a long run does not lengthen the pause."""
    pauses = await Loop(lasts_s=40.0).supervised(1000.0)
    assert max(pauses) - 40.0 <= 0.3


async def test_a_loop_that_ends_is_started_again() -> None:
    """A loop that ends is started again and is reported, but not as a failure."""
    loop = Loop(fails=False)
    await loop.supervised(10.0)
    assert len(loop.started_at_s) > 2
    assert (loop.told.failed, set(loop.told.events)) == ([], {"loop_ended"})
