"""The policy in force, the drivers that carry it out, and the plan that comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from berth.domain.compute.decision import FilterCount, Placement, Refusal
from berth.domain.compute.request import Operation, Request
from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher
from berth.tables.host.hosts import HostTable

CONTENDED_SUBSET_SIZE: Final = 64
"""How many of the best hosts a scheduler chooses among at most that loses claims to others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was chosen: one placement an instance, or a refusal and none.

    `amounts` is what one instance needs. `filters` counts the hosts along the chain for the last
    instance that was looked at.
    """

    amounts: Mapping[str, int]
    placements: tuple[Placement, ...] = ()
    filters: tuple[FilterCount, ...] = ()
    refusal: Refusal | None = None


class Driver(Protocol):
    """Makes plans. A driver has no state: all that it knows comes with the call."""

    @property
    def name(self) -> str:
        """The name it is configured by."""
        ...

    def plan(
        self, hosts: HostTable, request: Request, policy: "Policy", *, now_s: float, seed: int
    ) -> Plan:
        """Choose a host for every instance of the request, or none at all.

        The table is the same after the call as before.

        Args:
            hosts: the table to choose from.
            request: what is asked.
            policy: the rules in force.
            now_s: Unix seconds, for heartbeats.
            seed: makes every random choice of this plan; equal seeds, equal plan.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
        """
        ...


@runtime_checkable
class FilteringDriver(Protocol):
    """A driver that holds hosts to filters of its own, beside the policy's.

    Its `plan` takes the policy as it is in the file, and applies these filters itself.
    """

    def effective(self, policy: "Policy", operation: Operation) -> "Policy":
        """Return the policy with the filters that the driver adds for an operation."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules in force, in order, and how to choose among the best.

    `hash` is a digest of the whole document that the policy was read from. A host is chosen at
    random among the best `host_subset_size`, and among up to `contended_subset_size` while other
    schedulers take what was chosen. `alternates` is how many hosts are named to be tried first
    should a build fail.
    """

    name: str
    hash: str
    driver: Driver
    filters: tuple[Filter, ...]
    weighers: tuple[Weigher, ...]
    host_subset_size: int = 1
    contended_subset_size: int = CONTENDED_SUBSET_SIZE
    shuffle_best_same_weighed_hosts: bool = False
    normalisation: Normalisation = Normalisation.NOVA
    costs: tuple[Cost, ...] = ()
    """Of the least-cost scheduler."""
    runners_up: int = 3
    alternates: int = 2

    def effective(self, operation: Operation) -> "Policy":
        """Return the policy with all filters that hold for an operation, the driver's too."""
        driver = self.driver
        return driver.effective(self, operation) if isinstance(driver, FilteringDriver) else self

    def with_subset_size(self, hosts: int) -> "Policy":
        """Return the policy that chooses at random among so many of the best hosts, or more."""
        return self if hosts <= self.host_subset_size else replace(self, host_subset_size=hosts)

    @property
    def service_down_time_s(self) -> float:
        """Seconds without a heartbeat after which a compute service counts as down."""
        found = self._option("service_down_time_s")
        return float(found) if isinstance(found, int | float) else 60.0

    @property
    def default_availability_zone(self) -> str:
        """The zone of hosts that no aggregate puts in one, as new instances ask for it."""
        effective = self.effective(Operation.CREATE)
        return str(effective._option("default_availability_zone") or "nova")  # noqa: SLF001

    def _option(self, name: str) -> object:
        return next((rule.options[name] for rule in self.filters if name in rule.options), None)
