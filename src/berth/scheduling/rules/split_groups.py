"""Split server groups: groups with a moving member that may end up on either of two hosts."""

from berth.tables.host.hosts import HostTable


def is_split(hosts: HostTable, group_uuid: str) -> bool:
    """Return whether a group has a moving member that may end up on either of two hosts.

    In a split group, no host is certain to hold all members. A resize on the same host does not
    split a group.
    """
    if not hosts.occupants.is_moving(group_uuid) and not hosts.orphans.is_moving(group_uuid):
        return False
    rows = hosts.occupants.groups.rows(group_uuid)
    return len(rows) + hosts.orphans.has_member(group_uuid) > 1
