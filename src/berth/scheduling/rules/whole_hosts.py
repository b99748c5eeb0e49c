"""Whole hosts: what a host and the child providers below it have together, class by class.

Weighers that look at several resources at once read hosts this way, so that a GPU counts the
same whether the host's own provider has it or one below.
"""

from collections.abc import Iterator, Mapping
from operator import sub
from typing import Final, NamedTuple

import numpy as np

from berth.domain.compute.needs import Needs
from berth.domain.errors import NotFoundError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU, add_amounts
from berth.scheduling.rules.row_values import Matrix, row_values
from berth.scheduling.rules.rule import Scores
from berth.scheduling.rules.shares import Numbers
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.host.hosts import HostTable

COMMON_CLASSES: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
"""Classes that hosts of every kind have. The others are of devices, which few hosts have."""

_KEY: Final = "whole hosts"

FEW: Final = 16
"""Up to so many rows are weighed faster one by one, as plain numbers, than as arrays."""


class Whole(NamedTuple):
    """One resource class on K hosts, in its unit; `free` may be below 0.

    `lacking` says which hosts have nothing of the class, None when all have some. They stand as if
    1 of 1 were free, so that everything is free of use there.
    """

    free: Scores
    capacity: Scores
    lacking: Mask | None

    def free_share(self) -> Scores:
        """Return what is free as shares of each host's own capacity: 1 for hosts without any."""
        return self.free / self.capacity

    def share(self, amount: int) -> Scores:
        """Return an amount as shares of each host's own capacity: 0 for hosts without any."""
        shares = float(amount) / self.capacity
        if self.lacking is not None:
            shares[self.lacking] = 0.0
        return shares


def asked_of(needs: Needs) -> Mapping[str, int]:
    """Sum what an instance asks of a host by class, from whatever provider it comes."""
    asked = needs.amounts
    for group in needs.groups:
        asked = add_amounts(asked, group.amounts)
    return asked


class WholeHosts:
    """K hosts of the table, each with all that hangs below it.

    Attributes:
        classes: the names of all classes that any of the table's hosts has.
    """

    def __init__(self, hosts: HostTable, rows: Selection) -> None:
        self._hosts = hosts
        self._rows = rows
        self._below: tuple[str, ...] = ()
        self.classes = hosts.resource_classes
        if len(hosts.trees):
            self._below = hosts.trees.resource_classes
            self.classes += tuple(name for name in self._below if name not in self.classes)

    def of(self, name: str) -> Whole:
        """Return one of the classes; exact, as amounts and their sums are below 2^53."""
        columns = self._columns(name)
        capacity = columns.capacity[self._rows].astype(np.float64)
        free = capacity - columns.used[self._rows]
        lacking = capacity <= 0
        if not lacking.any():
            return Whole(free, capacity, None)
        free[lacking] = capacity[lacking] = 1.0
        return Whole(free, capacity, lacking)

    def pairs(self, name: str) -> Iterator[tuple[float, float]]:
        """Yield what is free of a class and its capacity, host after host; 0 or less is none."""
        columns = self._columns(name)
        capacity = columns.capacity[self._rows].tolist()
        used = columns.used[self._rows].tolist()
        return zip(map(sub, capacity, used), capacity, strict=True)

    def free(self, name: str) -> Numbers:
        """Return what is free of one of the classes, (K,)."""
        columns = self._columns(name)
        free: Numbers = columns.capacity[self._rows] - columns.used[self._rows]
        return free

    def _columns(self, name: str) -> "ClassColumns | _Columns":
        """Return one of the classes on all hosts of the table; there may be more rows."""
        if name in self._below:
            line = 2 * self._below.index(name)
            sums = row_values(self._hosts, _KEY, "used", _with_children, stamp=self._below)
            return _Columns(sums[line], sums[line + 1])
        columns = self._hosts.resource(name)
        if columns is None:
            raise NotFoundError("resource class", name)
        return columns


class _Columns(NamedTuple):
    """A class by row, with what hangs below."""

    capacity: Scores
    used: Scores


def _with_children(hosts: HostTable, rows: Selection) -> Matrix:
    """Return the capacity and what is used of each class of the children, root and all: (2C, K).

    Sums are exact as long as they are below 2^53.
    """
    slots, owners, count = hosts.trees.branches(rows)
    names = hosts.trees.resource_classes
    sums = np.zeros((2 * len(names), count))
    for line, name in enumerate(names):
        roots, children = hosts.resource(name), hosts.trees.resource(name)
        if roots is not None:
            sums[2 * line] = roots.capacity[rows]
            sums[2 * line + 1] = roots.used[rows]
        if children is not None:
            sums[2 * line] += np.bincount(owners, children.capacity[slots], count)
            sums[2 * line + 1] += np.bincount(owners, children.used[slots], count)
    return sums
