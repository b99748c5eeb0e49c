"""The multi scheduler: one driver per operation (nova-behaviour.md 1.1).

Nova's scheduler of 2011 chose the driver by the name of the remote call; this one chooses it by the
operation of the request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from berth.domain.compute.request import Operation, Request
from berth.scheduling.evaluation.policy import Driver, FilteringDriver, Plan, Policy
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class MultiScheduler:
    """Passes each request to the driver of its operation.

    `routes` maps operations to the names of their drivers, and `default` names the driver of all
    other operations. `options` contains the options of each driver. `drivers` maps names to
    drivers; the policy reader, which knows the installed drivers, sets it.
    """

    routes: Mapping[Operation, str]
    default: str
    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
    drivers: Mapping[str, Driver] = field(default_factory=dict[str, Driver])
    name: str = "multi"

    @property
    def wanted(self) -> frozenset[str]:
        """The names of the drivers that receive requests."""
        return frozenset({self.default, *self.routes.values()})

    def with_drivers(self, drivers: Mapping[str, Driver]) -> "MultiScheduler":
        """Return a copy of the scheduler with these drivers in place of its own, by name."""
        return replace(self, drivers=dict(drivers))

    def plan(
        self, hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
    ) -> Plan:
        """See `Driver.plan`."""
        driver = self._driver_of(request.operation)
        return driver.plan(hosts, request, policy, now_s=now_s, seed=seed)

    def effective(self, policy: Policy, operation: Operation) -> Policy:
        """See `FilteringDriver.effective`: adds the filters of the operation's driver."""
        driver = self._driver_of(operation)
        return (
            driver.effective(policy, operation) if isinstance(driver, FilteringDriver) else policy
        )

    def _driver_of(self, operation: Operation) -> Driver:
        return self.drivers[self.routes.get(operation, self.default)]


def build(
    *,
    default: str = "filter",
    routes: dict[str, str] | None = None,
    options: dict[str, dict[str, object]] | None = None,
) -> MultiScheduler:
    """Build the driver.

    Args:
        default: the driver of operations that `routes` does not name.
        routes: the driver of each operation, such as `{retry = "chance"}`.
        options: the options of these drivers by name, such as `{simple = {max_cores = 64}}`.

    Raises:
        ValueError: an operation is unknown, a route or the default names `multi` itself, or a
            driver has options and receives no requests.
    """
    known = {operation.value for operation in Operation}
    for name, driver in (routes or {}).items():
        if name not in known:
            raise ValueError(
                f"routes.{name}: unknown operation; use one of {', '.join(sorted(known))}"
            )
        # A route to itself would recurse without end.
        if driver == "multi":
            raise ValueError(
                f"routes.{name}: multi cannot pass requests to itself; name another driver"
            )
    if default == "multi":
        raise ValueError("default: multi cannot pass requests to itself; name another driver")
    made = MultiScheduler(
        {Operation(key): name for key, name in (routes or {}).items()}, default, options or {}
    )
    # A misspelled driver name would otherwise leave its options without effect and without notice.
    for name in made.options.keys() - made.wanted:
        raise ValueError(
            f"options.{name}: no request is passed to a driver of this name; name it in routes or"
            " remove its options"
        )
    return made
