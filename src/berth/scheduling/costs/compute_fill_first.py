"""compute_fill_first: free memory in MiB, so the fullest host costs least (nova-behaviour.md 1.2).

Free memory is the physical total minus reserved and used memory, without the allocation ratio; an
overcommitted host costs nothing.
"""

import numpy as np

from berth.domain.inventory.resources import MEMORY_MB
from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "compute_fill_first"


def build(*, weight: float = 1.0) -> Cost:
    """Build the cost function.

    Args:
        weight: the weight of the cost in the sum; a negative weight prefers the emptiest host.
    """
    return Cost(NAME, _cost, weight)


def _cost(hosts: HostTable, query: Query, rows: Selection) -> Scores:
    del query
    columns = hosts.resource(MEMORY_MB)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.float64)
    # A cost must be at least 0, and the free memory of an overcommitted host is negative.
    return np.maximum(columns.physical_free[rows], 0).astype(np.float64)
