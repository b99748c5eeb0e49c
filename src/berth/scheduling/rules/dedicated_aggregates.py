"""Aggregates that a request has to be in, because their metadata names its project or its zone.

Which they are depends on all aggregates there are, on those without hosts too: an aggregate that
loses its last host does not set its project free.
"""

from berth.domain.compute.aggregate import AZ_KEY
from berth.scheduling.rules.rule import Query
from berth.tables.host.hosts import HostTable

TENANT_PREFIX = "filter_tenant_id"
"""Every key of metadata that begins so names projects."""


def project_aggregates(hosts: HostTable, query: Query) -> frozenset[int]:
    """Return the aggregates whose metadata names the project of the request."""
    project_id = query.request.project_id
    if not project_id:
        return frozenset()
    memberships = hosts.memberships
    tables = [memberships.with_key(key) for key in memberships.by_key if _names_projects(key)]
    return frozenset(n for table in tables for n, words in table.items() if project_id in words)


def zone_aggregates(hosts: HostTable, query: Query) -> frozenset[int]:
    """Return the aggregates that make the availability zone that was asked for."""
    zone = query.request.availability_zone
    if not zone:
        return frozenset()
    by_aggregate = hosts.memberships.with_key(AZ_KEY)
    return frozenset(number for number, words in by_aggregate.items() if zone in words)


def names_of(hosts: HostTable, aggregate_ids: frozenset[int]) -> str:
    """Return the names of aggregates in words, by id."""
    return ", ".join(hosts.aggregates[number].name for number in sorted(aggregate_ids))


def _names_projects(key: str) -> bool:
    return key.startswith(TENANT_PREFIX)
