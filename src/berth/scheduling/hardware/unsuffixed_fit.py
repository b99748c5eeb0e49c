"""Capacity for the unsuffixed amounts of a request, on a host's root or one of its children.

Each class comes from a single provider (nova-behaviour.md 6.4); the root is preferred.
"""

import numpy as np

from berth.scheduling.rules.quantities import say_free
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns, Ints
from berth.tables.host.hosts import HostTable


def fits(hosts: HostTable, name: str, amount: int, rows: Selection) -> Mask:
    """Return, for each row, whether one of its providers has room for an amount of a class.

    Args:
        hosts: the table.
        name: the resource class.
        amount: in the unit of the class, at least 1.
        rows: K rows.

    Returns:
        (K,) bool.
    """
    columns = hosts.resource(name)
    if columns is None:
        found = np.zeros(count_of(rows), dtype=np.bool_)
    else:
        found = columns.fits(amount, rows)
    below = hosts.trees.resource(name)
    if below is not None:
        branches = hosts.trees.branches(rows)
        found[branches.owners[below.fits(amount, branches.slots)]] = True
    return found


def most(hosts: HostTable, name: str, amount: int, rows: Rows) -> Ints:
    """Return the largest amount, up to `amount`, that one provider of each row can supply.

    Args:
        hosts: the table.
        name: the resource class.
        amount: the upper bound, in the unit of the class.
        rows: K rows.
    """
    found = _most(hosts.resource(name), amount, rows)
    below = hosts.trees.resource(name)
    if below is not None:
        branches = hosts.trees.branches(rows)
        # A row may own several children, which plain indexing would count once.
        np.maximum.at(found, branches.owners, _most(below, amount, branches.slots))
    return found


def why_not(hosts: HostTable, name: str, amount: int, row: int) -> str:
    """Return why no provider of a row can supply an amount of a class; empty if one can."""
    here = np.array([row])
    if fits(hosts, name, amount, here)[0]:
        return ""
    below = hosts.trees.resource(name)
    slots = np.array([s for s in hosts.trees.on_row(row) if below and below.total[s]], np.intp)
    if below is not None and slots.size:
        room = max(_room(hosts.resource(name), here), _room(below, slots), 0)
        return f"{name}: {amount:,} requested, {room:,} at most on one provider"
    columns = hosts.resource(name)
    if columns is None or not columns.total[row]:
        return f"it has no {name}"
    if amount > columns.unit_max[row]:
        return f"{name}: {amount:,} requested, at most {columns.unit_max[row]:,} per instance"
    if amount > columns.free[row]:
        return f"{name}: {amount:,} requested, {say_free(columns.free.item(row))}"
    return (
        f"{name}: {amount:,} requested, but it must be at least {columns.min_unit[row]:,} "
        f"and a multiple of {columns.step_size[row]:,}"
    )


def _most(columns: ClassColumns | None, amount: int, rows: Rows) -> Ints:
    if columns is None:
        return np.zeros(rows.size, dtype=np.int64)
    found = np.clip(columns.room[rows], 0, amount)
    if columns.stepped:
        found -= found % np.maximum(columns.step_size[rows], 1)
        found[found < columns.min_unit[rows]] = 0
    return found


def _room(columns: ClassColumns | None, rows: Rows) -> int:
    return 0 if columns is None else int(columns.room[rows].max())
