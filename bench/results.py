"""Results of one run: the JSON document, and the measures to which floors apply."""

import os
import platform
import sqlite3
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

import berth
from bench.agents import AgentTimes
from bench.cases import Cases
from bench.creates import CreateTimes
from bench.decisions import DecisionTimes
from bench.floors import Verdict
from bench.grouped import GroupedTimes
from bench.hosts import HostTimes, host_measures
from bench.kernel import KernelTimes
from bench.library import LibraryTimes
from bench.memory import MemoryUse
from bench.packing import PackingResult, packing_measures
from bench.parity import Parity
from bench.peer import ROOT, PeerReport, PeerSize
from bench.pinned import PinnedTimes
from bench.placement.measures import placement_measures
from bench.placement.measuring import SizeTimes, TrialTimes
from bench.schedulers import SchedulerTimes
from bench.shared_library import SharedTimes
from bench.timing import Times
from bench.turns import Ratio
from bench.zone_plans import PlanQuality, plan_measures
from bench.zones import ZoneTimes, zone_measures

SCHEMA = 6
FOLDER = ROOT / "bench" / "results"
_PLAIN = 10_000
"""The size of the fleet with which the warm decisions of other fleets are compared."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions of a run."""

    processor: str
    cpus: int
    load_average: float
    python: str
    numpy: str
    sqlite: str
    berth: str
    commit: str


@dataclass(slots=True)
class Results:
    """The results of one run; a part that was not measured is None or empty."""

    taken_at: str
    machine: Machine
    cases: Cases
    decisions: list[DecisionTimes] = field(default_factory=list[DecisionTimes])
    nova: PeerReport | None = None
    nova_weighers_missing: tuple[str, ...] = ()
    parity: tuple[Parity, ...] = ()
    kernel: KernelTimes | None = None
    grouped: GroupedTimes | None = None
    pinned: PinnedTimes | None = None
    memory: MemoryUse | None = None
    library: LibraryTimes | None = None
    shared_library: list[SharedTimes] = field(default_factory=list[SharedTimes])
    http: CreateTimes | None = None
    schedulers: list[SchedulerTimes] = field(default_factory=list[SchedulerTimes])
    agents: list[AgentTimes] = field(default_factory=list[AgentTimes])
    hosts: list[HostTimes] = field(default_factory=list[HostTimes])
    zones: ZoneTimes | None = None
    zone_plans: list[PlanQuality] = field(default_factory=list[PlanQuality])
    packing: list[PackingResult] = field(default_factory=list[PackingResult])
    placement: list[TrialTimes] = field(default_factory=list[TrialTimes])
    placement_sizes: SizeTimes | None = None
    failures: list[str] = field(default_factory=list[str])
    measures: dict[str, float] = field(default_factory=dict[str, float])
    floors: tuple[Verdict, ...] = ()
    schema: int = SCHEMA


def begin(cases: Cases) -> Results:
    """Return empty results for a run that begins now."""
    machine = Machine(
        processor=_processor(),
        cpus=os.cpu_count() or 0,
        load_average=round(os.getloadavg()[0], 2),
        python=platform.python_version(),
        numpy=np.__version__,
        sqlite=sqlite3.sqlite_version,
        berth=berth.__version__,
        commit=_commit(),
    )
    return Results(datetime.now(UTC).isoformat(timespec="seconds"), machine, cases)


def measures_of(results: Results) -> dict[str, float]:
    """Return every figure to which a floor may apply, by name."""
    measures = _decision_measures(results) | _other_measures(results)
    library, http = results.library, results.http
    if library is not None:
        measures["library.placements_per_s"] = library.placements_per_s
        measures["library.placements_per_s_best"] = library.placements_per_s_best
        measures["library.placements_per_cpu_s"] = round(1e6 / library.placement_cpu_us, 1)
        measures["library.claims_per_s"] = library.claims_per_s
    if http is not None:
        measures["http.creates_per_s"] = http.creates_per_s
        measures["http.creates_per_s_best"] = http.creates_per_s_best
        measures["http.p99_ms"] = http.p99_ms
        if http.server_cpu_us is not None:
            measures["http.creates_per_cpu_s"] = round(1e6 / http.server_cpu_us, 1)
    for shared in results.shared_library:
        key = f"shared_library.{shared.ledger}.{shared.hosts}.{shared.processes}"
        measures[f"{key}.placements_per_s"] = shared.placements_per_s
        measures[f"{key}.vs_sqlite"] = shared.vs_sqlite
        measures[f"{key}.vs_one"] = shared.vs_one
    for one in results.schedulers:
        key = f"schedulers.{one.contention}.{one.hosts}.{one.schedulers}"
        measures[f"{key}.placements_per_s"] = one.placements_per_s
        measures[f"{key}.conflicts_per_1000"] = one.conflicts
        measures[f"{key}.contended"] = one.contended
        measures[f"{key}.vs_echo"] = one.vs_echo
        measures[f"{key}.vs_one"] = one.vs_one
    for each in results.agents:
        measures[f"agents.{each.source}.cores"] = each.cores
    for fleet in results.hosts:
        measures |= host_measures(fleet)
    if results.zones is not None:
        measures |= zone_measures(results.zones)
    measures |= plan_measures(results.zone_plans)
    measures |= placement_measures(results.placement, results.placement_sizes)
    return measures | packing_measures(results.packing)


def _decision_measures(results: Results) -> dict[str, float]:
    measures: dict[str, float] = {}
    plain = next((one.warm.decision for one in results.decisions if one.hosts == _PLAIN), None)
    for times in results.decisions:
        key = f"decisions.{times.hosts}"
        warm = times.warm.decision
        measures[f"{key}.fresh_cpu_ms"] = _ms(times.fresh)
        measures[f"{key}.cold_cpu_ms"] = _ms(times.cold)
        measures[f"{key}.second_cpu_ms"] = _ms(times.second)
        measures[f"{key}.warm_cpu_us"] = warm.cpu_us
        measures[f"{key}.warm_mean_cpu_us"] = times.warm.mean_cpu_us
        measures[f"{key}.warm_vs_argmax"] = _ratio(warm, times.argmax)
        if plain is not None:
            measures[f"{key}.warm_vs_{_PLAIN}"] = _ratio(warm, plain)
        for batch in times.batches:
            measures[f"{key}.batch_{batch.instances}_cpu_ms"] = _ms(batch.times)
        if times.beside is not None:
            measures |= _spread(f"{key}.warm_vs_nova", times.beside.ratio)
        size = nova_size(results, times.hosts)
        if size is not None:
            measures[f"{key}.batch_vs_nova"] = batch_ratio(times, size)
    return measures


def _other_measures(results: Results) -> dict[str, float]:
    measures: dict[str, float] = {}
    grouped, pinned = results.grouped, results.pinned
    if results.kernel is not None:
        measures |= _spread("kernel.numpy_vs_kernel", results.kernel.ratio)
    if grouped is not None:
        for name in ("group", "aggregates", "both"):
            measures[f"grouped.{name}_vs_plain"] = _ratio(getattr(grouped, name), grouped.plain)
    if pinned is not None:
        for name, times in pinned.times.items():
            measures[f"pinned.{name}_cpu_us"] = times.cpu_us
            if pinned.beside is not None:
                measures |= _spread(f"pinned.{name}_vs_nova", pinned.beside.ratios[name])
    if results.memory is not None:
        measures["memory.table_bytes_a_host"] = results.memory.table
        measures["memory.varied_bytes_a_host"] = results.memory.varied
        measures["memory.columns_bytes_a_host"] = results.memory.columns
        measures["memory.class_bytes_a_host"] = results.memory.cached_class
        measures["memory.attributes_bytes_an_instance"] = results.memory.attributes
    return measures


def _ms(times: Times) -> float:
    return round(times.cpu_us / 1e3, 3)


def _ratio(times: Times, to: Times) -> float:
    return round(times.cpu_us / to.cpu_us, 2)


def _spread(name: str, ratio: Ratio) -> dict[str, float]:
    return {name: ratio.median, f"{name}_low": ratio.low, f"{name}_high": ratio.high}


def nova_size(results: Results, hosts: int) -> PeerSize | None:
    """Return Nova's figures for a fleet size; None if it was not measured."""
    sizes = results.nova.results if results.nova is not None else ()
    return next((size for size in sizes if size.hosts == hosts), None)


def batch_ratio(times: DecisionTimes, size: PeerSize) -> float:
    """Return the ratio of Nova's CPU time for a batch to Berth's."""
    return round(size.batch.cpu_s * 1e6 / times.batch.times.cpu_us, 1)


def write(results: Results, also: Path | None) -> Path:
    """Write the results to `bench/results/` and to `also`; return the path of the former."""
    text = msgspec.json.format(msgspec.json.encode(results), indent=2)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{results.taken_at.replace(':', '')}.json"
    for target in (path, also):
        if target is not None:
            target.write_bytes(text + b"\n")
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _commit() -> str:
    """Return the description of the checked-out commit; "" without git."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
