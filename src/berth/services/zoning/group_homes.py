"""Group homes: the one zone that members of a group go to who have to be together."""

from dataclasses import replace

from berth.domain.errors import ConflictError
from berth.domain.offer import ChildTerms, HostTerms
from berth.domain.server_group import GroupPolicy, ServerGroup
from berth.domain.write import Committed, Guard, Put
from berth.ports.ledger import Ledger
from berth.services.replica import Replica

_TRIES = 5


class GroupHomes:
    """Knows where groups with hard affinity are, and writes it down when their first members go.

    Args:
        ledger: has the groups.
        replica: has them in memory.
    """

    def __init__(self, ledger: Ledger, replica: Replica) -> None:
        self._ledger = ledger
        self._replica = replica

    def known(self, group: ServerGroup | None) -> ServerGroup | None:
        """Return a group as this zone knows it, or else as a parent has told."""
        if group is None:
            return None
        return self._replica.hosts.server_groups.get(group.uuid, group)

    async def bind(
        self, group: ServerGroup | None, where: HostTerms | ChildTerms
    ) -> ServerGroup | None:
        """Have a group be where its first members go, unless it is somewhere already.

        One that this zone does not know yet is kept under its own uuid.

        Returns:
            The group as it is in the ledger, which may name another zone; None when there is none.

        Raises:
            ConflictError: others keep changing it.
            UnavailableError: the ledger cannot be reached.
        """
        if group is None:
            return None
        mine = self._replica.hosts.server_groups.get(group.uuid)
        if mine is not None and (mine.zone_id is not None or not is_together(mine)):
            return mine
        home = home_at(where) if is_together(group) else None
        for _ in range(_TRIES):
            seen = await self._ledger.version()
            stored = await self._ledger.get(ServerGroup, group.uuid)
            if stored is not None and (stored.zone_id is not None or home is None):
                return stored
            bound = replace(stored or group, zone_id=home)
            guard = Guard(f"zone of server group {group.uuid}", seen)
            (outcome,) = await self._ledger.commit([(guard, Put(bound))])
            if isinstance(outcome, Committed):
                return bound
        raise ConflictError(f"server group {group.uuid} keeps changing; try again")


def is_together(group: ServerGroup | None) -> bool:
    """Tell whether a group's members have to be on one host."""
    return group is not None and group.policy is GroupPolicy.AFFINITY


def home_of(group: ServerGroup | None) -> int | None:
    """Return the only zone that a group's members may go to, 0 for this one; None for any."""
    return group.zone_id if group is not None and is_together(group) else None


def home_at(where: HostTerms | ChildTerms) -> int:
    """Return the number of the zone that a place is in, 0 for this one."""
    return where.zone_id if isinstance(where, ChildTerms) else 0
