"""Packing: how well the ready policies fill a fleet, compared with First-Fit and Best-Fit.

The openb trace is replayed by the method of the FGD paper (see `berth.lab.inflation`): requests
arrive and none departs. In the generator's workload instances also depart. Each seed of each policy
is a separate task; the tasks run on all processors.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Protocol

from bench.cases import PackingCases
from bench.peer import ROOT
from bench.plain_fleet import BEST_FIT, PLAIN, PlainFleet
from berth.config.policy_file import load_policy
from berth.domain.inventory.resources import VCPU
from berth.lab.fleet_filling import FleetFilling
from berth.lab.generator import GPU, GeneratorSettings, generate
from berth.lab.inflation import InflatedWorkload, asked_of, inflate, total_of
from berth.lab.openb import CPU_MILLI, GPU_MILLI, read_openb
from berth.lab.workload import (
    Arrival,
    DepartureEvent,
    FlavorSpec,
    FleetHost,
    Workload,
    events,
)

TRACE = Path(
    os.environ.get("BERTH_TEST_OPENB_TRACE") or ROOT.parent / "shared" / "traces" / "openb"
)
"""The folder of the openb trace, of which Berth has no copy; by default beside the checkout."""

MISSING = "the openb trace is left out: set BERTH_TEST_OPENB_TRACE to a folder with the trace"

_PERCENT = 100
_MOST_ASKED = 1.3
"""The final demand in the FGD paper, as a multiple of the GPUs."""

_HALF = 0.5
_HOSTS_MAX = 8
"""The largest fleet that is tried, as a multiple of the workload's hosts."""

_FOR_OPENB = "openb"
"""The ready policy that uses the trace's own resource class for processors."""


class Fleet(Protocol):
    """A fleet that places requests and removes them."""

    @property
    def empty_share(self) -> float:
        """The share of the hosts that have no instance."""
        ...

    def arrive(self, arrival: Arrival, spec: FlavorSpec) -> bool:
        """Place all instances of a request, or none; tell which."""
        ...

    def depart(self, arrival: Arrival) -> None:
        """Free what a request's instances have."""
        ...


@dataclass(frozen=True, slots=True)
class Inflated:
    """One replay of openb. Shares are percent of all GPUs, `empty_at_50` percent of the hosts.

    `at_100` is allocated when the requests total the fleet's GPUs, `final` at 130 % of them.
    `before_refusal` is the number of requests placed before the first refusal.
    """

    at_100: float
    final: float
    before_refusal: int
    empty_at_50: float


@dataclass(frozen=True, slots=True)
class Churned:
    """One workload of the generator.

    `hosts_needed` is the smallest number of hosts that refuses nothing. On the workload's own fleet
    `before_refusal` requests were placed before the first refusal, and `gpus` is the percentage of
    GPUs that were allocated, averaged over all arrivals. `empty` is the average percentage of hosts
    without an instance on twice that fleet.
    """

    hosts_needed: int
    before_refusal: int
    empty: float
    gpus: float


@dataclass(frozen=True, slots=True)
class PackingResult:
    """The results of one policy: means over seeds, None if not measured."""

    policy: str
    openb_seeds: int
    at_100: float | None
    final: float | None
    openb_before_refusal: float | None
    empty_at_50: float | None
    openb_hosts_needed: float | None
    hosts_needed: float
    before_refusal: float
    empty: float
    gpus: float


class Metered:
    """A fleet that also counts the amount of one resource class that its instances use."""

    def __init__(self, fleet: Fleet, resource_class: str) -> None:
        self._fleet = fleet
        self._class = resource_class
        self._held: dict[str, int] = {}
        self.used = 0

    @property
    def empty_share(self) -> float:
        """The share of the hosts that have no instance."""
        return self._fleet.empty_share

    def arrive(self, arrival: Arrival, spec: FlavorSpec) -> bool:
        """Place all instances of a request, or none; tell which."""
        placed = self._fleet.arrive(arrival, spec)
        if placed:
            held = self._held[arrival.name] = arrival.count * asked_of(spec, self._class)
            self.used += held
        return placed

    def depart(self, arrival: Arrival) -> None:
        """Free what a request's instances have."""
        self._fleet.depart(arrival)
        self.used -= self._held.pop(arrival.name, 0)


def measure_packing(cases: PackingCases) -> Iterator[PackingResult]:
    """Yield the results of First-Fit, Best-Fit and the policies, in order."""
    has_trace = TRACE.is_dir()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        begun = [
            (name, *_begin(pool, name, cases, has_trace=has_trace))
            for name in (*PLAIN, *cases.policies)
        ]
        for name, inflated, hosts, churned in begun:
            yield _sum_up(name, list(inflated), list(hosts), list(churned))


def _begin(
    pool: Executor, name: str, cases: PackingCases, *, has_trace: bool
) -> tuple[Iterator[Inflated], Iterator[int], Iterator[Churned]]:
    """Submit all tasks of one policy, and return their results as iterators."""
    many = name in cases.openb_thorough
    seeds = range(cases.openb_seeds_thorough if many else cases.openb_seeds)
    numbers = [cases.openb_first_seed + seed for seed in seeds if has_trace]
    return (
        pool.map(partial(fill_openb, name), numbers),
        pool.map(partial(openb_hosts_needed, name), numbers[: cases.openb_sized]),
        pool.map(partial(churn, name), _settings(cases)),
    )


def _settings(cases: PackingCases) -> list[GeneratorSettings]:
    hosts, requests = cases.generator_hosts, cases.generator_requests
    return [GeneratorSettings(hosts, requests, seed) for seed in cases.generator_seeds]


def packing_measures(results: Sequence[PackingResult]) -> dict[str, float]:
    """Return every figure by name, and the ratios of the hosts that policies need."""
    measures: dict[str, float] = {}
    hosts = {one.policy: one.hosts_needed for one in results}
    for one in results:
        key = f"packing.{one.policy}"
        figures = {
            "openb.at_100": one.at_100,
            "openb.final": one.final,
            "openb.before_refusal": one.openb_before_refusal,
            "openb.empty_at_50": one.empty_at_50,
            "openb.hosts_needed": one.openb_hosts_needed,
            "generator.hosts_needed": one.hosts_needed,
            "generator.before_refusal": one.before_refusal,
            "generator.empty": one.empty,
            "generator.gpus": one.gpus,
        }
        measures |= {f"{key}.{name}": value for name, value in figures.items() if value is not None}
        for other in (BEST_FIT, "nova"):
            if other in hosts:
                ratio = round(hosts[other] / one.hosts_needed, 3)
                measures[f"{key}.generator.hosts_vs_{other.replace(' ', '_')}"] = ratio
    return measures


def _sum_up(
    name: str, inflated: Sequence[Inflated], hosts: Sequence[int], churned: Sequence[Churned]
) -> PackingResult:
    return PackingResult(
        policy=name,
        openb_seeds=len(inflated),
        at_100=_mean([one.at_100 for one in inflated]),
        final=_mean([one.final for one in inflated]),
        openb_before_refusal=_mean([one.before_refusal for one in inflated]),
        empty_at_50=_mean([one.empty_at_50 for one in inflated]),
        openb_hosts_needed=_mean(hosts),
        hosts_needed=fmean(one.hosts_needed for one in churned),
        before_refusal=fmean(one.before_refusal for one in churned),
        empty=fmean(one.empty for one in churned),
        gpus=fmean(one.gpus for one in churned),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def fleet_of(name: str, hosts: Sequence[FleetHost]) -> Fleet:
    """Return a fleet that a ready policy, First-Fit or Best-Fit fills."""
    if name in PLAIN:
        return PlainFleet(hosts, name)
    return FleetFilling(hosts, load_policy(Path(name)))


# --- openb ------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _trace(cpu_class: str) -> Workload:
    return read_openb(TRACE, nodes="gpu", cpu_class=cpu_class)


def _demand(name: str, seed: int, demand: float) -> InflatedWorkload:
    """Return the main list for a policy, inflated to a multiple of the GPUs.

    A VCPU is 1/1000 core there, so all policies see processors; the policy `openb` uses the trace's
    own resource class.
    """
    cpu_class = CPU_MILLI if name == _FOR_OPENB else VCPU
    return inflate(_trace(cpu_class), GPU_MILLI, seed=seed, demand=demand)


def fill_openb(name: str, seed: int) -> Inflated:
    """Replay the main list, inflated to 130 % of the GPUs, and return the result."""
    return fill(name, _demand(name, seed, _MOST_ASKED))


def fill(name: str, demand: InflatedWorkload) -> Inflated:
    """Replay an inflated workload; shares are means over all steps that round to a percentage."""
    workload = demand.workload
    fleet = fleet_of(name, workload.hosts)
    asked = granted = 0
    before_refusal: int | None = None
    columns: dict[int, list[int]] = {}
    empty_at_50 = 0.0
    for number, arrival in enumerate(workload.arrivals):
        amount = demand.asked[arrival.flavor]
        if 2 * asked < demand.capacity <= 2 * (asked + amount):
            empty_at_50 = _PERCENT * fleet.empty_share
        asked += amount
        if fleet.arrive(arrival, workload.flavors[arrival.flavor]):
            granted += amount
        elif before_refusal is None:
            before_refusal = number
        columns.setdefault(round(_PERCENT * asked / demand.capacity), []).append(granted)
    at_100 = columns.get(_PERCENT) or [granted]
    return Inflated(
        at_100=_PERCENT * fmean(at_100) / demand.capacity,
        final=_PERCENT * fmean(columns[max(columns)]) / demand.capacity,
        before_refusal=len(workload.arrivals) if before_refusal is None else before_refusal,
        empty_at_50=empty_at_50,
    )


def openb_hosts_needed(name: str, seed: int) -> int:
    """Return how many hosts, in random order, fit the requests for half of the GPUs."""
    workload = _demand(name, seed, _HALF).workload

    def suffices(count: int) -> bool:
        fleet = fleet_of(name, workload.hosts[:count])
        return all(
            fleet.arrive(arrival, workload.flavors[arrival.flavor]) for arrival in workload.arrivals
        )

    return least(suffices, 1, len(workload.hosts))


# --- the generator ----------------------------------------------------------------------------


def churn(name: str, settings: GeneratorSettings) -> Churned:
    """Replay one workload on fleets of several sizes, and return the result."""
    workload = generate(settings)

    def fleet(count: int) -> tuple[FleetHost, ...]:
        return generate(replace(settings, hosts=count, requests=1)).hosts

    def suffices(count: int) -> bool:
        refusals = walk(fleet_of(name, fleet(count)), workload)
        return not any(True for _ in refusals)

    roomy = fleet_of(name, fleet(2 * settings.hosts))
    empty: list[float] = []
    for _ in walk(roomy, workload, lambda: empty.append(_PERCENT * roomy.empty_share)):
        pass
    own = Metered(fleet_of(name, workload.hosts), GPU)
    all_gpus = sum(total_of(host, GPU) for host in workload.hosts)
    gpus: list[float] = []
    refused = list(walk(own, workload, lambda: gpus.append(_PERCENT * own.used / all_gpus)))
    return Churned(
        hosts_needed=least(suffices, settings.hosts // 2, _HOSTS_MAX * settings.hosts),
        before_refusal=refused[0] if refused else len(workload.arrivals),
        empty=fmean(empty),
        gpus=fmean(gpus),
    )


def walk(
    fleet: Fleet, workload: Workload, after_each: Callable[[], None] | None = None
) -> Iterator[int]:
    """Replay arrivals and departures; yield the index of each refused request."""
    number = 0
    for event in events(workload, until_s=workload.arrivals[-1].at_s):
        if isinstance(event, DepartureEvent):
            fleet.depart(event.arrival)
            continue
        if not fleet.arrive(event.arrival, workload.flavors[event.arrival.flavor]):
            yield number
        number += 1
        if after_each is not None:
            after_each()


def least(suffices: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number that suffices, found by bisection; `high + 1` if none does.

    Every number above the least sufficient one is assumed to suffice.
    """
    high += 1
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return low
