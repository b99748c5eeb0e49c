"""Whole hosts: what a host and the child providers below it have together, class by class.

Weighers that look at several resources at once read hosts this way, so that a GPU counts the
same whether the host's own provider has it or one below.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from berth.domain.flavor import Needs
from berth.domain.resources import DISK_GB, MEMORY_MB, PCPU, VCPU, add_amounts
from berth.scheduling.rule import Scores
from berth.tables.bitsets import Selection
from berth.tables.columns import Ints
from berth.tables.hosts import HostTable
from berth.tables.trees import Branches

COMMON_CLASSES: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
"""Classes that hosts of every kind have. The others are of devices, which few hosts have."""


_NOTHING: Final = np.zeros(1, dtype=np.int64)


class Whole(NamedTuple):
    """One resource class on K hosts; `free` may be below 0, and capacity 0 is none of the class."""

    free: Ints
    capacity: Ints

    def shares(self, amount: int) -> tuple[Scores, Scores]:
        """Return what is free, and what `amount` is, as shares of each host's own capacity.

        A host without the class counts as free of use, and an amount as nothing to it.
        """
        if self.capacity.all():
            return self.free / self.capacity, amount / self.capacity
        has = self.capacity > 0
        free, taken = np.ones(has.size), np.zeros(has.size)
        np.divide(self.free, self.capacity, out=free, where=has)
        np.divide(amount, self.capacity, out=taken, where=has)
        return free, taken


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
        self._branches: Branches | None = None
        self._below: tuple[str, ...] = hosts.trees.resource_classes if len(hosts.trees) else ()
        more = (name for name in self._below if name not in hosts.resource_classes)
        self.classes = (*hosts.resource_classes, *more)

    def of(self, name: str) -> Whole:
        """Return one of the classes."""
        roots = self._hosts.resource(name)
        free = capacity = _NOTHING
        if roots is not None:
            free, capacity = roots.free[self._rows], roots.capacity[self._rows]
        children = self._hosts.trees.resource(name) if name in self._below else None
        if children is None:
            return Whole(free, capacity)
        if self._branches is None:
            self._branches = self._hosts.trees.branches(self._rows)
        return Whole(
            free + _summed(children.free, self._branches),
            capacity + _summed(children.capacity, self._branches),
        )


def _summed(values: Ints, branches: Branches) -> Ints:
    """Sum a column of the children by host; exact as long as the sums are below 2^53."""
    slots, owners, count = branches
    return np.bincount(owners, weights=values[slots], minlength=count).astype(np.int64)
