"""The least-cost scheduler: the host with the lowest sum of weighted costs.

Source: nova-behaviour.md 1.2.

Each cost is divided by the greatest cost among the hosts that passed, if that is above 0, and
multiplied by its weight; the lowest sum wins. A policy with `normalisation = "share"` uses costs as
they are, so that sums of different requests and zones can be compared. Unlike in Nova's scheduler
of 2011, instances of the same request that were placed earlier influence the costs, and an unknown
cost function is an error.
"""

from dataclasses import dataclass

import numpy as np

from berth.domain.compute.request import Request
from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking, WeigherScores
from berth.scheduling.evaluation.selection import RandomSource
from berth.scheduling.plan.planning import SelectionStrategy, plan_instances
from berth.scheduling.rules.rule import Normalisation, Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Rows, Selection
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class LeastCostScheduler:
    """Chooses the host with the lowest sum of the policy's costs, and ignores the weighers."""

    name: str = "least_cost"

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        divides = policy.normalisation is not Normalisation.SHARE

        def rank(table: HostTable, query: Query, rows: Rows) -> FullRanking:
            return add_up(table, query, rows, policy.costs, divides=divides)

        def pick(ranked: Ranking, random_source: RandomSource) -> tuple[int, list[int]]:
            del random_source
            first, *others = ranked.best(1 + policy.runners_up)
            return first, others

        return plan_instances(
            hosts, request, policy, SelectionStrategy(rank, pick), now_s=now_s, seed=seed
        )


def add_up(
    hosts: HostTable, query: Query, rows: Rows, costs: tuple[Cost, ...], *, divides: bool = True
) -> FullRanking:
    """Return hosts scored by their negated costs, so that the cheapest host is the best.

    Args:
        hosts: the table.
        query: the query of the instance.
        rows: (K,) the rows that passed the filters.
        costs: the cost functions of the policy.
        divides: whether each cost is divided by the greatest among these hosts, unless that is 0.

    Raises:
        ValueError: a cost function returned a number that is not finite.
    """
    scores = np.zeros(rows.size, dtype=np.float64)
    parts: list[WeigherScores] = []
    for cost in costs if rows.size else ():
        raw = cost.cost(hosts, query, rows)
        # NaN is neither lower nor higher than any number, so the order would be arbitrary.
        if not np.isfinite(raw).all():
            raise ValueError(
                f"cost function {cost.name} returned a number that is not finite; correct it"
            )
        # If all costs are 0, the hosts are equal and there is nothing to divide by.
        greatest = float(raw.max())
        normalised: Scores = raw / greatest if divides and greatest > 0 else raw
        scores -= cost.weight * normalised
        parts.append(WeigherScores(_as_weigher(cost), raw, normalised, -cost.weight))
    return FullRanking(hosts, rows, scores, tuple(parts))


def _as_weigher(cost: Cost) -> Weigher:
    """Return a cost in the form of a weigher, which is how decisions record parts of scores."""

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return cost.cost(hosts, query, rows)

    # A cost function declares no columns that it reads, so nothing may cache its values.
    return Weigher(cost.name, raw, Reads((), (), row_local=False), multiplier=-cost.weight)


def build() -> LeastCostScheduler:
    """Build the driver; its cost functions are the policy's `[[costs]]`."""
    return LeastCostScheduler()
