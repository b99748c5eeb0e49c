"""AggregateMultiTenancyIsolation: the host's aggregates are kept for no other project.

Every metadata key that begins with `filter_tenant_id` lists projects. A host of which some
aggregate has such a key is for those projects alone; any other host is open to all.
"""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.admission import admits, listed
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "AggregateMultiTenancyIsolation"
_PREFIX = "filter_tenant_id"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("project_id",), columns=("aggregates",)),
        once_per_request=True,
    )


def _keys(hosts: HostTable) -> list[str]:
    return [key for key in hosts.memberships.by_key if key.startswith(_PREFIX)]


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return admits(hosts, _keys(hosts), query.request.project_id, rows)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    project = query.request.project_id or "a request of no project"
    return f"it is kept for the projects {listed(hosts, _keys(hosts), row)}, not for {project}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    # It names no project, since the owner of the request reads it.
    return without(NAME, "project_id", "being kept for other projects", hosts, rows)
