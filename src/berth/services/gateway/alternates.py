"""Alternates: further hosts that a decision names, which the gateway claims after a failed build.

One unit releases the allocation on the failed host and claims the next alternate, without a new
decision. The ledger checks the capacity again; a guard protects the policy of the server group.
Requests that need a choice within the host (NUMA cells, devices, nested providers) are left to a
scheduler (docs/adr/0021-failed-builds-and-alternates.md).
"""

from collections.abc import Callable
from dataclasses import dataclass

from berth.domain.compute.decision import Placement, ScoredHost
from berth.domain.compute.request import Request
from berth.domain.errors import BerthError
from berth.domain.hardware.assignment import Assignment
from berth.domain.inventory.allocation import Allocation
from berth.domain.ledger.write import Guard
from berth.ports.clock import Clock
from berth.scheduling.plan.group_policies import GROUP_FILTERS, group_violation
from berth.services.providers.guarded_saves import group_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.servers.moves import outside_server_group


@dataclass(frozen=True, slots=True)
class Alternate:
    """A host that can take an instance now, according to this process's replica.

    The `guards` make the ledger reject the claim if the server group has changed since this process
    evaluated the host.
    """

    placement: Placement
    allocation: Allocation
    guards: tuple[Guard, ...] = ()


class Alternates:
    """Evaluates alternates on this process's replica.

    Args:
        follower: brings the replica up to date.
        replica: contains the hosts, services and members of server groups.
        clock: provides the time, for the ages of heartbeats.
        service_down_time_s: returns the seconds without a heartbeat after which a service is down.
        default_zone: returns the availability zone of hosts that no aggregate puts in one.
    """

    def __init__(
        self,
        *,
        follower: Follower,
        replica: Replica,
        clock: Clock,
        service_down_time_s: Callable[[], float],
        default_zone: Callable[[], str],
    ) -> None:
        self._follower = follower
        self._replica = replica
        self._clock = clock
        self._service_down_time_s = service_down_time_s
        self._default_zone = default_zone

    async def of(self, request: Request, assignment: Assignment | None) -> list[Alternate]:
        """Return the alternates of a request that can be claimed without a decision, in order.

        The list is empty when the request needs a choice within the host, or the ledger cannot be
        reached.

        Args:
            request: the request for one instance, as a scheduler would receive it.
            assignment: the hardware and child providers that the instance had on the failed host;
                None if it had none.
        """
        needs = request.needs
        takes_choice = needs.groups or needs.topology or needs.devices or assignment
        if takes_choice or not request.alternates:
            return []
        try:
            await self._follower.catch_up()
        except BerthError:
            return []
        found = [self._alternate(request, host, node) for host, node in request.alternates]
        return [one for one in found if one is not None]

    def _alternate(self, request: Request, host: str, node: str) -> Alternate | None:
        hosts = self._replica.hosts
        uuid = hosts.find(host, node)
        if uuid is None or host in request.ignore_hosts or not self._is_up(host):
            return None
        if not self._is_in_zone(uuid, request.availability_zone):
            return None
        (instance_uuid,) = request.instance_uuids
        scored = ScoredHost(host, node, 0.0)
        placement = Placement(instance_uuid, host, node, uuid, candidates=1, chosen=scored)
        allocation = Allocation(instance_uuid, uuid, request.needs.amounts)
        group = hosts.server_groups.get(request.group_uuid or "")
        if group is None or group.policy not in GROUP_FILTERS:
            return Alternate(placement, allocation)
        if self._replica.overlay.hosts:
            # Members learned from casts are newer than the table's version, which the guard would
            # compare, so a guard would not protect the group.
            return None
        with outside_server_group(hosts, instance_uuid):
            if group_violation(hosts, group.uuid, [placement]) is not None:
                return None
        return Alternate(placement, allocation, (Guard(group_guard(group.uuid), hosts.version),))

    def _is_in_zone(self, host_uuid: str, asked: str | None) -> bool:
        hosts = self._replica.hosts
        row = hosts.row_of(host_uuid)
        if asked is None or row is None:
            return True
        return asked in (hosts.zones.get(row) or {self._default_zone()})

    def _is_up(self, host: str) -> bool:
        service = self._replica.hosts.services.get(host)
        if service is None or service.disabled:
            return False
        return service.is_up(self._clock.now_s(), self._service_down_time_s())
