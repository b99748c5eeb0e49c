"""noop: a cost of 1 for every host (nova-behaviour.md 1.2).

If it is the policy's only cost, the first host by name wins.
"""

import numpy as np

from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "noop"


def build(*, weight: float = 1.0) -> Cost:
    """Build the cost function.

    Args:
        weight: the weight of the cost in the sum; it changes no choice between hosts.
    """
    return Cost(NAME, _cost, weight)


def _cost(hosts: HostTable, query: Query, rows: Selection) -> Scores:
    del hosts, query
    return np.ones(count_of(rows), dtype=np.float64)
