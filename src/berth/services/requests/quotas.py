"""Quotas: the limits of projects, their usage, and the checks of new requests.

The limits on instances are part of the unit that creates instances, and the ledger compares them
with the project's usage (`QuotaCheck`). A process learns of a changed quota from the change feed,
shortly after the change.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import (
    CLASS_DEFAULT,
    MAXIMA,
    UNLIMITED,
    Excess,
    Footprint,
    Limits,
    Quota,
    QuotaExceededError,
)
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Put, QuotaCheck, Rejected, Remove, Unit
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.providers.guarded_saves import save_guarded
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.requests.child_zone_instances import members_in_child_zones

# The largest limit, the same as Nova's.
LIMIT_MAX = 2**31 - 1
_NO_LIMITS: Final = Limits()


class ProjectUsage(NamedTuple):
    """The usage of a project: the footprint of its instances, and the number of server groups."""

    footprint: Footprint
    server_groups: int


class FileLimits(NamedTuple):
    """The limits of the files to inject into a server; `content_bytes` is in bytes of base64."""

    files: int
    content_bytes: int
    path_bytes: int


class QuotaLimits:
    """The limits of every project.

    Args:
        replica: provides the quotas that were set.
        defaults: the limits from the settings, for projects without a quota.
    """

    def __init__(self, replica: Replica, defaults: Limits = _NO_LIMITS) -> None:
        self._replica = replica
        self._own_defaults = defaults
        # Usually the settings have no limits, and a create then needs no look-up of its project.
        self._is_free = defaults.footprint == _NO_LIMITS.footprint

    @property
    def defaults(self) -> Limits:
        """The limits of a project without a quota of its own."""
        return self._own_defaults.overridden_by(self._replica.quotas.get(CLASS_DEFAULT))

    def of_project(self, project_id: str) -> Limits:
        """Return the effective limits of a project: its own, or the defaults where it has none."""
        return self.defaults.overridden_by(self._replica.quotas.get(project_id))

    def within(self, project_id: str) -> QuotaCheck | None:
        """Return the quota check for a project's units; None if its instances have no limits."""
        if self._is_free and not self._replica.quotas:
            return None
        limits = self.of_project(project_id).footprint
        return None if limits == _NO_LIMITS.footprint else QuotaCheck(project_id, limits)

    async def check_members(self, ledger: Ledger, request: Request) -> None:
        """Reject members of a server group beyond the project's limit for one group.

        Concurrent requests may exceed the limit together, because each is checked before it is
        placed, as in Nova.

        Raises:
            QuotaExceededError: the limit would be exceeded.
            UnavailableError: the ledger cannot be reached.
        """
        if request.group_uuid is None:
            return
        limit = self.of_project(request.project_id).group_members
        if limit == UNLIMITED:
            return
        query = InstanceQuery(group_uuid=request.group_uuid, limit=limit + 1)
        here = await ledger.instances(query)
        below = await members_in_child_zones(ledger, request.group_uuid, request.project_id)
        members = {one.uuid for one in here} | {one.instance_uuid for one in below}
        used, asked = len(members), len(request.instance_uuids)
        if used + asked > limit:
            raise QuotaExceededError((Excess("group_members", asked, used, limit),))


class CreateDefaults(NamedTuple):
    """Defaults for every create.

    `default_zone` is the availability zone of hosts that are in no other. If `quota_limits` is
    None, only the quotas in the replica apply.
    """

    default_zone: str = "nova"
    quota_limits: QuotaLimits | None = None


def counted_at_larger_size(instance: Instance, to: Flavor) -> Instance:
    """Return an instance that is charged at the larger of its own and another flavor's size."""
    flavor = instance.flavor
    larger = max(flavor.vcpus, to.vcpus), max(flavor.memory_mb, to.memory_mb)
    return fast_replace(instance, counts_as=larger)


def check_excess(outcome: Outcome) -> None:
    """Raise an error if the ledger has rejected a unit because of a quota.

    Raises:
        QuotaExceededError: the unit would exceed its project's quota.
    """
    if isinstance(outcome, Rejected) and outcome.excess:
        raise QuotaExceededError(outcome.excess)


class Quotas:
    """Shows and changes quotas.

    Args:
        ledger: stores the quotas.
        follower: brings this process up to date with its own changes.
        quota_limits: the limits in force.
    """

    def __init__(self, *, ledger: Ledger, follower: Follower, quota_limits: QuotaLimits) -> None:
        self._ledger = ledger
        self._follower = follower
        self._quota_limits = quota_limits

    @property
    def defaults(self) -> Limits:
        """The limits of a project without a quota of its own."""
        return self._quota_limits.defaults

    async def of_project(self, project_id: str) -> Limits:
        """Return the limits of a project, after catching up with the ledger.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        return self._quota_limits.of_project(project_id)

    def metadata_items(self, project_id: str) -> int:
        """Return how many metadata items a server of a project may have, as known to this process.

        -1 stands for the maximum.
        """
        return self._quota_limits.of_project(project_id).bounded("metadata_items")

    def of_files(self, project_id: str) -> FileLimits:
        """Return the limits on files injected into a server, as known to this process."""
        limits = self._quota_limits.of_project(project_id)
        return FileLimits(
            files=limits.bounded("injected_files"),
            content_bytes=limits.bounded("injected_file_content_bytes"),
            path_bytes=limits.bounded("injected_file_path_bytes"),
        )

    async def used(self, project_id: str) -> ProjectUsage:
        """Return a project's usage: instances that are not deleted, and server groups.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        footprint = await self._ledger.project_footprint(project_id)
        groups = await self._ledger.all(ServerGroup)
        return ProjectUsage(footprint, sum(group.project_id == project_id for group in groups))

    async def change(
        self, project_id: str, limits: Mapping[str, int], *, force: bool = False
    ) -> Limits:
        """Set the given limits of a project; its other limits stay as they are.

        Args:
            project_id: the project, or `CLASS_DEFAULT` for the limits of projects that have none of
                their own.
            limits: the new limits by field of `Quota`; -1 means unlimited.
            force: whether to allow a limit below the usage of the project. `CLASS_DEFAULT` has no
                usage and needs no force.

        Returns:
            The effective limits of the project after the change.

        Raises:
            InvalidInputError: a limit is out of range or, without `force`, below the project's
                usage.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """
        for name, limit in limits.items():
            most = MAXIMA.get(name, LIMIT_MAX)
            if not UNLIMITED <= limit <= most:
                raise InvalidInputError(name, f"must be between -1 and {most}, not {limit}")
        if not force and project_id != CLASS_DEFAULT:
            await self._check_used(project_id, limits)

        async def read() -> Unit:
            old = await self._ledger.get(Quota, project_id) or Quota(project_id)
            return (Put(fast_replace(old, **limits)),)

        await save_guarded(self._ledger, f"quota {project_id}", read)
        return await self.of_project(project_id)

    async def reset(self, project_id: str) -> None:
        """Delete a project's own limits, if it has any.

        Raises:
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            found = await self._ledger.get(Quota, project_id)
            return () if found is None else (Remove(Kind.QUOTA, project_id),)

        await save_guarded(self._ledger, f"quota {project_id}", read)
        await self._follower.catch_up()

    async def _check_used(self, project_id: str, limits: Mapping[str, int]) -> None:
        used = await self.used(project_id)
        has = used.footprint._asdict() | {"server_groups": used.server_groups}
        for name, limit in limits.items():
            if UNLIMITED < limit < has.get(name, 0):
                raise InvalidInputError(
                    name,
                    f"the project already uses {has[name]}; pass force to set a limit of {limit}",
                )
