"""Owners: clients that run all kinds of operations on the instances that they have ordered."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, Final

from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.lifecycle import Transition
from berth.domain.compute.soft_deletion import is_soft_deleted
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from berth.services.servers.moves import MoveTarget
from tests.simulation.actors import delete, draw_order, place
from tests.simulation.processes import Process, SeededIds
from tests.simulation.world import FLAVORS, World

_DOWN_S: Final = 60.0
Ask = Callable[[Process, Caller], Coroutine[Any, Any, object]]

_SIMPLE: Final = (
    lifecycle.START,
    lifecycle.STOP,
    lifecycle.REBOOT_SOFT,
    lifecycle.REBOOT_HARD,
    lifecycle.PAUSE,
    lifecycle.UNPAUSE,
    lifecycle.SUSPEND,
    lifecycle.RESUME,
    lifecycle.SHELVE,
    lifecycle.SHELVE_OFFLOAD,
    lifecycle.RESCUE,
    lifecycle.UNRESCUE,
)


_CHANGED_NOTHING: Final = object()
"""The result of an operation that may have been accepted without a change."""


async def act(world: World, uuid: str, rng: Random, ask: Ask) -> bool:
    """Request an operation on an instance; tell whether it was accepted."""
    ids = SeededIds(rng)

    async def once(process: Process, _: bool) -> None:
        caller = Caller(ids.request_id(), "project", "user", is_admin=True)
        if await ask(process, caller) is not _CHANGED_NOTHING:
            world.asked.add(f"{uuid} {caller.request_id}")

    try:
        await world.insist(once)
    except (ConflictError, InvalidInputError, NotFoundError):
        return False
    return True


def _begin(uuid: str, step: Transition) -> Ask:
    return lambda process, caller: process.operations.begin(uuid, step, caller)


def _rebuild(uuid: str, number: int) -> Ask:
    image = Image(f"image-{number}")
    return lambda process, caller: process.operations.rebuild(uuid, image, caller)


def _resize(uuid: str, number: int) -> Ask:
    flavor = FLAVORS[number % 3]
    return lambda process, caller: process.operations.resize(uuid, flavor, caller)


def _unshelve(uuid: str) -> Ask:
    return lambda process, caller: process.operations.unshelve(uuid, MoveTarget(), caller)


def _soft_delete(uuid: str) -> Ask:
    async def ask(process: Process, caller: Caller) -> object:
        found = await process.operations.soft_delete(uuid, caller, service_down_time_s=_DOWN_S)
        # A repeated deletion is accepted, and usually leaves neither a change nor an action.
        return _CHANGED_NOTHING if is_soft_deleted(found) else None

    return ask


def _restore(uuid: str) -> Ask:
    return lambda process, caller: process.operations.restore(uuid, caller)


def _settle(uuid: str, *, confirms: bool) -> Ask:
    async def ask(process: Process, caller: Caller) -> None:
        does = process.operations.confirm if confirms else process.operations.revert
        await does(uuid, caller, service_down_time_s=_DOWN_S)

    return ask


def _draw(world: World, uuid: str, rng: Random) -> Ask:
    """Draw an operation, mostly one that the instance's state allows."""
    instance = world.books.instances[uuid]
    steps = [one for one in _SIMPLE if instance.status in one.begins] or list(_SIMPLE)
    deeds = [
        _begin(uuid, rng.choice(steps if rng.random() < 0.9 else _SIMPLE)),
        _rebuild(uuid, rng.randrange(3)),
        _resize(uuid, rng.randrange(3)),
        _resize(uuid, rng.randrange(3)),
        _settle(uuid, confirms=rng.random() < 0.5),
        _unshelve(uuid),
        _soft_delete(uuid),
        _restore(uuid),
    ]
    weights = [12, 2, 4, 4, 2, 2, 1, 1]
    if instance.status in lifecycle.CONFIRM.begins:
        weights = [2, 0, 0, 0, 18, 0, 1, 0]
    elif instance.status in lifecycle.UNSHELVE.begins:
        weights = [2, 0, 0, 0, 0, 8, 1, 0]
    elif instance.status in lifecycle.RESTORE.begins:
        weights = [2, 0, 0, 0, 0, 0, 1, 8]
    (deed,) = rng.choices(deeds, weights=weights)
    return deed


async def be_owner(world: World, number: int) -> None:
    """Order a few instances, run operations on them, sometimes concurrently, and delete some."""
    rng, some = world.dice(), world.scenario
    ids = SeededIds(rng)
    mine: list[str] = []
    for _ in range(some.deeds):
        await world.clock.sleep(rng.expovariate(some.deeds / some.trouble_s))
        if len(mine) < 2:
            order = draw_order(rng, ids.request_id(), f"owner-{number}")
            with suppress(InvalidInputError):
                mine += await place(world, order)
            continue
        uuid = rng.choice(mine)
        if rng.random() < 0.12:
            mine.remove(uuid)
            await delete(world, uuid)
            continue
        deeds = [act(world, uuid, rng, _draw(world, uuid, rng))]
        if rng.random() < 0.2:
            deeds.append(act(world, uuid, rng, _draw(world, uuid, rng)))
        with suppress(UnavailableError):
            await asyncio.gather(*deeds)
