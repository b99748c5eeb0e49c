"""Trials: virtual consumption while a plan is made, undone when it is done."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from berth.domain.compute.needs import Needs
from berth.domain.hardware.assignment import Assignment
from berth.tables.host.holding import hold, release_hold
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.stock import UsageSavepoint


class Trial:
    """Consumes hosts for the instances of one request, and gives all back at the end.

    Between entering and leaving, rules see the table as if the instances placed so far were
    there (nova-behaviour.md 2.1 step 6). Nobody else may change the table meanwhile.
    """

    def __init__(self, hosts: HostTable, needs: Needs) -> None:
        self._hosts = hosts
        self._needs = needs
        self._taken: list[tuple[int, UsageSavepoint | Assignment]] = []
        self._added: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give all back, the last first."""
        hosts = self._hosts
        for row, taken in reversed(self._taken):
            if isinstance(taken, Assignment):
                release_hold(hosts, row, self._needs.amounts, taken)
            else:
                hosts.restore_used(row, taken)
        for uuid in self._added:
            hosts.remove_resident(uuid)

    def place(self, row: int, resident: Resident) -> None:
        """Count an instance as being on a row; one that runs elsewhere stays there too.

        What its assignment says is taken there, the request's amounts where it says nothing.

        Raises:
            NotFoundError: the row has no host.
        """
        hosts, assignment = self._hosts, resident.assignment
        hosts.identity(row)
        if assignment is None:
            self._taken.append((row, hosts.try_use(row, self._needs.amounts)))
        else:
            hold(hosts, row, self._needs.amounts, assignment)
            self._taken.append((row, assignment))
            resident = replace(resident, assignment=None)
        if hosts.occupants.by_uuid.get(resident.uuid) is None:
            hosts.add_resident(row, resident)
            self._added.append(resident.uuid)
