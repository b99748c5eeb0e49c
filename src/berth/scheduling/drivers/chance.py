"""The chance scheduler: a random host of those that pass the filters.

Nova's scheduler of this name only checked whether a host was up, and claimed nothing. This one
applies all filters of the policy; only the choice among the remaining hosts is random.
"""

from dataclasses import dataclass

import numpy as np

from berth.domain.compute.request import Request
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.evaluation.selection import RandomSource
from berth.scheduling.plan.planning import SelectionStrategy, plan_instances
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class ChanceScheduler:
    """Chooses a host at random and ignores the weighers."""

    name: str = "chance"

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        strategy = SelectionStrategy(_unweighed, _any)
        return plan_instances(hosts, request, policy, strategy, now_s=now_s, seed=seed)


def _unweighed(hosts: HostTable, query: Query, rows: Rows) -> FullRanking:
    del query
    # All scores are equal, so all hosts tie, and `_any` chooses among them sorted by name.
    return FullRanking(hosts, rows, np.zeros(rows.size, dtype=np.float64))


def _any(ranked: Ranking, random_source: RandomSource) -> tuple[int, list[int]]:
    # `tied` lists hosts by name, so the choice does not depend on the order of their addition.
    tied = ranked.tied()
    return tied[random_source.random.randrange(len(tied))], []


def build() -> ChanceScheduler:
    """Build the driver; it has no options."""
    return ChanceScheduler()
