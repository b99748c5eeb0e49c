"""Members: where those of a server group are, by the ledger and by the table."""

from berth.services.replica.instance_overlay import place_of
from berth.services.tracking.reading import read_group
from berth.services.tracking.reloading import View


async def hosts_that_differ(view: View, group_uuid: str) -> set[str]:
    """Return the hosts that have a member of a group by the ledger alone, or by the table alone.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    members = {one.uuid: one for one in await read_group(view.ledger, group_uuid)}
    hosts = view.hosts
    found = {one.name for uuid, one in members.items() if place_of(hosts, uuid) != one.name}
    for row in hosts.occupants.group_rows(group_uuid):
        for uuid in hosts.occupants.on_row(row):
            one = hosts.occupants.by_uuid.get(uuid)
            is_member = one is not None and one.group_uuid == group_uuid
            if is_member and uuid not in members and not view.replica.is_seated(uuid):
                found.add(hosts.name(row))
    return found
