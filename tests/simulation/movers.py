"""Administrators, who move and evacuate instances, reset states and cause outages of hosts."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from berth.domain.compute.instance import Status
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.migration import MoveKind
from berth.domain.errors import BerthError, ConflictError, UnavailableError
from berth.services.servers.moves import MoveTarget
from tests.simulation.books import Books
from tests.simulation.owners import Ask, act
from tests.simulation.processes import Process
from tests.simulation.world import World

_DOWN_S: Final = 60.0


def _target(world: World, rng: Random) -> MoveTarget:
    if rng.random() < 0.6:
        return MoveTarget()
    return MoveTarget(host=rng.choice(sorted(world.fleet.machines)), forced=rng.random() < 0.2)


def _live(books: Books, status: Status | None = None) -> list[str]:
    return [
        uuid
        for uuid, one in books.instances.items()
        if one.host is not None and one.status is not Status.DELETED
        if status is None or one.status is status
    ]


def _move(world: World, uuid: str, rng: Random) -> Ask:
    target, is_cold = _target(world, rng), rng.random() < 0.4

    async def ask(process: Process, caller: Caller) -> None:
        does = process.operations.migrate if is_cold else process.operations.live_migrate
        await does(uuid, target, caller)

    return ask


def _evacuate(world: World, uuid: str, rng: Random) -> Ask:
    target, stops = _target(world, rng), rng.random() < 0.2

    async def ask(process: Process, caller: Caller) -> None:
        await process.operations.evacuate(
            uuid, target, caller, service_down_time_s=_DOWN_S, stops=stops
        )

    return ask


def _reset(uuid: str, status: Status) -> Ask:
    return lambda process, caller: process.operations.reset_state(uuid, status, caller)


async def _cancel(world: World, rng: Random) -> None:
    """Cancel a random live migration after a short delay."""
    found = [one for one in world.books.moves.values() if one.kind is MoveKind.LIVE]
    if not found:
        return
    move = rng.choice(found)
    await world.clock.sleep(rng.uniform(0, 2))

    async def ask(process: Process, caller: Caller) -> None:
        uuid, number = move.instance_uuid, move.number
        await process.operations.cancel_live_migration(uuid, number, caller)

    await act(world, move.instance_uuid, rng, ask)


async def _set_forced_down(world: World, host: str, *, forced_down: bool) -> None:
    async def ask(process: Process, _: bool) -> None:
        try:
            await process.hosts.set_service(host, forced_down=forced_down)
        except ConflictError as error:
            raise UnavailableError(str(error)) from error

    with suppress(BerthError):
        await world.insist(ask)


async def _have_outage(world: World, rng: Random) -> None:
    """Cut off the hosts of an agent, evacuate most of their instances, and bring them back."""
    agents = [one for one in world.processes.values() if one.role.machines and not one.line.is_cut]
    if len(agents) < 2:
        return
    victim = rng.choice(agents)
    await victim.die()
    loses_power = rng.random() < 0.5
    for name, machine in victim.role.machines.items():
        machine.cut_off(loses_power=loses_power)
        await _set_forced_down(world, name, forced_down=True)
    for uuid in _live(world.books):
        if world.books.instances[uuid].host in victim.role.machines and rng.random() < 0.7:
            await act(world, uuid, rng, _evacuate(world, uuid, rng))
    await world.clock.sleep(rng.uniform(0, 15))
    await _end_outage(world, victim)


async def _end_outage(world: World, victim: Process) -> None:
    for name, machine in victim.role.machines.items():
        machine.is_cut_off = False
        await _set_forced_down(world, name, forced_down=False)
    if world.processes[victim.role.name] is victim:
        world.start(victim.role)


async def be_administrator(world: World) -> None:
    """Move instances, cancel live migrations, reset states, and cause outages of hosts."""
    rng, some = world.dice(), world.scenario
    outages: list[asyncio.Task[None]] = []
    try:
        while True:
            await world.clock.sleep(rng.expovariate(some.deeds / some.trouble_s))
            found = _live(world.books)
            chance = rng.random()
            if chance < 0.15:
                outages.append(asyncio.create_task(_have_outage(world, rng)))
            elif chance < 0.28:
                await _cancel(world, rng)
            elif found and chance < 0.34:
                uuid = rng.choice(found)
                world.books.reset.add(uuid)
                status = rng.choice((Status.ACTIVE, Status.ERROR))
                await act(world, uuid, rng, _reset(uuid, status))
            elif found:
                uuid = rng.choice(found)
                await act(world, uuid, rng, _move(world, uuid, rng))
    finally:
        for one in outages:
            one.cancel()
        await asyncio.gather(*outages, return_exceptions=True)


async def restore(world: World) -> None:
    """Make all hosts reachable again; dead processes are left to the caller."""
    for name, machine in world.fleet.machines.items():
        machine.is_cut_off = False
        await _set_forced_down(world, name, forced_down=False)
