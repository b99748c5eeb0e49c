"""Needing: what an instance is to hold, and where, by its flavor and what it was assigned."""

from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.compute.needs import needs_of, with_hardware
from berth.domain.hardware.assignment import taken
from berth.services.auditing.books import Amounts, Books, without_zeros

_ON_ITS_WAY: Final = frozenset(
    {
        Stage.LEAVING,
        Stage.ARRIVING,
        Stage.PREPARING,
        Stage.MOVING,
        Stage.LANDING,
        Stage.WITHDRAWING,
    }
)
"""Stages in which an instance holds what it is to have at the destination, and is not there yet."""


def place_of(instance: Instance, migration: Migration | None) -> Place:
    """Return where an instance holds its room, and for what size.

    From the first unit of a move on that is its destination: what it held before is the move's.

    Args:
        instance: that is on a host.
        migration: the move that it is in the midst of.
    """
    if migration is not None and migration.stage in _ON_ITS_WAY:
        return migration.destination
    return Place(instance.host or "", instance.node or "", instance.flavor, instance.assignment)


def needed_by(books: Books, instance: Instance) -> Amounts | None:
    """Return what an instance is to hold; None when its host is not there.

    Raises:
        InvalidInputError: its flavor or image hold a spec that cannot be read.
    """
    place = place_of(instance, books.move_of(instance))
    host = books.hosts.get((place.host, place.node))
    if host is None:
        return None
    image = instance.image
    needs = with_hardware(
        needs_of(place.flavor, image.traits if image else None), place.flavor, image
    )
    takes = taken(host.uuid, without_zeros(needs.amounts), place.assignment)
    found = {uuid: without_zeros(amounts) for uuid, amounts in takes.items()}
    return {uuid: amounts for uuid, amounts in found.items() if amounts}
