"""The report of a replay: counts, times, utilisation and faults."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.lab.service_client import Json
from berth.lab.workload import Workload

_P99 = 0.99


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """The times of one request in milliseconds: of its create over HTTP and of its decision.

    `placed` is the number of placed instances.
    """

    request_ms: float
    decision_ms: float
    placed: int


@dataclass(frozen=True, slots=True)
class ReplayRefusal:
    """One refusal; `proven` means that, by the auditor's records, the request did not fit."""

    arrival: str
    request_id: str
    reason: str
    hint: str
    proven: bool


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Median and 99th percentile, in milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Utilisation:
    """The use of one resource class over the whole fleet, in the unit of the class."""

    used: int
    capacity: int

    @property
    def share(self) -> float:
        """The used fraction of the capacity; 0 if there is no capacity."""
        return self.used / self.capacity if self.capacity else 0.0


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The summary of a replay.

    `faults` lists the broken rules that the auditor found and the deletions that failed; it must be
    empty.
    """

    workload: str
    hosts: int
    hosts_in_use: int
    requests: int
    requests_placed: int
    instances_placed: int
    refusals: tuple[ReplayRefusal, ...]
    refused_by_reason: Mapping[str, int]
    utilisation: Mapping[str, Utilisation]
    request: Quantiles
    decision: Quantiles
    took_s: float
    placements_per_s: float
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def refusals_proven(self) -> int:
        """The number of refusals that the auditor's records confirm."""
        return sum(refused.proven for refused in self.refusals)

    @property
    def is_clean(self) -> bool:
        """Whether there are no faults and every refusal is proven correct."""
        return not self.faults and self.refusals_proven == len(self.refusals)


def summarise(
    workload: Workload,
    hosts: Sequence[Json],
    times: Sequence[RequestTimes],
    refusals: Sequence[ReplayRefusal],
    *,
    took_s: float,
    faults: tuple[str, ...],
) -> ReplayReport:
    """Return the report of a replay.

    Args:
        workload: the replayed workload.
        hosts: the hosts as the service shows them at the end.
        times: the times of all requests, including refused ones.
        refusals: the refused requests.
        took_s: the wall time of the whole replay, in seconds.
        faults: the broken rules and failed deletions.
    """
    instances = sum(one.placed for one in times)
    return ReplayReport(
        workload=workload.name,
        hosts=len(hosts),
        hosts_in_use=sum(bool(host["num_instances"]) for host in hosts),
        requests=len(times),
        requests_placed=sum(bool(one.placed) for one in times),
        instances_placed=instances,
        refusals=tuple(refusals),
        refused_by_reason=dict(Counter(refused.reason for refused in refusals)),
        utilisation=_utilisation(hosts),
        request=_quantiles([one.request_ms for one in times]),
        decision=_quantiles([one.decision_ms for one in times]),
        took_s=took_s,
        placements_per_s=instances / took_s if took_s else 0.0,
        faults=faults,
        notes=workload.notes,
    )


def _utilisation(hosts: Sequence[Json]) -> dict[str, Utilisation]:
    used: Counter[str] = Counter()
    capacity: Counter[str] = Counter()
    # GPUs and other devices are child providers with inventories of their own.
    providers = (one for host in hosts for one in (host, *host.get("children", ())))
    for provider in providers:
        for name, inventory in provider["inventories"].items():
            capacity[name] += inventory["capacity"]
            used[name] += inventory["used"]
    return {name: Utilisation(used[name], capacity[name]) for name in sorted(capacity)}


def _quantiles(values: Sequence[float]) -> Quantiles:
    if not values:
        return Quantiles(0.0, 0.0)
    ordered = sorted(values)
    last = len(ordered) - 1
    return Quantiles(statistics.median(ordered), ordered[round(_P99 * last)])
