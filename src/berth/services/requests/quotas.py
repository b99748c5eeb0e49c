"""Quotas: what projects may have, and what they have."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import (
    CLASS_DEFAULT,
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

LIMIT_MAX = 2**31 - 1
"""The largest limit, as Nova has it."""
_NO_LIMITS: Final = Limits()


class ProjectUsage(NamedTuple):
    """What a project has."""

    footprint: Footprint
    server_groups: int


class QuotaLimits:
    """Knows the limits of every project.

    Args:
        replica: has the quotas that were set.
        defaults: what holds where nothing was set.
    """

    def __init__(self, replica: Replica, defaults: Limits = _NO_LIMITS) -> None:
        self._replica = replica
        self._own_defaults = defaults
        self._is_free = defaults == _NO_LIMITS

    @property
    def defaults(self) -> Limits:
        """What holds for a project that has no quota of its own."""
        return self._own_defaults.overridden_by(self._replica.quotas.get(CLASS_DEFAULT))

    def of_project(self, project_id: str) -> Limits:
        """Return what a project may have at most."""
        return self.defaults.overridden_by(self._replica.quotas.get(project_id))

    def within(self, project_id: str) -> QuotaCheck | None:
        """Return what keeps a unit within a project's limits; None when it has none."""
        if self._is_free and not self._replica.quotas:
            return None  # nobody has limits, so each create is spared a look at them
        limits = self.of_project(project_id).footprint
        return None if limits == _NO_LIMITS.footprint else QuotaCheck(project_id, limits)

    async def check_members(self, ledger: Ledger, request: Request) -> None:
        """Refuse more members of a server group than its project may have in one.

        Requests that come at once may pass it together: each looks before it is placed.

        Raises:
            QuotaExceededError: there would be more.
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
    """What holds for every order: the zone of hosts in none, and limits; None for those set."""

    default_zone: str = "nova"
    quota_limits: QuotaLimits | None = None


def counted_at_larger_size(instance: Instance, to: Flavor) -> Instance:
    """Return an instance that counts for the larger of its own size and another."""
    flavor = instance.flavor
    larger = max(flavor.vcpus, to.vcpus), max(flavor.memory_mb, to.memory_mb)
    return fast_replace(instance, counts_as=larger)


def check_excess(outcome: Outcome) -> None:
    """Raise what a client is told when a unit would have gone above limits.

    Raises:
        QuotaExceededError: it would.
    """
    if isinstance(outcome, Rejected) and outcome.excess:
        raise QuotaExceededError(outcome.excess)


class Quotas:
    """Use cases about quotas.

    Args:
        ledger: where they are kept.
        follower: has this process know what it has changed itself.
        quota_limits: knows what holds.
    """

    def __init__(self, *, ledger: Ledger, follower: Follower, quota_limits: QuotaLimits) -> None:
        self._ledger = ledger
        self._follower = follower
        self._quota_limits = quota_limits

    @property
    def defaults(self) -> Limits:
        """What holds for a project that has no quota of its own."""
        return self._quota_limits.defaults

    async def of_project(self, project_id: str) -> Limits:
        """Return what a project may have, as of now."""
        await self._follower.catch_up()
        return self._quota_limits.of_project(project_id)

    async def used(self, project_id: str) -> ProjectUsage:
        """Return what a project has: its instances that are not deleted, and its groups."""
        footprint = await self._ledger.project_footprint(project_id)
        groups = await self._ledger.all(ServerGroup)
        return ProjectUsage(footprint, sum(group.project_id == project_id for group in groups))

    async def change(
        self, project_id: str, limits: Mapping[str, int], *, force: bool = False
    ) -> Limits:
        """Set limits of a project; those that are not named stay as they are.

        Args:
            project_id: whose; `CLASS_DEFAULT` for all that have none of their own.
            limits: by field of `Quota`; -1 is none.
            force: let a limit be below what the project has.

        Returns:
            What holds for the project from now on.

        Raises:
            InvalidInputError: a limit is out of range, or below what the project has.
        """
        for name, limit in limits.items():
            if not UNLIMITED <= limit <= LIMIT_MAX:
                raise InvalidInputError(name, f"{limit} must be -1 to {LIMIT_MAX}")
        if not force and project_id != CLASS_DEFAULT:
            await self._check_used(project_id, limits)

        async def read() -> Unit:
            old = await self._ledger.get(Quota, project_id) or Quota(project_id)
            return (Put(fast_replace(old, **limits)),)

        await save_guarded(self._ledger, f"quota {project_id}", read)
        return await self.of_project(project_id)

    async def reset(self, project_id: str) -> None:
        """Take a project's own limits away; when it has none that is no error."""

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
                    name, f"the project has {has[name]} already; give force to limit it to {limit}"
                )
