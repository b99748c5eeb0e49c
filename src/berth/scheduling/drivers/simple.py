"""The simple scheduler: the host with the fewest CPUs in use, up to a limit.

Nova's scheduler of 2010 went through the hosts in ascending order of used CPUs and gave up at the
first that would exceed `max_cores` (nova-behaviour.md 1.1), since all later ones would exceed it as
well. This one applies the policy's filters first, and its refusal names the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import Operation, Request
from berth.domain.inventory.resources import VCPU, check_name
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.evaluation.selection import RandomSource
from berth.scheduling.granular.group_fit import takes_from_root
from berth.scheduling.plan.planning import SelectionStrategy, plan_instances
from berth.scheduling.rules.rule import (
    UNCOUNTED,
    UNLIMITED,
    Filter,
    Query,
    Reads,
    Scores,
    bound_by,
    count_hosts,
    example_names,
)
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

_LIMIT = "max_cores"


@dataclass(frozen=True, slots=True)
class SimpleScheduler:
    """Chooses the host with the least use of a resource class, and ignores the weighers.

    A host that would exceed `max_cores` of that class is not chosen.
    """

    max_cores: int
    resource_class: str
    name: str = "simple"

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""

        def rank(table: HostTable, query: Query, rows: Rows) -> FullRanking:
            del query
            return FullRanking(table, rows, -_used(table, self.resource_class, rows))

        def pick(ranked: Ranking, random_source: RandomSource) -> tuple[int, list[int]]:
            del random_source
            first, *others = ranked.best(1 + policy.runners_up)
            return first, others

        limited = self.effective(policy, request.operation)
        return plan_instances(
            hosts, request, limited, SelectionStrategy(rank, pick), now_s=now_s, seed=seed
        )

    def effective(self, policy: Policy, operation: Operation) -> Policy:
        """See `FilteringDriver.effective`: adds the limit as the last filter."""
        del operation
        # The limit is a filter, so refusals and explanations treat it like any other rule.
        return replace(policy, filters=(*policy.filters, self._limit()))

    def _limit(self) -> Filter:
        def left(hosts: HostTable, query: Query, rows: Selection) -> Scores:
            asked = query.needs.amounts.get(self.resource_class, 0)
            return self.max_cores - _used(hosts, self.resource_class, rows) - asked

        def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
            kept: Mask = left(hosts, query, rows) >= 0
            return kept

        def why(hosts: HostTable, query: Query, row: int) -> str:
            (above,) = -left(hosts, query, np.array([row]))
            return f"its use would exceed {_LIMIT} = {self.max_cores:,} by {above:,.0f}"

        def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
            above = -left(hosts, query, rows)
            near = rows[above == above.min()]
            text = f"{above.min():,.0f} {self.resource_class} less: {count_hosts(near.size)}"
            change = -int(above.min())
            examples = example_names(hosts, near)
            return [Relaxation(_LIMIT, self.resource_class, text, near.size, change, examples)]

        def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
            asked = query.needs.amounts.get(self.resource_class, 0)
            if asked:
                counts = (left(hosts, query, rows) // asked).astype(np.int64) + 1
            else:
                counts = np.full(rows.size, UNLIMITED, dtype=np.int64)
            return np.where(takes_from_root(hosts, query.needs, rows), counts, UNCOUNTED)

        reads = Reads(request=("needs.amounts",), columns=("used",))
        return Filter(_LIMIT, keep, why, relax, reads, bound=bound_by(repeats), repeats=repeats)


def _used(hosts: HostTable, resource_class: str, rows: Selection) -> Scores:
    columns = hosts.resource(resource_class)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.float64)
    return columns.used[rows].astype(np.float64)


def build(*, max_cores: int = 16, resource_class: str = VCPU) -> SimpleScheduler:
    """Build the driver.

    Args:
        max_cores: the maximum number of CPUs that the instances on one host may use together.
        resource_class: the resource class in which CPUs are counted.

    Raises:
        ValueError: `max_cores` is below 1.
        InvalidInputError: the name of the class is invalid.
    """
    if max_cores < 1:
        raise ValueError(f"max_cores: must be at least 1, not {max_cores}")
    return SimpleScheduler(max_cores, check_name(resource_class, "resource_class"))
