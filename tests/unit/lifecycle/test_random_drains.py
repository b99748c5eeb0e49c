"""Drains of random fleets with groups, faults and schedulers that die, watched from outside."""

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass
from typing import Final

import pytest

from berth.adapters.virt.fake import FakeHost
from berth.adapters.virt.fake.host import DriverFaults
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance
from berth.domain.compute.maintenance import DrainMode, DrainState, MoveState
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.write import Put
from berth.ports.ledger import InstanceQuery, MigrationQuery
from berth.services.maintenance.maintenances import DrainOrder
from tests.unit.lifecycle.town import Town, caller, open_town
from tests.unit.lifecycle.upkeep import HOST, Upkeep, create_on
from tests.unit.services.wiring import running

_SEEDS: Final = range(int(os.environ.get("BERTH_DRAINS", "8")))
_GROUPS: Final = (
    ServerGroup("apart", "apart", GroupPolicy.ANTI_AFFINITY, "project-1"),
    ServerGroup("pairs", "pairs", GroupPolicy.ANTI_AFFINITY, "project-1", max_server_per_host=2),
    ServerGroup("together", "together", GroupPolicy.AFFINITY, "project-1"),
    ServerGroup("near", "near", GroupPolicy.SOFT_AFFINITY, "project-1"),
)
_ENDS: Final = frozenset({DrainState.DRAINED, DrainState.INCOMPLETE})


@dataclass(slots=True)
class Auditor:
    """Checks the ledger of a town again and again, without the code that decides.

    Attributes:
        town: the town.
        parallel: the largest number of servers that may move at once.
        checks: the number of checks so far.
    """

    town: Town
    parallel: int
    checks: int = 0

    async def run(self) -> None:
        """Check twice a second; this never returns."""
        while True:
            await self.check()
            await asyncio.sleep(0.5)

    async def check(self) -> None:
        """Check groups, capacities and the number of moves."""
        instances = await self.town.ledger.instances(InstanceQuery())
        live = await self.town.ledger.migrations(MigrationQuery(is_live=True))
        # A member that moves counts on both hosts.
        places = {(one.uuid, one.host) for one in instances if one.host is not None}
        places |= {(one.instance_uuid, one.destination.host) for one in live}
        groups = {one.uuid: one.group_uuid for one in instances}
        for group in _GROUPS[:2]:
            hosts = Counter(host for uuid, host in places if groups[uuid] == group.uuid)
            assert max(hosts.values(), default=0) <= group.max_server_per_host, (group, hosts)
        together = [uuid for uuid, _ in places if groups[uuid] == "together"]
        hosts = Counter(host for uuid, host in places if groups[uuid] == "together")
        assert len(set(together)) < 2 or len(hosts) < 2, hosts
        for provider in await self.town.ledger.all(Provider):
            for name, used in provider.used.items():
                assert used <= provider.inventories[name].capacity, (provider.name, name)
        busy = [one for one in instances if one.task is not None or one.migration_uuid is not None]
        assert len(busy) <= self.parallel
        self.checks += 1


async def fill(town: Town, draw: random.Random) -> list[Instance]:
    """Create servers on random hosts, as far as the rules permit, with random states."""
    await town.ledger.write(*map(Put, _GROUPS))
    made: list[Instance] = []
    for number in range(1, draw.randint(4, 14)):
        host = HOST if draw.random() < 0.5 else draw.choice(sorted(town.fakes))
        group = draw.choice([None, None, *(one.uuid for one in _GROUPS)])
        try:
            vm = await create_on(town, number, host, group=group, vcpus=draw.randint(1, 4))
        except AssertionError:
            continue  # the group or the host has no room for it
        made.append(vm)
        step = draw.choice([None, None, lifecycle.STOP, lifecycle.PAUSE, lifecycle.SUSPEND])
        if step is not None:
            await town.operations.begin(vm.uuid, step, caller(number))
        if draw.random() < 0.1:
            await town.operations.lock(vm.uuid, None, caller(100 + number))
    await town.work()
    for instance in await town.ledger.instances(InstanceQuery()):
        if instance.host is None:
            await town.desk.instances.delete(instance.uuid, caller(900), service_down_time_s=60.0)
    return made


@pytest.mark.parametrize("seed", _SEEDS)
async def test_a_drain_ends_and_keeps_all_rules(seed: int) -> None:
    """It ends with an empty host, or with a reason for each server that is left."""
    draw = random.Random(seed)
    share = {verb: draw.choice([0.0, 0.0, 0.4]) for verb in ("take_in", "hand_over", "spawn")}
    hosts = draw.randint(2, 5)
    town = await open_town(hosts=hosts, vcpus=draw.choice([6, 10, 16]))
    await fill(town, draw)
    faults = DriverFaults(delay_s={"hand_over": 2.0, "stop": 1.0}, share=share, seed=seed)
    await town.restart({name: FakeHost(name, faults=faults) for name in town.fakes})
    order = DrainOrder(
        mode=draw.choice(list(DrainMode)),
        parallel=draw.randint(1, 4),
        moves_locked=draw.random() < 0.5,
        deadline_s=draw.choice([None, None, town.desk.clock.now_s() + 200.0]),
    )
    upkeep = Upkeep(town, "first", "second")
    await upkeep.drain(order)
    auditor = Auditor(town, order.parallel)
    async with running(auditor.run):
        await upkeep.work(draw.uniform(1.0, 20.0))
        # Both schedulers die, and another one takes over after the lease.
        upkeep = Upkeep(town, "third")
        await upkeep.work(900.0)
    assert auditor.checks > 1_000
    drain = await upkeep.done()
    assert drain.state in _ENDS, drain
    left = {one.uuid for one in await town.ledger.instances(InstanceQuery(host=HOST))}
    assert (drain.state is DrainState.DRAINED) == (not left)
    stays = {move.instance_uuid: move for move in drain.moves if move.state is not MoveState.MOVED}
    assert set(stays) == left
    for move in stays.values():
        is_late = order.deadline_s is not None and move.state is MoveState.WAITING
        assert move.reason or is_late, move
    await town.assert_settled()
