"""A workload: a fleet, its flavors, and the arrivals and departures of instances.

A workload is read from a published trace (`openb`) or generated from a seed (`generator`). All
times are seconds from the start of the trace.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from berth.domain.compute.flavor import Flavor
from berth.domain.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of the fleet.

    `amounts` gives the total of each resource class, in the unit of the class. `devices` are the
    host's child providers, such as GPUs, each as amounts by class.
    """

    name: str
    amounts: dict[str, int]
    traits: tuple[str, ...] = ()
    availability_zone: str | None = None
    devices: tuple[dict[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """A flavor as an operator would create it; `extra_specs` have the compute API's keys."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def flavor(self) -> Flavor:
        """The flavor that the compute API creates from this spec; its id is its name."""
        return Flavor(
            flavor_id=self.name,
            name=self.name,
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            root_gb=self.disk_gb,
            extra_specs=self.extra_specs,
        )


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request for `count` instances, all or none; they stay forever if `lifetime_s` is None."""

    at_s: float
    name: str
    flavor: str
    count: int = 1
    lifetime_s: float | None = None
    availability_zone: str | None = None

    def __post_init__(self) -> None:
        """Reject a negative time or lifetime, and a count below 1.

        Raises:
            InvalidInputError: a time or lifetime is negative, or the count is below 1.
        """
        where = f"arrival {self.name!r}"
        if not self.at_s >= 0:
            raise InvalidInputError(f"{where}: at_s", f"{self.at_s} must be at least 0")
        if self.count < 1:
            raise InvalidInputError(f"{where}: count", f"{self.count} must be at least 1")
        if self.lifetime_s is not None and not self.lifetime_s >= 0:
            raise InvalidInputError(f"{where}: lifetime_s", f"{self.lifetime_s} must be at least 0")


@dataclass(frozen=True, slots=True)
class Workload:
    """A fleet and its arrivals, sorted by `at_s`, then by name.

    `notes` describe simplifications of the source; reports repeat them.
    """

    name: str
    hosts: tuple[FleetHost, ...]
    flavors: dict[str, FlavorSpec]
    arrivals: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject a workload that cannot be replayed.

        Raises:
            InvalidInputError: a host or arrival is repeated, a flavor is unknown, or the arrivals
                are not sorted.
        """
        _check_unique("hosts", [host.name for host in self.hosts])
        _check_unique("arrivals", [arrival.name for arrival in self.arrivals])
        for arrival in self.arrivals:
            if arrival.flavor not in self.flavors:
                reason = (
                    f"{arrival.name!r} requests unknown flavor {arrival.flavor!r}; add it to the "
                    "flavors of the workload"
                )
                raise InvalidInputError("arrivals", reason)
        keys = [(arrival.at_s, arrival.name) for arrival in self.arrivals]
        for before, after in pairwise(keys):
            if after < before:
                reason = f"{after[1]!r} is out of order; sort them by at_s, then by name"
                raise InvalidInputError("arrivals", reason)


@dataclass(frozen=True, slots=True)
class ArrivalEvent:
    """The request of `arrival` is made at `at_s`."""

    at_s: float
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class DepartureEvent:
    """All instances of `arrival` that were placed are deleted at `at_s`."""

    at_s: float
    arrival: Arrival


Event = ArrivalEvent | DepartureEvent


def events(workload: Workload, *, until_s: float | None = None) -> Iterator[Event]:
    """Yield arrivals and departures in time order.

    At equal times departures come first, so that they make room for the arrivals; departures at the
    same time keep the order of their arrivals. With a lifetime of 0 the departure directly follows
    its own arrival.

    Args:
        workload: the trace.
        until_s: the last second, or None for no limit. Without a limit, departures may follow the
            last arrival for months.
    """
    # A heap of departures takes the place of a sorted list of all events, because a trace has up to
    # as many departures as arrivals, and many of them lie beyond `until_s`.
    end_s = float("inf") if until_s is None else until_s
    leaving: list[tuple[float, int]] = []
    for index, arrival in enumerate(workload.arrivals):
        if arrival.at_s > end_s:
            break
        yield from _departures(workload.arrivals, leaving, arrival.at_s)
        yield ArrivalEvent(arrival.at_s, arrival)
        if arrival.lifetime_s is not None:
            heapq.heappush(leaving, (arrival.at_s + arrival.lifetime_s, index))
    yield from _departures(workload.arrivals, leaving, end_s)


def _departures(
    arrivals: Sequence[Arrival], leaving: list[tuple[float, int]], until_s: float
) -> Iterator[DepartureEvent]:
    """Pop and yield departures up to `until_s`; `leaving` is a heap of (second, index)."""
    while leaving and leaving[0][0] <= until_s:
        at_s, index = heapq.heappop(leaving)
        yield DepartureEvent(at_s, arrivals[index])


def _check_unique(field_name: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(field_name, f"{name!r} is repeated; names must differ")
        seen.add(name)
