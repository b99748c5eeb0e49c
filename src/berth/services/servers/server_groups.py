"""Creates and removes server groups. Membership is a property of the instances."""

from berth.domain.compute.quota import UNLIMITED, Excess, Limits, QuotaExceededError
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Remove, Unit
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.providers.guarded_saves import save, save_guarded
from berth.services.requests.child_zone_instances import members_in_child_zones
from berth.services.requests.quotas import QuotaLimits


class ServerGroups:
    """Manages server groups, each of which belongs to a project.

    Args:
        ledger: stores the groups.
        quota_limits: the limits of projects; None for no limits.
    """

    def __init__(self, ledger: Ledger, quota_limits: QuotaLimits | None = None) -> None:
        self._ledger = ledger
        self._quota_limits = quota_limits

    async def create(self, group: ServerGroup) -> ServerGroup:
        """Store a new group and return it.

        Raises:
            QuotaExceededError: the quota of its project does not allow another group.
            ConflictError: the group already exists, or every attempt lost a race against another
                change.
            UnavailableError: the ledger cannot be reached.
        """
        limits = (
            Limits()
            if self._quota_limits is None
            else self._quota_limits.of_project(group.project_id)
        )
        if limits.server_groups == UNLIMITED:
            await save(self._ledger, Add(group))
            return group

        async def read() -> Unit:
            used = len(await self.of_project(group.project_id))
            if used >= limits.server_groups:
                excess = Excess("server_groups", 1, used, limits.server_groups)
                raise QuotaExceededError((excess,))
            return (Add(group),)

        await save_guarded(self._ledger, f"server groups of {group.project_id}", read)
        return group

    async def of_project(self, project_id: str | None) -> list[ServerGroup]:
        """Return the groups of a project, or all groups if `project_id` is None.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        found = await self._ledger.all(ServerGroup)
        return [group for group in found if project_id in (None, group.project_id)]

    async def get(self, uuid: str, project_id: str | None) -> ServerGroup:
        """Return the group with the given uuid in the given project; None means any project.

        Raises:
            NotFoundError: there is no such group, or it belongs to another project.
            UnavailableError: the ledger cannot be reached.
        """
        group = await self._ledger.get(ServerGroup, uuid)
        if group is None or project_id not in (None, group.project_id):
            raise NotFoundError("server group", uuid)
        return group

    async def members(self, group: ServerGroup) -> list[str]:
        """Return the uuids of a group's instances here, then in child zones, each oldest first.

        As in Nova, soft-deleted instances are left out, although placement counts them.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        query = InstanceQuery(group_uuid=group.uuid, soft_too=True, limit=10_000)
        found = await self._ledger.instances(query)
        below = await members_in_child_zones(self._ledger, group.uuid, group.project_id)
        here = [instance.uuid for instance in reversed(found)]
        # An instance on its way to a child zone is in both lists until its request has ended.
        return list(dict.fromkeys([*here, *(one.instance_uuid for one in below)]))

    async def delete(self, uuid: str, project_id: str | None) -> None:
        """Remove a group; its instances are not affected.

        Raises:
            NotFoundError: there is no such group, or it belongs to another project.
            ConflictError: the group was removed at the same time.
            UnavailableError: the ledger cannot be reached.
        """
        await self.get(uuid, project_id)
        await save(self._ledger, Remove(Kind.SERVER_GROUP, uuid))
