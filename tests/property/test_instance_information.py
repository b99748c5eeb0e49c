"""Instance information: no list is trusted wrongly, whatever happens to messages and agents."""

import asyncio

import pytest

from berth.services.tracking.messages import FORMAT
from berth.testing.virtual_time import run_virtually
from tests.property.tracked_world import QUIET_S, World, open_world
from tests.unit.services.wiring import running

_STEPS = 120
_SEEDS = range(8)
_NEWER = FORMAT + 1


async def live(world: World) -> None:
    """Make random changes in a world."""
    rng = world.rng
    for _ in range(_STEPS):
        await asyncio.sleep(rng.choice((0, 0, 0.05, 1, 10)))
        what = rng.randrange(12)
        if what < 3:
            await world.place()
        elif what < 5:
            await world.place_elsewhere()
        elif what < 10:
            await world.change()
        elif what == 10:
            await world.restart(rng.choice((None, None, 0, FORMAT, FORMAT, _NEWER)))
        elif world.spoilt:
            world.spoil()


async def quiet(world: World) -> None:
    """Make the bus reliable, and wait until everything has settled."""
    world.faults.lost = world.faults.duplicated = world.faults.delay_s = 0.0
    await asyncio.sleep(QUIET_S)


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("by_casts", [False, True], ids=["feed", "casts"])
def test_no_list_is_trusted_that_is_known_to_be_wrong(seed: int, *, by_casts: bool) -> None:
    """Decisions use only up-to-date lists while messages are lost, duplicated, late or reordered.

    Agents change their version meanwhile. No decision uses a list that is older than its agent's
    last message, and in the end the table equals the ledger.
    """

    async def main() -> None:
        world = await open_world(seed, by_casts=by_casts)
        world.faults.lost, world.faults.duplicated, world.faults.delay_s = 0.3, 0.3, 8.0
        async with running(world.desk.follower.run, world.tracker.run):
            await live(world)
            await quiet(world)
            await world.assert_true()
            for agent in world.agents.values():
                await agent.stop()

    run_virtually(main)


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("by_casts", [False, True], ids=["feed", "casts"])
def test_a_table_that_loses_instances_gets_them_back(seed: int, *, by_casts: bool) -> None:
    """A table that lost instances differs in its digests and is reloaded from the ledger."""

    async def main() -> None:
        world = await open_world(seed, by_casts=by_casts)
        world.spoilt = True
        world.decision_service.audit = lambda _: None
        async with running(world.desk.follower.run, world.tracker.run):
            await live(world)
            for name, agent in world.agents.items():
                if agent.spoken != FORMAT:
                    await agent.stop()
                    await agent.start(FORMAT)
                assert name in world.names
            world.spoil()
            await quiet(world)
            await world.assert_true()
            assert "instances_reloaded" in world.desk.told.events
            for agent in world.agents.values():
                await agent.stop()

    run_virtually(main)
