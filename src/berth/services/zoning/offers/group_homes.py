"""The home zone of a server group with hard affinity, which is the only zone for its members."""

from collections.abc import Collection
from dataclasses import replace

from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.request import Request
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
    """Reads and records the home zones of groups.

    Args:
        ledger: stores the groups.
        replica: the in-memory copy of the groups.
    """

    def __init__(self, ledger: Ledger, replica: Replica) -> None:
        self._ledger = ledger
        self._replica = replica

    def known(self, group: ServerGroup | None) -> ServerGroup | None:
        """Return this zone's record of a group, or the parent's if this zone has none."""
        if group is None:
            return None
        return self._replica.hosts.server_groups.get(group.uuid, group)

    async def group_of(self, request: Request) -> ServerGroup | None:
        """Return the server group of a request, or None if it has none.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        uuid = request.group_uuid
        if uuid is None:
            return None
        known = self._replica.hosts.server_groups.get(uuid)
        # Children need the group in their orders. The ledger is read when the group is newer than
        # the replica.
        return known or await self._ledger.get(ServerGroup, uuid)

    async def bind(
        self, group: ServerGroup | None, where: HostTerms | ChildTerms
    ) -> ServerGroup | None:
        """Record a group and its home zone when its first members are about to go there.

        A group that is new to this zone is stored under the parent's uuid. Only a group with hard
        affinity gets a home zone.

        Returns:
            The stored group, whose home may be another zone; None if `group` is None.

        Raises:
            ConflictError: the group's record kept changing through all retries.
            UnavailableError: the ledger cannot be reached.
        """
        # The home is recorded before any member is built. Otherwise two requests for one group
        # could choose different zones, and its members would end up apart.
        if group is None:
            return None
        known = self._replica.hosts.server_groups.get(group.uuid)
        if known is not None and not is_together(known):
            return known
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
        raise ConflictError(f"cannot bind server group {group.uuid}: it keeps changing; try again")

    async def leave(self, group: ServerGroup, *, but: Collection[str]) -> ServerGroup | None:
        """Remove a group's home zone if the group has no members.

        Args:
            group: a group with hard affinity.
            but: uuids of instances that are about to become members and do not count yet.

        Returns:
            The group without a home. None if it is not recorded here, or if it keeps its home
            because it has members or its record has just changed.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        seen = await self._ledger.version()
        stored = await self._ledger.get(ServerGroup, group.uuid)
        if stored is None or stored.zone_id is None:
            return stored
        if await self._has_members(stored, but):
            return None
        # The guard fails when a member was delegated since the version was read: delegation takes
        # the same guard, shared.
        free = replace(stored, zone_id=None)
        guard = Guard(home_guard(group.uuid), seen)
        (outcome,) = await self._ledger.commit([(guard, Put(free))])
        return free if isinstance(outcome, Committed) else None

    async def seen_by_all(self, group: ServerGroup | None) -> ServerGroup | None:
        """Return a group, but without its home zone if it has no members; nothing is recorded.

        A request for a group without members may go to any zone, because a select removes a home
        zone that has too little room; see `leave`.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        if group is None or home_of(group) is None or await self._has_members(group, ()):
            return group
        return replace(group, zone_id=None)

    async def _has_members(self, group: ServerGroup, but: Collection[str]) -> bool:
        query = InstanceQuery(group_uuid=group.uuid, limit=_MEMBERS_MAX)
        here = await self._ledger.instances(query)
        if any(_is_member(one) for one in here if one.uuid not in but):
            return True
        below = await self._ledger.remote_instances(project_id=group.project_id or None)
        return any(_may_be_member(one, group) for one in below)


def home_guard(group_uuid: str) -> str:
    """Return the name of the guard on a group's home zone."""
    return f"zone of server group {group_uuid}"


def _is_member(instance: Instance) -> bool:
    """Return whether an instance has a host or is being scheduled."""
    return instance.host is not None or instance.task is Task.SCHEDULING


def _may_be_member(remote: RemoteInstance, group: ServerGroup) -> bool:
    """Return whether a remote instance may belong to a group and is not deleted or withdrawn."""
    is_wanted = remote.stage is not RemoteInstanceStage.WITHDRAWING and remote.counts_as is not None
    # Records of older versions have no group (None). They count as members, because a group with
    # members must keep its home.
    return is_wanted and remote.group_uuid in {None, group.uuid}


def is_together(group: ServerGroup | None) -> bool:
    """Return whether a group's members must be on one host."""
    return group is not None and group.policy is GroupPolicy.AFFINITY


def home_of(group: ServerGroup | None) -> int | None:
    """Return the id of the only zone that a group's members may go to, or None for any zone.

    The id of this zone is 0.
    """
    return group.zone_id if group is not None and is_together(group) else None


def home_at(where: HostTerms | ChildTerms) -> int:
    """Return the id of the zone that an offer's terms lead to, 0 for this one."""
    return where.zone_id if isinstance(where, ChildTerms) else 0
