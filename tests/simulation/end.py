"""The laws at the end of a run: every accepted request was fulfilled, and nothing is left over."""

from collections.abc import Mapping
from typing import Final

from berth.domain.compute.instance import Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.request import instance_uuid_of
from berth.domain.inventory.allocation import Consumer
from berth.ports.virt import Power
from tests.simulation.books import Books, BrokenLawError
from tests.simulation.edges import DELETED, ERROR, state_of
from tests.simulation.processes import Process
from tests.simulation.world import World

_OFF: Final = frozenset({None, Power.STOPPED, Power.CRASHED})
_POWERS: Final[Mapping[Status, frozenset[Power | None]]] = {
    Status.ACTIVE: frozenset({Power.RUNNING}),
    Status.PAUSED: frozenset({Power.PAUSED}),
    Status.SUSPENDED: frozenset({Power.SUSPENDED}),
    Status.SHUTOFF: _OFF,
    Status.SHELVED: _OFF,
    Status.RESCUED: frozenset({Power.RUNNING}),
    Status.SOFT_DELETED: _OFF,
    Status.ERROR: frozenset({None, *Power}),
}
"""The power states that guests may have, by status; None means that there is no guest."""
_GLANCES: Final = 20
_GLANCE_S: Final = 0.5


async def check_end(world: World) -> None:
    """Check that every accepted request was fulfilled and nothing is left over.

    Raises:
        BrokenLawError: a law is broken; the message names it.
    """
    books = world.books
    for uuid, instance in books.instances.items():
        state = state_of(instance)
        _law(instance.task is None, f"{uuid} is {state}")
        is_kept = uuid not in world.deleted or state == DELETED or uuid in books.reset
        _law(is_kept, f"{uuid} was deleted and is {state}")
        is_told = state != ERROR or instance.fault is not None or uuid in books.reset
        _law(is_told, f"{uuid} is in ERROR without a reason")
    for order in world.accepted.values():
        for index in range(order.count):
            uuid = instance_uuid_of(order.request_id, index)
            _law(uuid in books.instances, f"{order.request_id} has lost {uuid}")
    _check_guests(world)
    await _check_history(world)
    for process in world.processes.values():
        await _check_process(world, process)


def _check_guests(world: World) -> None:
    """Check that guests are on the hosts and in the power states that the ledger has."""
    books, fleet = world.books, world.fleet
    for name, machine in fleet.machines.items():
        for uuid, guest in machine.known.items():
            instance = books.instances[uuid]
            move = books.moves.get(instance.migration_uuid or "")
            is_left = move is not None and move.source.host == name != instance.host
            may_be = instance.host == name or (is_left and guest.power is Power.STOPPED)
            is_here = may_be and instance.status is not Status.DELETED
            _law(is_here, f"{guest} is on {name}, which {instance} is not ({move})")
    for uuid, instance in books.instances.items():
        if instance.host is None or instance.status is Status.DELETED:
            continue
        here = fleet.machines[instance.host].known.get(uuid)
        move = books.moves.get(instance.migration_uuid or "")
        status = instance.status if move is None else move.was
        power = None if here is None else here.power
        if uuid not in books.reset:
            _law(power in _POWERS[status], f"{instance} is {power}")
        # An instance that an administrator reset may have the size of an interrupted resize.
        if here is not None and power is Power.RUNNING and uuid not in books.reset:
            _law(here.flavor == instance.flavor, f"{here} is of the wrong size: {instance}")
    disks = {one.disks for one in books.instances.values() if one.status is not Status.DELETED}
    for address in fleet.network.stored:
        _law(address in disks or _is_stored_in_vain(books, address), f"{address} is nobody's")
    for one in books.instances.values():
        is_safe = one.status is not Status.SHELVED_OFFLOADED or one.disks in fleet.network.stored
        _law(is_safe, f"{one} has lost its disks")


def _is_stored_in_vain(books: Books, address: str) -> bool:
    return address.rpartition("/")[2] in books.shelved_in_vain


async def _check_history(world: World) -> None:
    """Check that every accepted action has ended, and every consumer is a current move."""
    actions = {one.key: one for one in await world.ledger.all(Action)}
    for one in actions.values():
        _law(one.ended_at_s is not None, f"{one} never ends")
    for key in world.asked:
        _law(key in actions, f"{key} was accepted and is not in the history")
    moves = {one.uuid for one in await world.ledger.all(Migration)}
    for consumer in await world.ledger.all(Consumer):
        _law(consumer.uuid in moves & world.books.moves.keys(), f"{consumer} is nobody's")


async def _check_process(world: World, process: Process) -> None:
    name, replica = process.role.name, process.replica
    await process.follower.catch_up()
    _law(replica.held == 0, f"{name} holds {replica.held}")
    _law(not replica.pending, f"{name} has pending requests")
    alive = {replica.hosts.host(int(row)).uuid: int(row) for row in replica.hosts.alive_rows()}
    _law(alive.keys() == world.books.used.keys(), f"{name} has other hosts")
    for uuid, row in alive.items():
        used = replica.hosts.used(row)
        _law(used == world.books.used[uuid], f"{name} counts {used} used of {uuid}")
        host = replica.hosts.host(row).name
        there = [
            one
            for one in world.books.instances.values()
            if one.host == host and one.status is not Status.DELETED
        ]
        there_too = [
            one
            for one in world.books.moves.values()
            # An instance that was resized on its host counts once.
            if one.elsewhere is not None and one.elsewhere.host == host and not one.is_in_place
        ]
        count = int(replica.hosts.num_instances[row])
        should = len(there) + len(there_too)
        _law(count == should, f"{name} counts {count} on {host}, not {should}")
        building = int(replica.hosts.num_io_ops[row])
        _law(building == 0, f"{name} counts {building} being built on {host}")
    # Agents check their hosts continually; a check that is running now ends soon.
    for _ in range(_GLANCES):
        if process.pool._in_progress:
            await world.clock.sleep(_GLANCE_S)
    left = {
        "orders": process.placer._at_work,
        "pending requests": process.pending._at_work,
        "tasks": process.pool._in_progress,
        "task list": process.pool._queued,
        "revisions": process.pool._done,
        "left over": process.pool._leftover_moves,
        "commands": process.bus._tasks,
    }
    for what, things in left.items():
        _law(not things, f"{name} has {what} left over: {things}")


def _law(holds: bool, complaint: str) -> None:
    if not holds:
        raise BrokenLawError(complaint)
