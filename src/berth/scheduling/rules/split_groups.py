"""Split groups: server groups of which a member is on its way, and counts on two hosts."""

from berth.tables.host.hosts import HostTable


def is_split(hosts: HostTable, group_uuid: str) -> bool:
    """Tell whether a member may end on either of two hosts, so that none is the group's own.

    A resize that stays on its host splits nothing.
    """
    if not hosts.occupants.is_moving(group_uuid) and not hosts.orphans.is_moving(group_uuid):
        return False
    rows = hosts.occupants.group_rows(group_uuid)
    return len(rows) + hosts.orphans.has_member(group_uuid) > 1
