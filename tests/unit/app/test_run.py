"""Supervising: a loop that fails is started again, neither at once nor never."""

import asyncio
from itertools import pairwise
from random import Random

from berth.app.run import supervise
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told


class Loop:
    """A loop that fails, or ends, after some time; it notes when it was started."""

    def __init__(self, *, lasts_s: float = 0.0, fails: bool = True) -> None:
        self.started_at_s: list[float] = []
        self.told = Told()
        self._lasts_s = lasts_s
        self._fails = fails

    async def __call__(self) -> None:
        """Run once."""
        self.started_at_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._lasts_s)
        if self._fails:
            raise RuntimeError("no")

    async def supervised(self, seconds: float) -> list[float]:
        """Supervise for a while; return the pauses between the starts."""
        task = asyncio.create_task(
            supervise("loop", self, clock=VirtualClock(), telemetry=self.told, rng=Random(1))
        )
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        times = self.started_at_s
        return [after - before for before, after in pairwise(times)]


async def test_pauses_grow_up_to_a_bound() -> None:
    """A loop that fails at once costs little; one that may come back is not forgotten."""
    loop = Loop()
    pauses = await loop.supervised(300.0)
    assert 0.05 <= pauses[0] <= 0.15
    assert max(pauses) <= 15.0
    assert min(pauses[-5:]) >= 5.0
    assert set(loop.told.failed) == {"loop_failed"}


async def test_a_loop_that_ran_well_is_started_soon() -> None:
    """A failure after a calm time is not held against it."""
    pauses = await Loop(lasts_s=40.0).supervised(1000.0)
    assert max(pauses) - 40.0 <= 0.3


async def test_a_loop_that_ends_is_started_again() -> None:
    """Loops are for ever; an end is told, not as a failure."""
    loop = Loop(fails=False)
    await loop.supervised(10.0)
    assert len(loop.started_at_s) > 2
    assert (loop.told.failed, set(loop.told.events)) == ([], {"loop_ended"})
