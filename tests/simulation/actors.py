"""The actors of a run: clients that order instances, operators of hosts, outages and crashes."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

from berth.domain.compute.instance import Status
from berth.domain.compute.request import instance_uuid_of
from berth.domain.errors import (
    BerthError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from berth.services.servers.instances import AcceptedCreate, CreateOrder
from tests.simulation.books import BrokenLawError
from tests.simulation.faults import Away
from tests.simulation.processes import Process, SeededIds
from tests.simulation.world import FLAVORS, GROUPS, World


async def be_client(world: World, number: int) -> None:
    """Order instances, some orders twice, and rename and delete some instances."""
    rng = world.dice()
    ids = SeededIds(rng)
    for _ in range(world.scenario.orders):
        await world.clock.sleep(rng.expovariate(world.scenario.orders / world.scenario.trouble_s))
        order = draw_order(rng, ids.request_id(), f"project-{number}")
        try:
            if rng.random() < 0.2:
                await asyncio.gather(place(world, order), place(world, order))
            uuids = await place(world, order)
        except InvalidInputError:
            # The host that the order names was removed.
            continue
        if rng.random() < 0.4:
            await _rename(world, rng.choice(uuids))
        await world.clock.sleep(rng.uniform(0, 8))
        if rng.random() < 0.3:
            with suppress(InvalidInputError):  # the host was removed meanwhile
                await place(world, order)
        if rng.random() < 0.6:
            for uuid in rng.sample(uuids, rng.randint(1, len(uuids))):
                await delete(world, uuid)


def draw_order(rng: Random, request_id: str, project_id: str) -> CreateOrder:
    """Draw an order of one to four instances, some with a forced host or a group."""
    (flavor,) = rng.choices(FLAVORS, weights=(6, 4, 2, 1))
    zone = f"nova:host-{rng.randrange(4)}" if rng.random() < 0.1 else None
    hints = {"group": (rng.choice(GROUPS).uuid,)} if rng.random() < 0.3 else {}
    return CreateOrder(
        request_id=request_id,
        name="vm",
        flavor_id=flavor.flavor_id,
        project_id=project_id,
        user_id="user",
        count=rng.choice((1, 1, 1, 2, 4)),
        zone=zone,
        hints=hints,
    )


async def place(world: World, order: CreateOrder) -> list[str]:
    """Place an order, and return the uuids of its instances."""

    async def create(process: Process, is_repeat: bool) -> AcceptedCreate:
        once_more = replace(order, may_repeat=is_repeat and world.rng.random() < 0.5)
        return await process.instances.create(once_more)

    accepted = await world.insist(create)
    uuids = [instance.uuid for instance in accepted.instances]
    expected = [instance_uuid_of(order.request_id, index) for index in range(order.count)]
    if uuids != expected:
        world.books.accuse(BrokenLawError(f"{order.request_id} was answered with {uuids}"))
    if any(uuid not in world.books.instances for uuid in uuids):
        world.books.accuse(BrokenLawError(f"{order.request_id} was accepted and not kept"))
    world.accepted[order.request_id] = order
    return uuids


async def delete(world: World, uuid: str) -> None:
    """Delete an instance, and record that its deletion was accepted."""

    async def ask(process: Process, is_repeat: bool) -> None:
        try:
            await process.instances.delete(uuid)
        except NotFoundError:
            if not is_repeat and uuid not in world.deleted:
                world.books.accuse(BrokenLawError(f"{uuid} was accepted and is not found"))
        except ConflictError as error:
            raise UnavailableError(str(error)) from error

    await world.insist(ask)
    world.deleted.add(uuid)


async def _rename(world: World, uuid: str) -> None:
    async def rename(process: Process, is_repeat: bool) -> None:
        instance = await process.instances.get(uuid)
        if instance.status is not Status.DELETED:
            await process.instances.save(replace(instance, name=f"vm at {instance.revision}"))

    with suppress(ConflictError):
        await world.insist(rename)


async def be_operator(world: World) -> None:
    """Disable and enable hosts, and remove idle ones, whose agents then restart."""
    rng = world.dice()
    while True:
        await world.clock.sleep(rng.expovariate(1 / 5))
        host = rng.choice(sorted(world.fleet.machines))
        try:
            process = await world.api()
            if rng.random() < 0.7:
                disabled = rng.random() < 0.3
                await process.ask(process.hosts.set_service(host, disabled=disabled))
            else:
                await process.ask(process.hosts.remove(host))
                agent = next(p for p in world.processes.values() if host in p.role.machines)
                if not agent.line.is_cut:
                    await agent.die()
                    world.start(agent.role)
        except (BerthError, RuntimeError):
            pass


async def be_sky(world: World, outage_s: float) -> None:
    """Make the ledger or the broker unavailable for a while, to all processes or to one."""
    rng = world.dice()
    while True:
        await world.clock.sleep(rng.expovariate(1 / outage_s))
        names = sorted(world.processes) if rng.random() < 0.5 else [rng.choice([*world.processes])]
        where = world.cut_off if world.scenario.calls and rng.random() < 0.4 else world.away
        where.update(dict.fromkeys(names, rng.choice([*Away])))
        await world.clock.sleep(rng.choice((0.5, 5.0, 30.0, 90.0)) * rng.random())
        where.clear()


async def be_fate(world: World, crash_s: float) -> None:
    """Kill random processes and restart them."""
    rng = world.dice()
    while True:
        await world.clock.sleep(rng.expovariate(1 / crash_s))
        victim = world.processes[rng.choice(sorted(world.processes))]
        if victim.line.is_cut:
            continue
        await victim.die()
        await world.clock.sleep(rng.uniform(0, 3))
        if world.processes[victim.role.name] is victim:
            world.start(victim.role)
