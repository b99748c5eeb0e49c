"""AvailabilityZoneAggregateFilter: the host is in an aggregate of the zone that was asked for.

Nova's pre-filter `map_az_to_placement_aggregate` (nova-behaviour.md 2.8). A zone that no
aggregate makes
asks for nothing, the default zone for one: such a request may land in any zone. Use
AvailabilityZoneFilter, which knows the default zone, unless that is wanted.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.dedicated_aggregates import names_of, zone_aggregates
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "AvailabilityZoneAggregateFilter"


def build() -> Filter:
    """Make the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("availability_zone", "zone_aggregates"), columns=("aggregates",)),
        once_per_request=True,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    if not query.request.availability_zone:
        return None
    mine = zone_aggregates(hosts, query)
    if not mine:
        return np.ones(count_of(rows), dtype=np.bool_)
    return hosts.memberships.has_any(mine, rows)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    zone, named = query.request.availability_zone, names_of(hosts, zone_aggregates(hosts, query))
    mine = ", ".join(sorted(hosts.zones.get(row))) or "no availability zone"
    return f"zone {zone} is made by {named}, and the host is in {mine}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    zone = query.request.availability_zone or ""
    return without(NAME, zone, f"the availability zone {zone}", hosts, rows)
