"""Pinned guests on hosts with two NUMA cells: the fleet of `peers/nova_pinned.py`.

Each cell has 32 dedicated CPUs, two threads per core, and some cores are in use. Berth and Nova are
measured in turns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.alone import alone
from bench.cases import PinnedCases
from bench.desk import Desk
from bench.fleet import NOW_S, request, snapshot
from bench.peer import TimedPeer
from bench.timing import Sample, Times, collect_garbage, middle, summarise, timed
from bench.turns import Ratio, one_processor, ratio_of, take_turns
from bench.workload import WarmDecisions
from berth.config.policy_file import parse_policy, read_policy_text
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status
from berth.domain.hardware.assignment import Assignment, CellShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.inventory.resources import PCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Filter, Query

FILTER = "NUMATopologyFilter"
CELLS = 2
CORES = 16
"""Cores of a cell; core n has the threads n and n + CORES of the cell's CPUs."""
CELL_MEMORY_MB = 131_072
CORE_MEMORY_MB = 4_096
"""Memory of an instance for each core that it uses."""

FLAVOR = Flavor(
    "pinned",
    "pinned",
    vcpus=4,
    memory_mb=8_192,
    root_gb=20,
    extra_specs={"hw:cpu_policy": "dedicated"},
)
_ASKED = replace(request("pinned"), flavor=FLAVOR)


class PinnedTurn(NamedTuple):
    """The samples of one of Berth's turns: the filter over all hosts, and decisions.

    `keep_cold` is the filter's first call on a newly loaded table, `keep_warm` the median of
    several calls. `fresh` is the first decision on a new table, `warm` the median of several
    decisions with claims and releases between them.
    """

    keep_cold: Sample
    keep_warm: Sample
    fresh: Sample
    warm: Sample


@dataclass(frozen=True, slots=True)
class PinnedPeer:
    """Nova's filter over all hosts, and its ratios to Berth's samples, by names in `PinnedTurn`."""

    passing: int
    filter: Times
    ratios: Mapping[str, Ratio]


@dataclass(frozen=True, slots=True)
class PinnedTimes:
    """Times on one fleet, by the names of `PinnedTurn`; `passing` is how many hosts pass.

    `beside` is None if Nova is not measured.
    """

    hosts: int
    passing: int
    times: Mapping[str, Times]
    beside: PinnedPeer | None


def measure_pinned(cases: PinnedCases, *, peer: bool) -> PinnedTimes:
    """Return the times, measured in a process of its own, in turns with Nova if `peer`."""
    return alone(_measure_beside if peer else measure, cases)


def _measure_beside(cases: PinnedCases) -> PinnedTimes:
    with one_processor(), TimedPeer("numa", cases.hosts) as peer:
        return measure(cases, peer)


def measure(cases: PinnedCases, peer: TimedPeer | None = None) -> PinnedTimes:
    """Return the times of the filter and of decisions with it."""
    policy = pinned_policy()
    state = pinned_snapshot(cases.hosts)
    desk = Desk(state, policy)
    warm = WarmDecisions(desk, (FLAVOR,))
    (rule,) = (one for one in policy.filters if one.name == FILTER)
    passing, _ = _keep(Desk(state, policy), rule)

    def turn() -> PinnedTurn:
        collect_garbage()
        return PinnedTurn(
            keep_cold=_keep(Desk(state, policy), rule)[1],
            keep_warm=middle([_keep(desk, rule)[1] for _ in range(cases.keep_samples)]),
            fresh=Desk(state, policy).decide(_ASKED)[1],
            warm=warm.block(cases.warm_samples),
        )

    turns, calls = take_turns(turn, None if peer is None else peer.call, cases.turns)
    columns = {name: [getattr(one, name) for one in turns] for name in PinnedTurn._fields}
    beside = None
    if peer is not None:
        ratios = {name: ratio_of(column, calls) for name, column in columns.items()}
        beside = PinnedPeer(peer.passing, summarise(calls), ratios)
    times = {name: summarise(column) for name, column in columns.items()}
    return PinnedTimes(cases.hosts, passing, times, beside)


def _keep(desk: Desk, rule: Filter) -> tuple[int, Sample]:
    hosts = desk.replica.hosts
    query = Query(_ASKED, _ASKED.needs, NOW_S, None, _ASKED.instance_uuids[0])
    mask, sample = timed(partial(rule.keep, hosts, query, hosts.all_rows))
    return (len(hosts) if mask is None else int(mask.sum())), sample


def pinned_policy() -> Policy:
    """Return the policy `nova` with `FILTER`, which Nova does not enable by default."""
    text = read_policy_text(Path("nova"))
    return parse_policy(f'{text}\n[[filters]]\nname = "{FILTER}"\n', "pinned.toml")


def pinned_snapshot(count: int) -> Snapshot:
    """Return the fleet: hosts with two cells, and an instance on the cores in use of each cell."""
    state = snapshot(count)
    hosts = tuple(replace(host, numa_cells=_cells()) for host in state.hosts)
    instances = tuple(
        instance for index, host in enumerate(hosts) for instance in _instances(index, host)
    )
    providers = tuple(
        replace(
            provider,
            inventories={**provider.inventories, PCPU: Inventory(CELLS * CORES * 2)},
            used={
                **provider.used,
                PCPU: 2 * sum(cores_in_use(index, cell) for cell in range(CELLS)),
            },
        )
        for index, provider in enumerate(state.providers)
    )
    return replace(state, hosts=hosts, providers=providers, instances=instances)


def cores_in_use(index: int, cell: int) -> int:
    """Return how many cores of a cell are in use, between 0 and `CORES`."""
    return min(CORES, (index * 7 + cell * 5) % 24)


def _cells() -> tuple[NumaCell, ...]:
    return tuple(
        NumaCell(
            cell_id=cell,
            pcpuset=frozenset(cpu for core in _cores(cell) for cpu in core),
            siblings=tuple(frozenset(core) for core in _cores(cell)),
            memory_mb=CELL_MEMORY_MB,
            mempages=(MemoryPages(4, CELL_MEMORY_MB * 256),),
            socket=cell,
        )
        for cell in range(CELLS)
    )


def _cores(cell: int) -> list[tuple[int, int]]:
    first = cell * CORES * 2
    return [(first + core, first + core + CORES) for core in range(CORES)]


def _instances(index: int, host: Host) -> Iterator[Instance]:
    for cell in range(CELLS):
        cores = _cores(cell)[: cores_in_use(index, cell)]
        if not cores:
            continue
        cpus = [cpu for core in cores for cpu in core]
        share = CellShare(cell, len(cores) * CORE_MEMORY_MB, pinned=tuple(enumerate(cpus)))
        yield Instance(
            uuid=f"pinned-{index}-{cell}",
            name="pinned",
            project_id="project",
            user_id="user",
            request_id="pinned",
            reservation_id="r-pinned",
            flavor=FLAVOR,
            created_at_s=NOW_S,
            status=Status.ACTIVE,
            host=host.name,
            node=host.node,
            assignment=Assignment(numa=(share,)),
        )
