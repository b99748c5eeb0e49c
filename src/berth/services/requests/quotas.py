"""Quotas: what projects may have, and what they have."""

from collections.abc import Mapping
from typing import NamedTuple

from berth.domain.compute.quota import CLASS_DEFAULT, UNLIMITED, Footprint, Limits, Quota
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Unit
from berth.domain.revising import fast_replace
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save_guarded
from berth.services.replica.follower import Follower
from berth.services.requests.quota_limits import Limiting

LIMIT_MAX = 2**31 - 1
"""The largest limit, as Nova has it."""


class Used(NamedTuple):
    """What a project has."""

    footprint: Footprint
    server_groups: int


class Quotas:
    """Use cases about quotas.

    Args:
        ledger: where they are kept.
        follower: has this process know what it has changed itself.
        limiting: knows what holds.
    """

    def __init__(self, *, ledger: Ledger, follower: Follower, limiting: Limiting) -> None:
        self._ledger = ledger
        self._follower = follower
        self._limiting = limiting

    @property
    def defaults(self) -> Limits:
        """What holds for a project that has no quota of its own."""
        return self._limiting.defaults

    async def of_project(self, project_id: str) -> Limits:
        """Return what a project may have, as of now."""
        await self._follower.catch_up()
        return self._limiting.of_project(project_id)

    async def used(self, project_id: str) -> Used:
        """Return what a project has: its instances that are not deleted, and its groups."""
        footprint = await self._ledger.project_footprint(project_id)
        groups = await self._ledger.all(ServerGroup)
        return Used(footprint, sum(group.project_id == project_id for group in groups))

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
