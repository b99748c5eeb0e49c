"""Counts everything that one instance uses of a host in addition to what the ledger reports.

A hold counts the NUMA cells and devices of an instance. A resident that is added during the hold
must come without its assignment, or they would be counted twice.
"""

from collections.abc import Mapping

from berth.domain.hardware.assignment import Assignment, amounts_on_root
from berth.tables.host.hosts import HostTable


def hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Count what an instance uses of a row's providers, cells and devices.

    Args:
        hosts: the table.
        row: the host.
        amounts: requested amounts by class, in units of the class.
        assignment: amounts by provider, cells and devices that the instance gets in addition to, or
            in place of, the amounts.
    """
    # An assignment may take requested amounts from child providers instead of the root.
    hosts.hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.hold(provider_uuid, more)
        hosts.numa.take(row, assignment.numa)
        hosts.pci.take(row, assignment.devices)


def release_hold(
    hosts: HostTable, row: int, amounts: Mapping[str, int], assignment: Assignment | None
) -> None:
    """Undo `hold` with equal arguments; whatever is not on hold is ignored."""
    hosts.release_hold(row, amounts_on_root(amounts, assignment))
    if assignment is not None:
        for provider_uuid, more in assignment.allocations.items():
            hosts.trees.release_hold(provider_uuid, more)
        hosts.numa.release(row, assignment.numa)
        hosts.pci.release(row, assignment.devices)
