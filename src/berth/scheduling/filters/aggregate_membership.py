"""Filters that confine a request to certain aggregates, or keep it out of them.

They do what three of Nova's request pre-filters do (nova-behaviour.md 2.8).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.aggregates import (
    TENANT_PREFIX,
    names_of,
    project_aggregates,
    zone_aggregates,
)
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

_TENANT = "TenantAggregateFilter"
_ZONE = "AvailabilityZoneAggregateFilter"
_ISOLATED = "IsolatedAggregatesFilter"
_SCOPE = "trait:"
_REQUIRED = frozenset({"required"})


# ---- the aggregates of a project ------------------------------------------------------------


def build_tenant(
    *,
    limit_tenants_to_placement_aggregate: bool = True,
    placement_aggregate_required_for_tenants: bool = False,
) -> Filter:
    """Build TenantAggregateFilter: the host is in one of the project's aggregates.

    An aggregate belongs to the projects that its metadata names under a key that begins with
    `filter_tenant_id`, as in Nova's pre-filter `require_tenant_aggregate`. Unlike
    AggregateMultiTenancyIsolation, this filter does not keep other projects out of the aggregate.

    Args:
        limit_tenants_to_placement_aggregate: False turns the filter off.
        placement_aggregate_required_for_tenants: True removes every host for a project that has
            no aggregate; False removes none for it.
    """
    required = placement_aggregate_required_for_tenants

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not limit_tenants_to_placement_aggregate:
            return None
        mine = project_aggregates(hosts, query)
        if mine:
            return hosts.memberships.by_row.has_any(mine, rows)
        return np.full(count_of(rows), not required)

    def why(hosts: HostTable, query: Query, row: int) -> str:
        mine = project_aggregates(hosts, query)
        project = f"project {query.request.project_id}"
        if mine:
            return f"{project} is confined to {names_of(hosts, mine)}, and the host is outside"
        return f"{project} has no aggregate ({TENANT_PREFIX}), and the policy requires one"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        what = f"the limit of project {query.request.project_id} to its aggregates"
        return without(_TENANT, "project_id", what, hosts, rows)

    return Filter(
        name=_TENANT,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=("project_id", "project_aggregates"), columns=("aggregates",)),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
        options={"limit_tenants_to_placement_aggregate": limit_tenants_to_placement_aggregate},
    )


# ---- the aggregates of an availability zone -------------------------------------------------


def build_zone() -> Filter:
    """Build AvailabilityZoneAggregateFilter: the host is in the requested zone's aggregates.

    The filter does what Nova's pre-filter `map_az_to_placement_aggregate` does. It does not
    restrict requests for an availability zone without an aggregate, such as the default one: they
    may land anywhere. AvailabilityZoneFilter handles the default availability zone. The filter has
    no options.
    """
    return Filter(
        name=_ZONE,
        keep=_keep_zone,
        why=_why_zone,
        relax=_relax_zone,
        reads=Reads(request=("availability_zone", "zone_aggregates"), columns=("aggregates",)),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
    )


def _keep_zone(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    if not query.request.availability_zone:
        return None
    mine = zone_aggregates(hosts, query)
    if not mine:
        # All hosts pass here only because this table has no such aggregate. None would mean that
        # the filter ignores the query on every table.
        return np.ones(count_of(rows), dtype=np.bool_)
    return hosts.memberships.by_row.has_any(mine, rows)


def _why_zone(hosts: HostTable, query: Query, row: int) -> str:
    zone, named = query.request.availability_zone, names_of(hosts, zone_aggregates(hosts, query))
    mine = ", ".join(sorted(hosts.zones.get(row))) or "no availability zone"
    return f"zone {zone} consists of the aggregates {named}, and the host is in {mine}"


def _relax_zone(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    zone = query.request.availability_zone or ""
    return without(_ZONE, zone, f"the availability zone {zone}", hosts, rows)


# ---- aggregates that require a trait --------------------------------------------------------


def build_isolated(*, enable_isolated_aggregate_filtering: bool = True) -> Filter:
    """Build IsolatedAggregatesFilter: the request requires the traits that the aggregates demand.

    An aggregate with the metadata `trait:X=required` is reserved for requests that require the
    trait X, as in Nova's pre-filter `isolate_aggregates`.

    Args:
        enable_isolated_aggregate_filtering: False turns the filter off.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not enable_isolated_aggregate_filtering:
            return None
        closed = {number for ids in _closed(hosts, query).values() for number in ids}
        return ~hosts.memberships.by_row.has_any(closed, rows)

    return Filter(
        name=_ISOLATED,
        keep=keep,
        why=_why_isolated,
        relax=_relax_isolated,
        reads=Reads(
            request=("needs.traits_required", "needs.groups"),
            columns=("aggregates",),
        ),
        # Placements change no aggregate, so one verdict serves all instances of a request.
        once_per_request=True,
        options={"enable_isolated_aggregate_filtering": enable_isolated_aggregate_filtering},
    )


def _closed(hosts: HostTable, query: Query) -> Mapping[str, frozenset[int]]:
    """Return, by metadata key, the ids of the aggregates whose trait the request does not require.

    Keys with traits that the request requires are left out.
    """
    needs = query.needs
    # Traits of granular groups are included, because Nova takes them from all request groups.
    mine = needs.traits_required.union(*(group.traits_required for group in needs.groups))
    keys = (key for key in hosts.memberships.by_key if key.startswith(_SCOPE))
    return {
        key: frozenset(
            number
            for number, words in hosts.memberships.with_key(key).items()
            if words == _REQUIRED
        )
        for key in keys
        if key.removeprefix(_SCOPE) not in mine
    }


def _why_isolated(hosts: HostTable, query: Query, row: int) -> str:
    here = hosts.memberships.by_row.get(row)
    kept_for = [
        f"{hosts.aggregates[number].name} is reserved for {key.removeprefix(_SCOPE)}"
        for key, ids in sorted(_closed(hosts, query).items())
        for number in sorted(ids & here)
    ]
    return f"{', '.join(kept_for)}, which the request does not require"


def _relax_isolated(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(_ISOLATED, "aggregates", "the reservation of aggregates for traits", hosts, rows)
