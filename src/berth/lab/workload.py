"""A workload: a fleet, the flavors in use, and who asks for what at which second.

Read from a published trace (`openb`) or drawn from a seed (`generator`); the replayer turns
either into requests. All times are seconds from the start of the trace.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from berth.domain.compute.flavor import Flavor
from berth.domain.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of the fleet: `amounts` is the total of each resource class, in its own unit.

    `devices` are its child providers, such as GPUs, with what each has by class.
    """

    name: str
    amounts: dict[str, int]
    traits: tuple[str, ...] = ()
    availability_zone: str | None = None
    devices: tuple[dict[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """A flavor as an operator would create it; `extra_specs` as the compute API spells them."""

    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def flavor(self) -> Flavor:
        """The flavor that the compute API makes of it; its id is its name."""
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
    """One request for `count` instances, all or none; `lifetime_s` None means they stay."""

    at_s: float
    name: str
    flavor: str
    count: int = 1
    lifetime_s: float | None = None
    availability_zone: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could not have happened.

        Raises:
            InvalidInputError: a negative time or lifetime, or fewer than one instance.
        """
        where = f"arrival {self.name!r}"
        if not self.at_s >= 0:
            raise InvalidInputError(f"{where}: at_s", f"{self.at_s} must be 0 or later")
        if self.count < 1:
            raise InvalidInputError(f"{where}: count", f"{self.count} must be 1 or more")
        if self.lifetime_s is not None and not self.lifetime_s >= 0:
            raise InvalidInputError(f"{where}: lifetime_s", f"{self.lifetime_s} is below 0")


@dataclass(frozen=True, slots=True)
class Workload:
    """A fleet and its arrivals, sorted by `at_s`, then by name.

    `notes` says in plain words what of the source is simplified; reports repeat it.
    """

    name: str
    hosts: tuple[FleetHost, ...]
    flavors: dict[str, FlavorSpec]
    arrivals: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a workload that cannot be replayed.

        Raises:
            InvalidInputError: a host or arrival twice, an unknown flavor, or no time order.
        """
        _check_unique("hosts", [host.name for host in self.hosts])
        _check_unique("arrivals", [arrival.name for arrival in self.arrivals])
        for arrival in self.arrivals:
            if arrival.flavor not in self.flavors:
                reason = f"{arrival.name!r} asks for unknown flavor {arrival.flavor!r}"
                raise InvalidInputError("arrivals", reason)
        keys = [(arrival.at_s, arrival.name) for arrival in self.arrivals]
        if keys != sorted(keys):
            raise InvalidInputError("arrivals", "must be sorted by at_s, then by name")


@dataclass(frozen=True, slots=True)
class ArrivalEvent:
    """A request comes in at `at_s`."""

    at_s: float
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class DepartureEvent:
    """All instances of `arrival` go at `at_s`, if they were placed."""

    at_s: float
    arrival: Arrival


Event = ArrivalEvent | DepartureEvent


def events(workload: Workload, *, until_s: float | None = None) -> Iterator[Event]:
    """Yield arrivals and departures in time order.

    At equal times departures come first, so that what goes makes room for what comes; equal
    departures keep the order of their arrivals. Nothing departs before it has arrived: with a
    lifetime of 0 the departure follows its own arrival at once.

    Args:
        workload: the trace to walk.
        until_s: leave out what happens after this second; months of departures otherwise
            follow the last arrival.
    """
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
    """Pop and yield what leaves no later than `until_s`; `leaving` is a heap of (s, index)."""
    while leaving and leaving[0][0] <= until_s:
        at_s, index = heapq.heappop(leaving)
        yield DepartureEvent(at_s, arrivals[index])


def _check_unique(field_name: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(field_name, f"{name!r} is there twice; names must differ")
        seen.add(name)
