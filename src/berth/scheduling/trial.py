"""Trials: virtual consumption while a plan is made, undone when it is done."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from berth.domain.assignment import Assignment
from berth.domain.flavor import Needs
from berth.tables.holding import hold, unhold
from berth.tables.hosts import HostTable
from berth.tables.occupants import Resident


class Trial:
    """Consumes hosts for the instances of one request, and gives all back at the end.

    Between entering and leaving, rules see the table as if the instances placed so far were
    there (nova.md 2.1 step 6).
    """

    def __init__(self, hosts: HostTable, needs: Needs) -> None:
        self._hosts = hosts
        self._needs = needs
        self._held: list[tuple[int, Assignment | None]] = []
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
        """Give all back."""
        for row, assignment in self._held:
            unhold(self._hosts, row, self._needs.amounts, assignment)
        for uuid in self._added:
            self._hosts.remove_instance(uuid)

    def place(self, row: int, resident: Resident) -> None:
        """Count an instance as being on a row; one that runs elsewhere stays there too.

        What its assignment says is taken there, the request's amounts where it says nothing.
        """
        host_uuid = self._hosts.uuid(row)
        hold(self._hosts, row, self._needs.amounts, resident.assignment)
        self._held.append((row, resident.assignment))
        if self._hosts.occupants.get(resident.uuid) is None:
            if resident.assignment is not None:
                resident = replace(resident, assignment=None)
            self._hosts.put_instance(host_uuid, resident)
            self._added.append(resident.uuid)
