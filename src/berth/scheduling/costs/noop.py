"""noop: every host costs the same, so the first by name wins (nova-behaviour.md 1.2)."""

import numpy as np

from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "noop"


def build(*, weight: float = 1.0) -> Cost:
    """Build the cost function.

    Args:
        weight: how much it counts beside others.
    """
    return Cost(NAME, _cost, weight)


def _cost(hosts: HostTable, query: Query, rows: Selection) -> Scores:
    del hosts, query
    return np.ones(count_of(rows), dtype=np.float64)
