"""What the bus costs a scheduler of 10,000 hosts."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from berth.adapters.bus.rabbitmq import Broker
from berth.ports.bus import Bus, Command
from tests.rabbit import riding
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq

_HOSTS = 10_000
_MESSAGES = 2_000
_IN_FLIGHT = 32
_HALF_A_CORE_US = 500
"""Of CPU for what 1,000 beats and 1,000 casts a second may cost: one of each in a millisecond."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What an agent tells of its host."""

    host: str
    at_s: float
    instances_hash: str = "0" * 64


BEAT: Command[Beat, Beat] = Command("agent", "beat", Beat, Beat)


async def send(bus: Bus, numbers: Iterator[int]) -> None:
    """Tell hosts here and there of a beat."""
    for number in numbers:
        host = f"host-{number * (_HOSTS // _MESSAGES)}"
        await bus.cast(BEAT, Beat(host, 0.0), timeout_s=60, server=host)


async def test_ten_thousand_agents_cost_less_than_half_a_core(broker: Broker) -> None:
    """One process has both ends here, so each message costs it what a beat and a cast cost."""
    came = 0

    async def take(beat: Beat) -> Beat:
        nonlocal came
        came += 1
        return beat

    costs_us: list[float] = []
    async with riding(broker, Told()) as bus:
        for number in range(_HOSTS):
            bus.serve(BEAT, take, server=f"host-{number}")
        await bus.catch_up()
        for _ in range(3):
            came, begun_s = 0, time.process_time()
            numbers = iter(range(_MESSAGES))
            async with asyncio.timeout(100):
                await asyncio.gather(*(send(bus, numbers) for _ in range(_IN_FLIGHT)))
                while came < _MESSAGES:  # noqa: ASYNC110 - what comes sets no event
                    await asyncio.sleep(0.01)
            costs_us.append((time.process_time() - begun_s) * 1e6 / _MESSAGES)
    assert min(costs_us) < _HALF_A_CORE_US, costs_us
