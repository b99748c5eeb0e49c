"""Holding: counting what one instance takes of a host on top of what the ledger says.

What is held comes beside the table's residents, so one that is put there while it is held comes
without its assignment; otherwise its NUMA cells and devices would count twice.
"""

from collections.abc import Mapping

from berth.domain.hardware.assignment import Assignment, amounts_on_root
from berth.tables.host.hosts import HostTable


def hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Count what an instance takes of a row's providers, in units of the classes.

    Args:
        hosts: the table.
        row: the host.
        amounts: what the request asks for.
        assignment: what the instance gets beyond that, or instead of it.
    """
    hosts.hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.hold(provider_uuid, more)
        hosts.numa.take(row, assignment.numa)
        hosts.pci.take(row, assignment.devices)


def release_hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Undo `hold` with equal arguments; what is not held there any more is left alone."""
    hosts.release_hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.release_hold(provider_uuid, more)
        hosts.numa.give(row, assignment.numa)
        hosts.pci.give(row, assignment.devices)
