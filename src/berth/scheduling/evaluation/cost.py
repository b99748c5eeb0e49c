"""Costs, whose sum the least-cost scheduler minimises (nova-behaviour.md 1.2)."""

from collections.abc import Callable
from dataclasses import dataclass

from berth.scheduling.rules.rule import Query, Scores
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

CostOf = Callable[[HostTable, Query, Selection], Scores]
"""(hosts, query, rows) -> (K,) float64, finite and at least 0: the cost of using each host."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost function and the weight of its result in the sum."""

    name: str
    cost: CostOf
    weight: float = 1.0
    reads_instances: bool = False
    """Whether the cost depends on the instances of the hosts, which must then be known."""
