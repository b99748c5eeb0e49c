"""The laws of allocations: what each instance and move must hold, and the sums of each provider."""

from collections.abc import Iterable, Mapping

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.inventory.allocation import Allocation
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU

Room = tuple[str, Mapping[str, int]]
"""The uuid of a provider, and the amounts held there."""

_BOTH_HELD = frozenset(
    {
        Stage.LEAVING,
        Stage.ARRIVING,
        Stage.PREPARING,
        Stage.MOVING,
        Stage.LANDING,
        Stage.WITHDRAWING,
        Stage.ARRIVED,
        Stage.CONFIRMING,
        Stage.RETURNING,
    }
)
"""The stages in which the instance holds the destination's amounts, and the move the source's."""


def needs_of(flavor: Flavor) -> dict[str, int]:
    """Return what an instance of a flavor uses, without zeros."""
    needs = {VCPU: flavor.vcpus, MEMORY_MB: flavor.memory_mb, DISK_GB: flavor.root_gb}
    return nonzero(needs)


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts without zeros."""
    return {name: amount for name, amount in amounts.items() if amount}


def check_sums(
    allocations: Iterable[Allocation],
    used: Mapping[str, Mapping[str, int]],
    capacity: Mapping[str, Mapping[str, int]],
) -> tuple[dict[str, Room], str | None]:
    """Return the rooms by consumer, and a complaint about their sums, None if they are right."""
    counted: dict[str, dict[str, int]] = {uuid: {} for uuid in used}
    rooms: dict[str, Room] = {}
    for one in allocations:
        if one.consumer_uuid in rooms:
            return rooms, f"{one.consumer_uuid} has two rooms"
        rooms[one.consumer_uuid] = (one.provider_uuid, one.amounts)
        sums = counted[one.provider_uuid]
        for name, amount in one.amounts.items():
            sums[name] = sums.get(name, 0) + amount
    if counted != used:
        return rooms, f"{counted} allocated, {used} used"
    for uuid, sums in counted.items():
        for name, amount in sums.items():
            if amount > capacity[uuid].get(name, 0):
                return rooms, f"{uuid} has {amount} of {name} used"
    return rooms, None


def rooms_of(instance: Instance, move: Migration | None, hosts: Mapping[str, str]) -> Room | None:
    """Return what an instance must hold, None if it must hold nothing.

    Args:
        instance: the instance.
        move: its current move, if it has one.
        hosts: the uuids of root providers by host name.
    """
    if instance.host is None or instance.status is Status.DELETED:
        return None
    if move is not None and move.stage in _BOTH_HELD:
        return _at(move.destination, hosts)
    return hosts[instance.host], needs_of(instance.flavor)


def rooms_of_move(move: Migration, hosts: Mapping[str, str]) -> tuple[Room | None, ...]:
    """Return the alternatives of what a move may hold; None means nothing."""
    if move.stage in _BOTH_HELD or move.stage is Stage.LEFT_BEHIND:
        return (_at(move.source, hosts),)
    if move.stage is Stage.ABANDONED:
        # If the instance was not deleted, it has taken back what the move held.
        return (_at(move.destination, hosts), None)
    return (None,)


def _at(place: Place, hosts: Mapping[str, str]) -> Room:
    return hosts[place.host], needs_of(place.flavor)
