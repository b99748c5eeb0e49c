"""A run of a scenario, from its first order to the check of its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from berth.adapters.ledger import MemoryLedger, Retention
from berth.domain.compute.migration import Stage
from berth.domain.ledger.write import Put
from berth.testing.virtual_time import VirtualClock, VirtualLoop
from tests.simulation.actors import be_client, be_fate, be_operator, be_sky
from tests.simulation.books import Books, BrokenLawError
from tests.simulation.end import check_end
from tests.simulation.movers import be_administrator, restore
from tests.simulation.owners import be_owner
from tests.simulation.processes import make_task
from tests.simulation.world import FLAVORS, GROUPS, Scenario, World

_QUIET_MAX_S = 900.0
_LOOKED_S = 60.0
"""Within this time agents check all their hosts once more."""


def run_scenario(scenario: Scenario, seed: int) -> World:
    """Run a scenario to its end and check every law on the way.

    Raises:
        BrokenLawError: a law was broken; the error is the first one.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_task_factory(make_task)
        try:
            return runner.run(_run(scenario, seed))
        except Exception as error:
            error.add_note(f"replay: python -m pytest tests/simulation --seed {seed}")
            raise


async def _run(scenario: Scenario, seed: int) -> World:
    clock = VirtualClock()
    retention = Retention(feed_versions=scenario.feed_versions)
    ledger = MemoryLedger(retention=retention, now_s=clock.now_s)
    world = World(scenario, Random(seed), ledger, Books())
    asyncio.get_running_loop().set_exception_handler(world.notice)
    await ledger.commit([(*map(Put, FLAVORS), *map(Put, GROUPS))])
    await world.line().audit()
    for role in world.roles():
        world.start(role)
    clients = [asyncio.create_task(be_client(world, n)) for n in range(scenario.clients)]
    clients += [asyncio.create_task(be_owner(world, n)) for n in range(scenario.owners)]
    async with _troubles(world):
        await _pass(world, scenario.trouble_s)
    for process in list(world.processes.values()):
        if process.line.is_cut:
            world.start(process.role)
    if scenario.moves:
        await restore(world)
    while not all(client.done() for client in clients):
        await _pass(world, 1.0)
    for client in clients:
        client.result()
    await _quieten(world)
    await check_end(world)
    for process in world.processes.values():
        await process.die()
    return world


@asynccontextmanager
async def _troubles(world: World) -> AsyncIterator[None]:
    """Cause the scenario's faults until the body ends."""
    tasks: list[asyncio.Task[None]] = []
    if world.scenario.operates:
        tasks.append(asyncio.create_task(be_operator(world)))
    if world.scenario.moves:
        tasks.append(asyncio.create_task(be_administrator(world)))
    if world.scenario.crash_s is not None:
        tasks.append(asyncio.create_task(be_fate(world, world.scenario.crash_s)))
    if world.scenario.outage_s is not None:
        tasks.append(asyncio.create_task(be_sky(world, world.scenario.outage_s)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        world.away.clear()
        world.cut_off.clear()
        world.scenario.weather.clear_up()


async def _pass(world: World, seconds: float) -> None:
    """Let virtual time pass; raise the first broken law."""
    end_s = world.clock.now_s() + seconds
    while world.clock.now_s() < end_s:
        await world.clock.sleep(min(1.0, seconds))
        if world.books.broken is not None:
            raise world.books.broken


async def _quieten(world: World) -> None:
    """Wait until no work is left, and agents have checked their hosts after the last change."""
    end_s = world.clock.now_s() + _QUIET_MAX_S
    looked_at = -1
    while (unrest := _unrest(world)) or looked_at != world.books.last_changed:
        if world.clock.now_s() > end_s:
            raise BrokenLawError(f"never done: {unrest}; {world.journal}")
        looked_at = -1 if unrest else world.books.last_changed
        await _pass(world, 1.0 if unrest else _LOOKED_S)


def _unrest(world: World) -> list[str]:
    books = world.books
    found = [f"{one.role.name} is down" for one in world.processes.values() if not one.is_up]
    found += [f"{one.role.name} works" for one in world.processes.values() if one.pool._in_progress]
    found += [f"{key} is pending" for key in books.pending]
    found += [
        f"{one.uuid} is {one.task} on {one.host}"
        for one in books.instances.values()
        if one.task is not None
    ]
    found += [f"{one}" for one in books.moves.values() if one.stage is not Stage.ARRIVED]
    return found
