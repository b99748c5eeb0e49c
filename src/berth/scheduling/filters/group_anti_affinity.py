"""ServerGroupAntiAffinityFilter: not too many members of the group on one host."""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, is_row, spread
from berth.tables.host.hosts import HostTable

NAME = "ServerGroupAntiAffinityFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 6.1)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("group", "instance_uuid"), columns=("instances",)),
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.ANTI_AFFINITY:
        return None
    members = spread(hosts.occupants.group_rows(group.uuid), rows)
    kept: Mask = members < group.max_server_per_host
    here = hosts.occupants.by_uuid.get(query.instance_uuid)
    if here is not None:  # an instance that is moved may stay where it is
        kept |= is_row(here.row, rows)
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    group = query.group
    members = hosts.occupants.group_rows(group.uuid).get(row, 0) if group else 0
    most = group.max_server_per_host if group else 0
    return f"it has {members} of at most {most} members of the group"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    name = query.group.name if query.group else ""
    return without(NAME, name, f"the anti-affinity of group {name}", hosts, rows)
