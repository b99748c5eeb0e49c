"""Tests for placing orders over a bus that loses, doubles and delays messages."""

import asyncio
from random import Random

import pytest

from berth.domain.compute.instance import Instance, Status
from berth.ports.bus import Bus
from berth.services.requests.orders import PLACE
from berth.services.servers.instances import AcceptedCreate, CreateOrder, Instances
from berth.testing.bus_conformance.letters import ASK, Keeping, Letter
from berth.testing.faulty_bus import Faults, FaultyBus
from berth.testing.virtual_time import run_virtually
from tests.unit.services.wiring import Desk, Fleet, open_desk, running


def instances_over(desk: Desk, bus: Bus) -> Instances:
    """Return the instance use cases of an API that calls over this bus."""
    return Instances(
        ledger=desk.ledger,
        follower=desk.follower,
        replica=desk.replica,
        bus=bus,
        clock=desk.clock,
    )


@pytest.mark.parametrize("seed", range(12))
def test_orders_survive_a_faulty_bus(seed: int) -> None:
    """Each order is placed exactly once in spite of lost, duplicated and delayed messages."""

    async def main() -> None:
        desk, rng = await open_desk(Fleet(hosts=4, vcpus=64)), Random(seed)
        faults = Faults(lost=0.3, answer_lost=0.3, duplicated=0.5, delay_s=90.0)
        bus = FaultyBus(desk.bus, faults, rng)
        bus.serve(PLACE, desk.placer.place)
        instances = instances_over(desk, bus)

        async def create(number: int) -> AcceptedCreate:
            await asyncio.sleep(rng.uniform(0, 30))
            order = CreateOrder(f"req-{number}", "vm", "1", "project", "user", may_repeat=True)
            return await instances.create(order)

        async def beat() -> None:
            while True:
                for number in range(1, 5):
                    desk.liveness.note(f"host-{number}")
                await asyncio.sleep(20)

        async with running(desk.follower.run, desk.pending.run, beat):
            accepted = await asyncio.gather(*(create(number) for number in range(20)))
            await asyncio.sleep(600)
        uuids = {one.uuid for each in accepted for one in each.instances}
        assert len(uuids) == 20
        found = [await desk.ledger.get(Instance, uuid) for uuid in uuids]
        assert all(one is not None and one.status is Status.BUILD and one.host for one in found)
        used = [(await desk.ledger.used(number)).get("VCPU", 0) for number in range(1, 5)]
        assert sum(used) == 20

    run_virtually(main)


def test_casts_are_lost_duplicated_and_out_of_order() -> None:
    """The seed determines which casts are lost, duplicated and reordered."""

    async def sent(faults: Faults) -> list[str]:
        desk, kept = await open_desk(), Keeping()
        bus = FaultyBus(desk.bus, faults, Random(7))
        bus.serve(ASK, kept)
        for number in range(20):
            await bus.cast(ASK, Letter(f"{number:02}"), timeout_s=5)
        await bus.fanout(ASK, Letter("all"))
        await asyncio.sleep(100)
        return kept.texts

    async def main() -> None:
        calm = await sent(Faults())
        assert calm == [*(f"{number:02}" for number in range(20)), "all"]
        rough = await sent(Faults(lost=0.3, duplicated=0.3, delay_s=10.0))
        assert rough != sorted(rough)
        assert len(set(rough)) < 21
        assert len(rough) > len(set(rough))
        assert rough == await sent(Faults(lost=0.3, duplicated=0.3, delay_s=10.0))

    run_virtually(main)
