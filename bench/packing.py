"""Packing: how well the ready policies fill a fleet, beside First-Fit and Best-Fit.

On openb by the method of the FGD paper (see `berth.lab.inflation`): more and more requests,
nothing departs. On the generator's workload: arrivals and departures. Each seed of each policy is
a task of its own, spread over the processors.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Protocol

from bench.cases import PackingCases
from bench.peer import ROOT
from bench.plain_fleet import BEST_FIT, PLAIN, PlainFleet
from berth.config.policy_file import load_policy
from berth.lab.filling import Filling
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.inflation import Demand, inflate
from berth.lab.openb import GPU_MILLI, read_openb
from berth.lab.workload import (
    Arrival,
    DepartureEvent,
    FlavorSpec,
    FleetHost,
    Workload,
    events,
)

TRACE = ROOT.parent / "shared" / "traces" / "openb"
"""Where the trace is looked for; Berth holds no copy of it."""

MISSING = "the openb trace is not in ../shared/traces/openb: left out"

_PERCENT = 100
_HOSTS_MAX = 8
"""So many times the hosts of the workload are tried, at most."""


class Fleet(Protocol):
    """Takes requests, and lets them go."""

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

    `at_100` is what is allocated when as much was asked for as there is, `final` at 130 %.
    """

    at_100: float
    final: float
    before_refusal: int
    empty_at_50: float


@dataclass(frozen=True, slots=True)
class Churned:
    """One workload of the generator.

    `hosts_needed` refuse nothing; `before_refusal` requests were placed on the workload's own
    fleet; `empty` is the percentage of hosts without an instance on twice that fleet, the mean
    over all arrivals.
    """

    hosts_needed: int
    before_refusal: int
    empty: float


@dataclass(frozen=True, slots=True)
class PackingResult:
    """What one policy came to: means over seeds, None where it was not measured."""

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


def measure_packing(cases: PackingCases) -> Iterator[PackingResult]:
    """Measure every policy, one after the other, and the plain rules before them."""
    has_trace = TRACE.is_dir()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name in (*PLAIN, *cases.policies):
            many = name in cases.openb_thorough
            seeds = range(cases.openb_seeds_thorough if many else cases.openb_seeds)
            numbers = [cases.openb_first_seed + seed for seed in seeds if has_trace]
            sized = numbers[: cases.openb_sized]
            inflated = pool.map(fill_openb, [name] * len(numbers), numbers)
            hosts = pool.map(openb_hosts_needed, [name] * len(sized), sized)
            churned = pool.map(churn, [name] * len(cases.generator_seeds), cases.generator_seeds)
            yield _sum_up(name, list(inflated), list(hosts), list(churned))


def packing_measures(results: Sequence[PackingResult]) -> dict[str, float]:
    """Name every figure, and by how much each policy does with fewer hosts than others."""
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
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def fleet_of(name: str, hosts: Sequence[FleetHost]) -> Fleet:
    """Make a fleet that a ready policy or a plain rule fills."""
    if name in PLAIN:
        return PlainFleet(hosts, name)
    return Filling(hosts, load_policy(Path(name)))


# --- openb ------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _trace() -> Workload:
    """Read the main list; a VCPU is 1/1000 core there, so that all policies see processors."""
    return read_openb(TRACE, nodes="gpu", cpu_class="VCPU")


def fill_openb(name: str, seed: int) -> Inflated:
    """Replay the main list, inflated to 130 % of the GPUs."""
    return fill(name, inflate(_trace(), GPU_MILLI, seed=seed))


def fill(name: str, demand: Demand) -> Inflated:
    """Replay an inflated workload; columns are means over all steps that round to a percent."""
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
    """Tell how many hosts, in their random order, take the first half of the list."""
    workload = inflate(_trace(), GPU_MILLI, seed=seed, demand=0.5).workload

    def suffices(count: int) -> bool:
        fleet = fleet_of(name, workload.hosts[:count])
        return all(
            fleet.arrive(arrival, workload.flavors[arrival.flavor]) for arrival in workload.arrivals
        )

    return least(suffices, 1, len(workload.hosts))


# --- the generator ----------------------------------------------------------------------------


def churn(name: str, seed: int) -> Churned:
    """Replay one workload on fleets of several sizes."""
    settings = GeneratorSettings(seed=seed)
    workload = generate(settings)

    def fleet(count: int) -> tuple[FleetHost, ...]:
        return generate(GeneratorSettings(hosts=count, requests=1, seed=seed)).hosts

    def suffices(count: int) -> bool:
        refusals = walk(fleet_of(name, fleet(count)), workload)
        return not any(True for _ in refusals)

    roomy = fleet_of(name, fleet(2 * settings.hosts))
    empty: list[float] = []
    for _ in walk(roomy, workload, after_each=lambda: empty.append(_PERCENT * roomy.empty_share)):
        pass
    first = next(walk(fleet_of(name, workload.hosts), workload), len(workload.arrivals))
    most = _HOSTS_MAX * settings.hosts
    return Churned(least(suffices, settings.hosts // 2, most), first, fmean(empty))


def walk(
    fleet: Fleet, workload: Workload, after_each: Callable[[], None] | None = None
) -> Iterator[int]:
    """Replay arrivals and departures; yield the number of each request that is refused."""
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
    """Find the least number that suffices by halving, as if every larger one did too."""
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return low
