"""TenantAggregateFilter: the host is in an aggregate of the project, when the project has one.

Nova's pre-filter `require_tenant_aggregate` (nova-behaviour.md 2.8): metadata with a key that
begins with
`filter_tenant_id` names the project. Unlike AggregateMultiTenancyIsolation it does not keep
others away from the aggregate; it keeps the project in.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.dedicated_aggregates import TENANT_PREFIX, names_of, project_aggregates
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "TenantAggregateFilter"


def build(
    *,
    limit_tenants_to_placement_aggregate: bool = True,
    placement_aggregate_required_for_tenants: bool = False,
) -> Filter:
    """Make the filter.

    Args:
        limit_tenants_to_placement_aggregate: False switches it off.
        placement_aggregate_required_for_tenants: a project without an aggregate gets no host.
    """
    required = placement_aggregate_required_for_tenants

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not limit_tenants_to_placement_aggregate:
            return None
        mine = project_aggregates(hosts, query)
        if mine:
            return hosts.memberships.has_any(mine, rows)
        return np.full(count_of(rows), not required)

    def why(hosts: HostTable, query: Query, row: int) -> str:
        mine = project_aggregates(hosts, query)
        project = f"project {query.request.project_id}"
        if mine:
            return f"{project} is kept in {names_of(hosts, mine)}, and the host is not in there"
        return f"{project} has no aggregate ({TENANT_PREFIX}), and must have one"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        what = f"the limit of project {query.request.project_id} to its aggregates"
        return without(NAME, "project_id", what, hosts, rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=("project_id", "project_aggregates"), columns=("aggregates",)),
        once_per_request=True,
        options={"limit_tenants_to_placement_aggregate": limit_tenants_to_placement_aggregate},
    )
