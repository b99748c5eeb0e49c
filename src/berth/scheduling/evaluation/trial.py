"""Trial placements: instances on the table while a plan is made, removed at its end."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from berth.domain.compute.needs import Needs
from berth.domain.hardware.assignment import Assignment
from berth.tables.host.holding import hold, release_hold
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes
from berth.tables.host.stock import UsageSavepoint


class Trial:
    """Holds resources for the instances of one request, and releases all of them at the end.

    Inside the context, rules see the table as if the instances placed so far were on their hosts
    (nova-behaviour.md 2.1 step 6). Nothing else may change the table meanwhile.

    Args:
        hosts: the table.
        needs: the needs of each instance.
    """

    def __init__(self, hosts: HostTable, needs: Needs) -> None:
        self._hosts = hosts
        self._needs = needs
        self._taken: list[tuple[int, UsageSavepoint | Assignment]] = []
        self._added: list[str] = []

    def __enter__(self) -> Self:
        """Enter the trial without instances."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release everything, the last instance first."""
        hosts = self._hosts
        # Savepoints are restored in reverse order, since a row may hold several of the instances.
        for row, taken in reversed(self._taken):
            if isinstance(taken, Assignment):
                release_hold(hosts, row, self._needs.amounts, taken)
            else:
                hosts.restore_used(row, taken)
        for uuid in self._added:
            hosts.remove_resident(uuid)

    def place(self, row: int, resident: Resident, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Place an instance on a row; an instance that is on another host stays there as well.

        The instance holds the requested amounts, as far as its assignment does not replace them,
        and the resources of the assignment.

        Raises:
            NotFoundError: there is no host in the row.
        """
        hosts, assignment = self._hosts, resident.assignment
        # `identity` raises, before anything changes, if the row has no host.
        hosts.identity(row)
        if assignment is None:
            self._taken.append((row, hosts.try_use(row, self._needs.amounts)))
        else:
            hold(hosts, row, self._needs.amounts, assignment)
            self._taken.append((row, assignment))
            # The assignment is now held, so the resident must not hold it a second time.
            resident = replace(resident, assignment=None)
        if hosts.occupants.by_uuid.get(resident.uuid) is None:
            hosts.add_resident(row, resident, attributes)
            self._added.append(resident.uuid)
