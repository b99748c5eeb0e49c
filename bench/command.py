"""The command line of the benchmarks."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.agents import measure_agents
from bench.cases import Cases, load_cases
from bench.creates import measure_creates
from bench.decisions import measure_decisions
from bench.errors import BenchError
from bench.floors import all_hold, judge, load_floors
from bench.grouped import measure_grouped
from bench.hosts import measure_hosts
from bench.kernel import measure_kernel
from bench.library import measure_library
from bench.memory import measure_memory
from bench.packing import MISSING as MISSING_TRACE
from bench.packing import TRACE, measure_packing
from bench.parity import compare, missing_weighers
from bench.peer import MISSING, PYTHON, run_peer
from bench.pinned import measure_pinned
from bench.placement.database import NoDatabaseError, fresh_database
from bench.placement.measuring import measure_beside, measure_sizes
from bench.placement.servers import MISSING as MISSING_PLACEMENT
from bench.placement.servers import UWSGI
from bench.report import show
from bench.results import Results, begin, measures_of, write
from bench.schedulers import NoBrokerError, measure_schedulers
from bench.shared_library import measure_shared_library
from bench.zone_plans import measure_zone_plans
from bench.zones import measure_zones
from berth.adapters.system import keep_freed_memory
from berth.config.policy_file import load_policy
from berth.domain.errors import BerthError

_NOVA = "nova"
"""The ready policy with Nova's rules, with which decisions are measured."""
_BESIDE_NOVA = {"decisions", "pinned"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options; `peer` says whether Nova is measured, `placement` whether Placement is."""

    cases: Cases
    parts: tuple[str, ...]
    floors: bool
    peer: bool
    placement: bool
    json: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return 1 if a part failed or a floor was missed."""
    keep_freed_memory()  # as every process of Berth does
    options = parse_arguments(arguments)
    if options.peer and not PYTHON.exists() and set(options.parts) & _BESIDE_NOVA:
        say(MISSING)
        options = replace(options, peer=False)
    results = begin(options.cases)
    for part in options.parts:
        try:
            PARTS[part](results, options)
        except (BenchError, BerthError) as error:
            results.failures.append(f"{part}: {error}")
    results.measures = measures_of(results)
    if options.floors:
        results.floors = judge(load_floors(), results.measures)
    show(results)
    print(f"Written to {write(results, options.json).relative_to(Path.cwd())}")
    return 0 if all_hold(results.floors) and not results.failures else 1


def _decisions(results: Results, options: Options) -> None:
    cases = options.cases
    say(f"decisions: {', '.join(f'{count:,}' for count in cases.decisions.hosts)} hosts")
    peer = cases.peer if options.peer else None
    results.decisions.extend(measure_decisions(_NOVA, cases.decisions, peer))
    if peer is None:
        return
    results.nova = run_peer(cases.decisions.hosts, cases.decisions.batch_instances, peer)
    if results.nova is not None:
        results.nova_weighers_missing = missing_weighers(results.nova)
        results.parity = compare(results.nova)


def _kernel(results: Results, options: Options) -> None:
    say(f"kernel: {options.cases.kernel.hosts:,} hosts, with the kernel and without")
    results.kernel = measure_kernel(_NOVA, options.cases.kernel)


def _grouped(results: Results, options: Options) -> None:
    cases = options.cases.grouped
    say(f"grouped: {cases.hosts:,} hosts, {cases.members} members, {cases.aggregates} aggregates")
    results.grouped = measure_grouped(_NOVA, cases)


def _pinned(results: Results, options: Options) -> None:
    cases = options.cases.pinned
    say(f"pinned: {cases.hosts:,} hosts with NUMA cells")
    results.pinned = measure_pinned(cases, peer=options.peer)


def _memory(results: Results, options: Options) -> None:
    say(f"memory: {options.cases.memory.hosts:,} hosts")
    results.memory = measure_memory(_NOVA, options.cases.memory)


def _library(results: Results, options: Options) -> None:
    say(f"library: {options.cases.library.rounds} rounds of durable placements and claims")
    results.library = measure_library(load_policy(None), options.cases.library)


def _shared_library(results: Results, options: Options) -> None:
    cases = options.cases.shared_library
    say(f"shared_library: {', '.join(map(str, cases.processes))} processes on one ledger")
    try:
        results.shared_library.extend(measure_shared_library(cases))
    except NoDatabaseError as error:
        say(f"shared_library: left out, {error}")


def _http(results: Results, options: Options) -> None:
    say(f"http: {options.cases.http.rounds} rounds of server creates")
    results.http = measure_creates(options.cases.http)


def _schedulers(results: Results, options: Options) -> None:
    cases = options.cases.schedulers
    say(f"schedulers: {', '.join(map(str, cases.schedulers))} processes on one ledger")
    try:
        for one in measure_schedulers(cases):
            results.schedulers.append(one)
            say(f"schedulers: {one.contention}, {one.hosts:,} hosts, {one.schedulers} is done")
    except (NoDatabaseError, NoBrokerError) as error:
        say(f"schedulers: left out, {error}")


def _agents(results: Results, options: Options) -> None:
    cases = options.cases.agents
    say(f"agents: {cases.hosts:,} hosts report to one scheduler, {', '.join(cases.sources)}")
    try:
        for one in measure_agents(cases):
            results.agents.append(one)
            say(f"agents: {one.source} is done")
    except (NoDatabaseError, NoBrokerError) as error:
        say(f"agents: left out, {error}")


def _hosts(results: Results, options: Options) -> None:
    cases = options.cases.hosts
    say(f"hosts: {', '.join(f'{count:,}' for count in cases.hosts)} agents at one control plane")
    try:
        for one in measure_hosts(cases):
            results.hosts.append(one)
            say(f"hosts: {'with' if one.tls else 'without'} TLS is done")
    except NoDatabaseError as error:
        say(f"hosts: left out, {error}")


def _zones(results: Results, options: Options) -> None:
    cases = options.cases.zones
    say(f"zones: 1 + {cases.zones} zones, and {cases.depth} further levels")
    results.zones = measure_zones(cases)
    say(f"zones: plans of {', '.join(cases.policies)}")
    results.zone_plans.extend(measure_zone_plans(cases))


def _packing(results: Results, options: Options) -> None:
    say(f"packing: {', '.join(options.cases.packing.policies)}")
    if not TRACE.is_dir():
        say(MISSING_TRACE)
    for one in measure_packing(options.cases.packing):
        results.packing.append(one)
        say(f"packing: {one.policy} is done")


def _placement(results: Results, options: Options) -> None:
    cases = options.cases.placement
    say(f"placement: {', '.join(f'{count:,}' for count in cases.providers)} providers, and trees")
    try:
        with fresh_database():
            pass
    except NoDatabaseError as error:
        say(f"placement: left out, {error}")
        return
    peer = options.placement and UWSGI.exists()
    if options.placement and not peer:
        say(MISSING_PLACEMENT)

    def failed(what: str) -> None:
        results.failures.append(f"placement: {what}")

    for one in measure_beside(cases, peer=peer, failed=failed):
        results.placement.append(one)
        say(f"placement: {one.name} is done")
    results.placement_sizes = measure_sizes(cases)


PARTS: dict[str, Callable[[Results, Options], None]] = {
    "decisions": _decisions,
    "kernel": _kernel,
    "grouped": _grouped,
    "pinned": _pinned,
    "memory": _memory,
    "library": _library,
    "shared_library": _shared_library,
    "http": _http,
    "schedulers": _schedulers,
    "agents": _agents,
    "hosts": _hosts,
    "zones": _zones,
    "packing": _packing,
    "placement": _placement,
}


def parse_arguments(arguments: Sequence[str] | None) -> Options:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Berth and its peers on this machine."
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer samples and sizes; Nova's batch is estimated")
    add("--only", type=_parts, default=tuple(PARTS), metavar="PARTS", help=", ".join(PARTS))
    add("--hosts", type=_count, nargs="+", metavar="N", help="fleet sizes of the decisions")
    add("--no-peer", action="store_true", help="do not measure Nova and OpenStack Placement")
    add("--no-floors", action="store_true", help="do not check floors")
    add("--json", type=Path, metavar="FILE", help="also write the results to this file")
    given = parser.parse_args(arguments)
    cases = load_cases(quick=given.quick)
    if given.hosts:
        cases = replace(cases, decisions=replace(cases.decisions, hosts=tuple(given.hosts)))
    peer = not given.no_peer
    return Options(cases, given.only, not given.no_floors, peer, peer, given.json)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    return parts


def _count(text: str) -> int:
    value = int(text.replace(",", "").replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def say(text: str) -> None:
    """Write one line of progress to standard error."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()
