"""ServerGroupAffinityFilter and ServerGroupAntiAffinityFilter: the hard policies of groups.

A member on a host that is missing from the table is still a member: under affinity, no other host
fits until that host is back. A member that is moving between two hosts may end up on either, so
no host fits another member under affinity until the move has ended (docs/adr/0007-guards.md).
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.rule import Filter, Query, Reads, unlimited, without
from berth.scheduling.rules.split_groups import is_split
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of, is_row, spread
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

AFFINITY = "ServerGroupAffinityFilter"
ANTI_AFFINITY = "ServerGroupAntiAffinityFilter"


def build_affinity() -> Filter:
    """Build ServerGroupAffinityFilter: all members of the group share one host.

    The filter has no options (nova-behaviour.md 6.1).
    """
    return Filter(
        name=AFFINITY,
        keep=_keep_together,
        why=_why_together,
        relax=_relax_together,
        # `group_rows` is declared because placing the first member changes the verdict on every
        # row.
        reads=Reads(request=("group", "group_rows"), columns=("instances",)),
        # A host with a member takes any number of further members.
        repeats=unlimited,
    )


def build_anti_affinity() -> Filter:
    """Build ServerGroupAntiAffinityFilter: at most `max_server_per_host` members share a host.

    The filter has no options (nova-behaviour.md 6.1).
    """
    return Filter(
        name=ANTI_AFFINITY,
        keep=_keep_apart,
        why=_why_apart,
        relax=_relax_apart,
        reads=Reads(request=("group", "instance_uuid"), columns=("instances",)),
        repeats=_members_left,
    )


def _keep_together(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.AFFINITY:
        return None
    members = hosts.occupants.groups.rows(group.uuid)
    if not members and not hosts.orphans.has_member(group.uuid):
        return np.ones(count_of(rows), dtype=np.bool_)
    if is_split(hosts, group.uuid):
        return np.zeros(count_of(rows), dtype=np.bool_)
    kept: Mask = spread(members, rows) > 0
    return kept


def _why_together(hosts: HostTable, query: Query, row: int) -> str:
    if query.group is not None and is_split(hosts, query.group.uuid):
        return "a member of the group is moving between two hosts and may end on either"
    return "the members of the group are on other hosts"


def _relax_together(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    name = query.group.name if query.group else ""
    return without(AFFINITY, name, f"the affinity of group {name}", hosts, rows)


def _keep_apart(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.ANTI_AFFINITY:
        return None
    members = spread(hosts.occupants.groups.rows(group.uuid), rows)
    kept: Mask = members < group.max_server_per_host
    here = hosts.occupants.by_uuid.get(query.instance_uuid)
    if here is not None:
        # A member that is being moved is still on its present host, and may stay there.
        kept |= is_row(here.row, rows)
    return kept


def _members_left(hosts: HostTable, query: Query, rows: Rows) -> Ints:
    group = query.group
    if group is None or group.policy is not GroupPolicy.ANTI_AFFINITY:
        return unlimited(hosts, query, rows)
    members = spread(hosts.occupants.groups.rows(group.uuid), rows).astype(np.int64)
    left: Ints = group.max_server_per_host - members
    return left


def _why_apart(hosts: HostTable, query: Query, row: int) -> str:
    group = query.group
    members = hosts.occupants.groups.rows(group.uuid).get(row, 0) if group else 0
    most = group.max_server_per_host if group else 0
    noun = "member" if members == 1 else "members"
    return f"it has {members} {noun} of the group, and the limit is {most}"


def _relax_apart(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    name = query.group.name if query.group else ""
    return without(ANTI_AFFINITY, name, f"the anti-affinity of group {name}", hosts, rows)
