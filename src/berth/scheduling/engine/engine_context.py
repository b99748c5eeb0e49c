"""The context of request classes: what all of one policy on one table have in common."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.scheduling.engine.readings import Readings
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class EngineContext:
    """Where all classes of one policy on one table are made.

    `order` has the row at each position in the order of names; None when rows are in it.
    """

    hosts: HostTable
    filters: Sequence[Filter]
    weighers: Sequence[Weigher]
    normalisation: Normalisation
    readings: Readings
    order: Rows | None


def rows_by_name(hosts: HostTable) -> Rows | None:
    """Return the row at each position in the order of names; None when rows are in it."""
    alive = hosts.alive_rows()
    ranks = hosts.rank[alive]
    if alive.size == len(hosts) and np.array_equal(ranks, alive):
        return None
    order = np.empty(alive.size, dtype=np.intp)
    order[ranks] = alive
    return order
