"""Whole hosts: the sums of a host and its child providers, by resource class.

Weighers that compare several classes read hosts this way, so that a GPU has the same effect on the
root provider and on a child.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU, add_amounts
from berth.scheduling.rules.measure import Binding, BoundMeasure, Computed, MeasuredColumn
from berth.scheduling.rules.row_values import Matrix, row_values
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

COMMON_CLASSES: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
"""The classes that hosts of every kind have; weighers treat all other classes as devices."""

# One key for all rules and policies, since the sums depend on the table alone.
_CACHE_KEY: Final = "whole hosts"


class Whole(NamedTuple):
    """One resource class on whole hosts; a host with a capacity of 0 or below lacks the class."""

    capacity: MeasuredColumn
    used: MeasuredColumn


def asked_of(needs: Needs) -> Mapping[str, int]:
    """Return the amounts by class that an instance requests of all providers of a host together."""
    asked = needs.amounts
    for group in needs.groups:
        asked = add_amounts(asked, group.amounts)
    return asked


def whole_hosts(hosts: HostTable) -> dict[str, Whole]:
    """Return, by name, the columns of each resource class that a host or a child has had.

    Classes that only children have had come last. The columns are valid until the table's
    `structure` or its list of hosts changes.
    """
    found = {name: Whole(one.capacity, one.used) for name, one in hosts.resources()}
    # Without children, the sums would only copy the table's own columns.
    if len(hosts.trees):
        below = hosts.trees.resource_classes
        for number, name in enumerate(below):
            capacity = _sums(hosts, below, 2 * number)
            found[name] = Whole(capacity, _sums(hosts, below, 2 * number + 1))
    return found


def rebound(bind: Binding) -> Binding:
    """Return a binding that looks up the classes at each read on a table with child providers.

    A child may get a class that no other child has, which leaves the table's `structure` as it is,
    so a bound measure would keep ignoring the class.
    """

    def bind_anew(hosts: HostTable, query: Query) -> BoundMeasure | None:
        measure = bind(hosts, query)
        if measure is None or not len(hosts.trees):
            return measure

        def of(rows: Selection) -> Scores:
            current = bind(hosts, query) or measure
            return current.of_rows(rows)

        return BoundMeasure((Computed(of),))

    return bind_anew


def _sums(hosts: HostTable, classes: tuple[str, ...], line: int) -> Computed:
    """Return one line of the sums over roots and children, as a column."""
    read = partial(row_values, hosts, _CACHE_KEY, "used", _with_children, stamp=classes)

    def of(rows: Selection) -> NDArray[Any]:
        return read()[line, rows]

    def of_one(row: int) -> float:
        return read().item(line, row)

    return Computed(of, of_one)


def _with_children(hosts: HostTable, rows: Selection) -> Matrix:
    """Return the capacity and use of each class of the children, summed over the tree: (2C, K).

    Sums below 2^53 are exact as floats.
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
