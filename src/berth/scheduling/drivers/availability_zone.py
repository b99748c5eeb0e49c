"""The availability zone scheduler: any host of the zone that was asked for, with equal chance.

The scheduler of 2011 of that name looked at zone and heartbeat alone (nova-behaviour.md 1.1).
Here the
policy's filters hold too, whether or not it names these two, and the claim commits.
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
    """Takes a host of the request's zone at random; of any zone when it names none."""

    zone: Filter
    name: str = "availability_zone"

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        whole = self.effective(policy, request.operation)
        return ChanceScheduler().plan(hosts, request, whole, now_s=now_s, seed=seed)

    def effective(self, policy: Policy, operation: Operation) -> Policy:
        """See `RuledDriver.effective`: heartbeat and zone come first, unless they are there."""
        del operation
        names = {rule.name for rule in policy.filters}
        added = [one for one in (service_is_up.build(), self.zone) if one.name not in names]
        return replace(policy, filters=(*added, *policy.filters)) if added else policy


def build(*, default_availability_zone: str = "nova") -> AvailabilityZoneScheduler:
    """Make the driver.

    Args:
        default_availability_zone: the zone of hosts that no aggregate puts in one; it counts when
            the policy has no AvailabilityZoneFilter, which has an option of its own for it.
    """
    zone = in_availability_zone.build(default_availability_zone=default_availability_zone)
    return AvailabilityZoneScheduler(zone)
