"""Split server groups: a moving member of theirs may end on either of two hosts."""

from berth.tables.host.hosts import HostTable


def is_split(hosts: HostTable, group_uuid: str) -> bool:
    """Return whether a moving member may end on either of two hosts, so that no host is common.

    A resize on the same host splits nothing.
    """
    if not hosts.occupants.is_moving(group_uuid) and not hosts.orphans.is_moving(group_uuid):
        return False
    rows = hosts.occupants.group_rows(group_uuid)
    return len(rows) + hosts.orphans.has_member(group_uuid) > 1
