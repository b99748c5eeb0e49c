"""Random sequences of requests, sent to both sides until their answers differ."""

from collections.abc import AsyncIterator, Sequence

from tests.differential.drawing import Draw
from tests.differential.placement.real import Real, Said, said_of
from tests.differential.placement_writes.comparing import Exchange
from tests.differential.placement_writes.excuses import unexcused
from tests.differential.placement_writes.kinds import audit, draw_step
from tests.differential.placement_writes.state import state_of
from tests.differential.placement_writes.steps import Sent, Step
from tests.unit.api.placement.world import World

STEPS = 100
"""The number of steps of a sequence, without the final ones that read all records."""
_ALL_SINCE = 28


class Both:
    """Berth and the real Placement, both emptied at the start."""

    def __init__(self, real: Real) -> None:
        real.empty()
        self._real = real
        self.world = World()

    async def send(self, step: Step) -> Exchange:
        """Send a request to both sides and return the exchange.

        Placement's consumers without allocations are deleted afterwards (see `test_leavings.py`).
        """
        sent = step.sent(await state_of(self.world))
        real = self._real.send(sent.method, sent.path, sent.headers, sent.content)
        if sent.method != "GET":
            self._real.sweep()
        return Exchange(sent, await send_berth(self.world, sent), real)


async def send_berth(world: World, sent: Sent) -> Said:
    """Return Berth's answer."""
    names = {"x-auth-token": None, **sent.headers}
    got = await world.service.ask(
        sent.method, sent.path, version=None, headers=names, content=sent.content
    )
    return said_of(got.status_code, got.text, got.headers)


async def run(
    real: Real, seed: int, number: int, steps: int = STEPS
) -> AsyncIterator[tuple[Step, Exchange]]:
    """Draw a sequence, send it and yield its exchanges until the two sides diverge."""
    draw, both = Draw(seed, number), Both(real)
    for _ in range(steps):
        step = draw_step(draw, await state_of(both.world))
        exchange = await both.send(step)
        yield step, exchange
        if exchange.diverges or unexcused(exchange):
            return
    for step in audit(await state_of(both.world), draw.count(_ALL_SINCE, 39)):
        yield step, await both.send(step)


async def replay(real: Real, steps: Sequence[Step]) -> Exchange | None:
    """Send a sequence again; return the first exchange with an unexcused difference, or None."""
    both = Both(real)
    for step in steps:
        exchange = await both.send(step)
        if unexcused(exchange):
            return exchange
        if exchange.diverges:
            return None
    return None


async def shortest(real: Real, steps: Sequence[Step]) -> list[Step]:
    """Return the sequence without the steps that a difference does not need."""
    kept, size = list(steps), len(steps) // 2
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if fewer and await replay(real, fewer) is not None:
                kept = fewer
            else:
                start += size
        size //= 2
    return kept
