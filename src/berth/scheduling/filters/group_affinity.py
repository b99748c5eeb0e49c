"""ServerGroupAffinityFilter: all members of the group are on one host.

A member on a host that is not in the table counts, too: until that host is back, no other will do.
One that is on its way between two hosts may end on either, so until it has arrived for good there
is no host for another (docs/adr/0007-guards.md).
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.scheduling.rules.split_groups import is_split
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of, spread
from berth.tables.host.hosts import HostTable

NAME = "ServerGroupAffinityFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 6.1)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("group", "group_rows"), columns=("instances",)),
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.AFFINITY:
        return None
    members = hosts.occupants.group_rows(group.uuid)
    if not members and not hosts.orphans.has_member(group.uuid):
        return np.ones(count_of(rows), dtype=np.bool_)
    if is_split(hosts, group.uuid):
        return np.zeros(count_of(rows), dtype=np.bool_)
    kept: Mask = spread(members, rows) > 0
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    if query.group is not None and is_split(hosts, query.group.uuid):
        return "a member of the group is on its way between two hosts and may end on either"
    return "it has no member of the group, and other hosts have"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    name = query.group.name if query.group else ""
    return without(NAME, name, f"the affinity of group {name}", hosts, rows)
