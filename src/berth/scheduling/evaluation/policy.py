"""The policy in force, the drivers that carry it out, and the plans that they make."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from berth.domain.compute.decision import FilterCount, Placement, Refusal
from berth.domain.compute.request import Operation, Request
from berth.scheduling.evaluation.cost import Cost
from berth.scheduling.evaluation.guarded_rules import RuleFailure
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher
from berth.tables.host.hosts import HostTable

CONTENDED_SUBSET_SIZE: Final = 64
"""The default of `Policy.contended_subset_size`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a driver: one placement per instance, or a refusal and no placement.

    `amounts` are the resource amounts of one instance by class. `filters` contains the number of
    hosts before and after each filter for the last instance that was evaluated. `failures` are the
    errors of rules that cost the refusal some of its hints.
    """

    amounts: Mapping[str, int]
    placements: tuple[Placement, ...] = ()
    filters: tuple[FilterCount, ...] = ()
    refusal: Refusal | None = None
    failures: tuple[RuleFailure, ...] = ()


class Driver(Protocol):
    """Makes plans. A driver has no state; each call passes everything that it needs."""

    @property
    def name(self) -> str:
        """The name of the driver in policies."""
        ...

    def plan(
        self, hosts: HostTable, request: Request, policy: "Policy", *, now_s: float, seed: int
    ) -> Plan:
        """Return a plan with a host for every instance of the request, or with a refusal.

        The table is the same after the call as before.

        Args:
            hosts: the table to choose from.
            request: the request.
            policy: the rules in force.
            now_s: Unix seconds, for heartbeats.
            seed: the seed of every random choice in the plan; equal seeds give equal plans.

        Raises:
            InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a
                filter that the request requires.
        """
        ...


@runtime_checkable
class FilteringDriver(Protocol):
    """A driver that adds filters of its own to those of the policy.

    Callers pass the policy to `plan` as it was read from the file; the driver then adds its filters
    itself.
    """

    def effective(self, policy: "Policy", operation: Operation) -> "Policy":
        """Return the policy with its filters and those that the driver adds for an operation."""
        ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules in force, in order, and the options for choosing among the best hosts.

    `hash` is a digest of the whole document that the policy was read from. A host is chosen at
    random among the best `host_subset_size`, and among up to `contended_subset_size` while other
    schedulers win claims on the chosen hosts. `runners_up` is the number of next best hosts that a
    decision records with their scores. `alternates` is the number of hosts that a decision names to
    be tried first if a build fails.
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
    """The cost functions of the least-cost scheduler."""
    runners_up: int = 3
    alternates: int = 2

    def effective(self, operation: Operation) -> "Policy":
        """Return the policy with all filters that apply to an operation, the driver's included."""
        driver = self.driver
        return driver.effective(self, operation) if isinstance(driver, FilteringDriver) else self

    def with_subset_size(self, hosts: int) -> "Policy":
        """Return the policy with a `host_subset_size` of at least `hosts`."""
        return self if hosts <= self.host_subset_size else replace(self, host_subset_size=hosts)

    @property
    def service_down_time_s(self) -> float:
        """Seconds without a heartbeat after which a compute service is considered down."""
        found = self._option("service_down_time_s")
        return float(found) if isinstance(found, int | float) else 60.0

    @property
    def default_availability_zone(self) -> str:
        """The availability zone of hosts whose aggregates set none."""
        effective = self.effective(Operation.CREATE)
        return str(effective._option("default_availability_zone") or "nova")  # noqa: SLF001

    def _option(self, name: str) -> object:
        return next((rule.options[name] for rule in self.filters if name in rule.options), None)
