"""The objects that all request profiles of one policy on one table share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.scheduling.engine.readings import Readings
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The table, rules and readings from which request profiles are created.

    `order` has the row of each host in the order of names; it is None if the rows are in this order
    already.
    """

    hosts: HostTable
    filters: Sequence[Filter]
    weighers: Sequence[Weigher]
    normalisation: Normalisation
    readings: Readings
    order: Rows | None


def rows_by_name(hosts: HostTable) -> Rows | None:
    """Return the rows sorted by host name, or None if all rows are in that order already."""
    alive = hosts.alive_rows()
    ranks = hosts.rank[alive]
    if alive.size == len(hosts) and np.array_equal(ranks, alive):
        return None
    order = np.empty(alive.size, dtype=np.intp)
    order[ranks] = alive
    return order
