"""Outages of the ledger that last longer than the time after which silent hosts are down."""

import asyncio
from random import Random

import pytest

from berth.adapters.ledger import MemoryLedger
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Caller
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.write import Put
from berth.services.servers.instances import CreateOrder
from berth.services.servers.moves import MoveTarget
from berth.testing.virtual_time import VirtualClock, VirtualLoop
from tests.simulation.books import Books
from tests.simulation.faults import Away, Weather
from tests.simulation.processes import Process, make_task
from tests.simulation.world import FLAVORS, Scenario, World

SEEDS = 9
_OUTAGES = 9
_DOWN_S = 60.0


async def _open(seed: int) -> World:
    """Return a world of processes whose hosts have reported for a while."""
    rng = Random(f"silence/{seed}")
    agents, schedulers = rng.randint(1, 3), rng.randint(1, 2)
    scenario = Scenario(Weather(delay_s=0.01), agents=agents, schedulers=schedulers)
    world = World(scenario, rng, MemoryLedger(now_s=VirtualClock().now_s), Books())
    asyncio.get_running_loop().set_exception_handler(world.notice)
    await world.ledger.commit([tuple(map(Put, FLAVORS))])
    await world.line().audit()
    for role in world.roles():
        world.start(role)
    await world.clock.sleep(100)
    return world


async def _create(world: World, name: str) -> str:
    """Create a server as soon as any process answers, and return its uuid."""
    order = CreateOrder(f"req-{name}", name, "small", "web", "alice", may_repeat=True)

    async def ask(process: Process, _: bool) -> str:
        return (await process.instances.create(order)).instances[0].uuid

    return await world.insist(ask)


async def _evacuate(world: World, uuid: str) -> None:
    """Have a server evacuated as soon as any process answers."""

    async def ask(process: Process, _: bool) -> None:
        caller = Caller("req-evacuate", "web", "admin", is_admin=True)
        await process.operations.evacuate(uuid, MoveTarget(), caller, service_down_time_s=_DOWN_S)

    await world.insist(ask)


async def _endure(seed: int) -> None:
    world = await _open(seed)
    kept = await _create(world, "kept")
    await world.clock.sleep(30)
    for number in range(_OUTAGES):
        way = world.rng.choice([*Away])
        world.away.update(dict.fromkeys(world.processes, way))
        await world.clock.sleep(_DOWN_S + world.rng.uniform(20, 200))
        world.away.clear()
        created = await _create(world, f"new-{number}")
        with pytest.raises(InvalidInputError, match="still in use"):
            await _evacuate(world, kept)
        await world.clock.sleep(world.rng.uniform(60, 100))
        for uuid in (kept, created):
            instance = await world.ledger.get(Instance, uuid)
            assert instance is not None
            assert (instance.status, instance.fault) == (Status.ACTIVE, None)
    assert world.books.broken is None
    for process in world.processes.values():
        await process.die()


def test_no_living_host_is_down_after_nine_outages(seed: int) -> None:
    """Each create succeeds, and no evacuation of a living host is accepted.

    Before, nine of nine such outages had creates end in ERROR, and evacuations accepted.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_task_factory(make_task)
        runner.run(_endure(seed))
