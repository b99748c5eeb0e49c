"""Holds on everything that an instance will use on a host, until the ledger reports the instance.

A hold includes the NUMA cells and devices of the instance. A resident that is added during the hold
must have no assignment, because its cells and devices would otherwise be counted twice.
"""

from collections.abc import Mapping

from berth.domain.hardware.assignment import Assignment, amounts_on_root
from berth.tables.host.hosts import HostTable
from berth.tables.host.resident_columns import Attributes


def hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Hold the amounts, NUMA cells and devices that an instance uses on a row.

    Args:
        hosts: the table.
        row: the row of the host.
        amounts: the requested amounts by class, in the unit of the class.
        assignment: the amounts by provider, NUMA cells and devices that the instance gets in
            addition to the amounts, or in their place; None if there are none.
    """
    # An assignment may take requested amounts from child providers instead of the root.
    hosts.hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.hold(provider_uuid, more)
        hosts.numa.take(row, assignment.numa)
        hosts.pci.take(row, assignment.devices)


def set_attributes(hosts: HostTable, uuid: str, attributes: Attributes) -> None:
    """Replace the attributes of an instance; nothing happens if the instance is on no row."""
    occupant = hosts.occupants.by_uuid.get(uuid)
    if occupant is not None:
        hosts.residents.replace(occupant.row, uuid, attributes)
        hosts.journal.record(occupant.row, "instances")


def release_hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Undo a `hold` with equal arguments; amounts that are not on hold are ignored."""
    hosts.release_hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.release_hold(provider_uuid, more)
        hosts.numa.release(row, assignment.numa)
        hosts.pci.release(row, assignment.devices)
