"""The filter scheduler, which filters and weighs hosts (nova-behaviour.md 2.1)."""

from dataclasses import dataclass
from typing import Final

from berth.domain.compute.request import Request
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.evaluation.selection import RandomSource, choose_host
from berth.scheduling.evaluation.weighing import weigh
from berth.scheduling.plan.planning import SelectionStrategy, plan_instances
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

RUNNERS_UP_FOR_MAX: Final = 50
"""A decision on more instances than this records no runners-up, which would enlarge it greatly."""


@dataclass(frozen=True, slots=True)
class FilterScheduler:
    """Weighs the hosts that pass the filters and chooses one of the `host_subset_size` best."""

    name: str = "filter"
    incremental: bool = True

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        few = len(request.instance_uuids) <= RUNNERS_UP_FOR_MAX
        shown = policy.runners_up if few else 0

        def rank(table: HostTable, query: Query, rows: Rows) -> FullRanking:
            return weigh(table, query, rows, policy.weighers, policy.normalisation)

        def pick(ranked: Ranking, random_source: RandomSource) -> tuple[int, list[int]]:
            return choose_host(
                ranked,
                subset_size=policy.host_subset_size,
                shuffle=policy.shuffle_best_same_weighed_hosts,
                random_source=random_source,
                shown=shown,
            )

        # The engine may reuse scores, since they come from the policy's weighers alone.
        strategy = SelectionStrategy(rank, pick, incremental=self.incremental)
        return plan_instances(hosts, request, policy, strategy, now_s=now_s, seed=seed)


def build(*, incremental: bool = True) -> FilterScheduler:
    """Build the driver.

    Args:
        incremental: whether similar requests reuse verdicts and scores. Plans are equal either way;
            without it, each request evaluates every rule on every host.
    """
    return FilterScheduler(incremental=incremental)
