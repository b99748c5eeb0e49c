"""Group homes: the one zone that members of a group go to who have to be together."""

from collections.abc import Collection
from dataclasses import replace

from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Guard, Put
from berth.domain.zones.offer import ChildTerms, HostTerms
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.replica import Replica

_TRIES = 5
_MEMBERS_MAX = 10_000


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
        if mine is not None and not is_together(mine):
            return mine
        home = home_at(where) if is_together(group) else None
        for _ in range(_TRIES):
            seen = await self._ledger.version()
            stored = await self._ledger.get(ServerGroup, group.uuid)
            if stored is not None and (stored.zone_id is not None or home is None):
                return stored
            bound = replace(stored or group, zone_id=home)
            guard = Guard(home_guard(group.uuid), seen)
            (outcome,) = await self._ledger.commit([(guard, Put(bound))])
            if isinstance(outcome, Committed):
                return bound
        raise ConflictError(f"server group {group.uuid} keeps changing; try again")

    async def leave(self, group: ServerGroup, *, but: Collection[str]) -> ServerGroup | None:
        """Have a group be in no zone that has no members any more, or none of which took any.

        Args:
            group: one whose members have to be together.
            but: instances that are to become members, and are none yet.

        Returns:
            The group, free to go to any zone; None when it stays where it is.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        seen = await self._ledger.version()
        stored = await self._ledger.get(ServerGroup, group.uuid)
        if stored is None or stored.zone_id is None:
            return stored
        if await self._has_members(stored, but):
            return None
        free = replace(stored, zone_id=None)
        guard = Guard(home_guard(group.uuid), seen)
        (outcome,) = await self._ledger.commit([(guard, Put(free))])
        return free if isinstance(outcome, Committed) else None

    async def _has_members(self, group: ServerGroup, but: Collection[str]) -> bool:
        query = InstanceQuery(group_uuid=group.uuid, limit=_MEMBERS_MAX)
        here = await self._ledger.instances(query)
        if any(_is_member(one) for one in here if one.uuid not in but):
            return True
        below = await self._ledger.remote_instances(project_id=group.project_id or None)
        return any(_may_be_member(one, group) for one in below)


def home_guard(group_uuid: str) -> str:
    """Return the guard of what rests on which zone a group is in."""
    return f"zone of server group {group_uuid}"


def _is_member(instance: Instance) -> bool:
    """Tell whether an instance has a place, or is on its way to one."""
    return instance.host is not None or instance.task is Task.SCHEDULING


def _may_be_member(remote: RemoteInstance, group: ServerGroup) -> bool:
    """Tell whether a child has a member, as far as its owner has not deleted it."""
    is_wanted = remote.stage is not RemoteInstanceStage.WITHDRAWING and remote.counts_as is not None
    return is_wanted and remote.group_uuid in {None, group.uuid}


def is_together(group: ServerGroup | None) -> bool:
    """Tell whether a group's members have to be on one host."""
    return group is not None and group.policy is GroupPolicy.AFFINITY


def home_of(group: ServerGroup | None) -> int | None:
    """Return the only zone that a group's members may go to, 0 for this one; None for any."""
    return group.zone_id if group is not None and is_together(group) else None


def home_at(where: HostTerms | ChildTerms) -> int:
    """Return the number of the zone that a place is in, 0 for this one."""
    return where.zone_id if isinstance(where, ChildTerms) else 0
