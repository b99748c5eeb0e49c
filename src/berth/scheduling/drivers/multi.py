"""The multi scheduler: another driver for each kind of operation (nova.md 1.1).

The scheduler of 2011 routed by the remote call; here it is by what the request is for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from berth.domain.request import Operation, Request
from berth.scheduling.policy import Driver, Plan, Policy
from berth.tables.hosts import HostTable


@dataclass(frozen=True, slots=True)
class MultiScheduler:
    """Hands each request to the driver of its operation.

    `routes` says which driver's name each operation has, `drivers` are these by name, given by
    whoever knows what is installed.
    """

    routes: Mapping[Operation, str]
    default: str
    drivers: Mapping[str, Driver] = field(default_factory=dict[str, Driver])
    name: str = "multi"

    @property
    def wanted(self) -> frozenset[str]:
        """The names of the drivers that it hands requests to."""
        return frozenset({self.default, *self.routes.values()})

    def with_drivers(self, drivers: Mapping[str, Driver]) -> "MultiScheduler":
        """Return the same with its drivers."""
        return replace(self, drivers=dict(drivers))

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        driver = self.drivers[self.routes.get(request.operation, self.default)]
        return driver.plan(hosts, request, policy, now_s=now_s, seed=seed)


def build(*, default: str = "filter", routes: dict[str, str] | None = None) -> MultiScheduler:
    """Make the driver.

    Args:
        default: the driver of operations that `routes` does not name.
        routes: driver by operation, `{retry = "chance"}`.

    Raises:
        ValueError: there is no such operation, or a driver is this one itself.
    """
    known = {operation.value for operation in Operation}
    for name, driver in (routes or {}).items():
        if name not in known:
            raise ValueError(f"routes.{name}: there is no such operation; {sorted(known)}")
        if driver == "multi":
            raise ValueError(f"routes.{name}: multi cannot hand requests to itself")
    if default == "multi":
        raise ValueError("default: multi cannot hand requests to itself")
    return MultiScheduler({Operation(key): name for key, name in (routes or {}).items()}, default)
