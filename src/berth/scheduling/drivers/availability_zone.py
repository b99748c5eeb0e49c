"""The availability zone scheduler: a random host of the requested availability zone.

Nova's scheduler of this name (2011) checked only the availability zone and the heartbeat
(nova-behaviour.md 1.1). This one also applies the policy's filters.
"""

from dataclasses import dataclass, replace

from berth.domain.compute.request import Operation, Request
from berth.scheduling.drivers.chance import ChanceScheduler
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.filters import in_availability_zone, service_is_up
from berth.scheduling.rules.rule import Filter
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class AvailabilityZoneScheduler:
    """Chooses a random host of the request's availability zone, or of any if it names none."""

    zone: Filter
    name: str = "availability_zone"

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        whole = self.effective(policy, request.operation)
        return ChanceScheduler().plan(hosts, request, whole, now_s=now_s, seed=seed)

    def effective(self, policy: Policy, operation: Operation) -> Policy:
        """See `FilteringDriver.effective`: adds missing heartbeat and availability zone filters."""
        del operation
        # Filters are compared by name, so that a filter that the policy already has keeps its
        # options.
        names = {rule.name for rule in policy.filters}
        added = [one for one in (service_is_up.build(), self.zone) if one.name not in names]
        return replace(policy, filters=(*added, *policy.filters)) if added else policy


def build(*, default_availability_zone: str = "nova") -> AvailabilityZoneScheduler:
    """Build the driver.

    Args:
        default_availability_zone: the availability zone of hosts whose aggregates set none. A
            policy with AvailabilityZoneFilter uses the option of that filter instead.
    """
    zone = in_availability_zone.build(default_availability_zone=default_availability_zone)
    return AvailabilityZoneScheduler(zone)
