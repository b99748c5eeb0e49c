"""Limiting: what a project may have at most, as this process knows it.

The limits that instances have in common go into the unit that makes more of them, where the ledger
compares them with what is there (`QuotaCheck`). A process hears of a changed quota by the feed, a
moment after it was changed.
"""

from typing import Final, NamedTuple

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import CLASS_DEFAULT, UNLIMITED, Excess, Limits, QuotaExceededError
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Outcome, QuotaCheck, Rejected
from berth.domain.revising import fast_replace
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.replica import Replica
from berth.services.requests.remote_members import members_below

_NO_LIMITS: Final = Limits()


class Limiting:
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
        below = await members_below(ledger, request.group_uuid, request.project_id)
        members = {one.uuid for one in here} | {one.instance_uuid for one in below}
        used, asked = len(members), len(request.instance_uuids)
        if used + asked > limit:
            raise QuotaExceededError((Excess("group_members", asked, used, limit),))


class Terms(NamedTuple):
    """What holds for every order: the zone of hosts in none, and limits; None for those set."""

    default_zone: str = "nova"
    limiting: Limiting | None = None


def resizing(instance: Instance, to: Flavor) -> Instance:
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
