"""Pinned guests on hosts with two NUMA cells: the fleet of `peers/nova_pinned.py`.

Each cell has 32 dedicated CPUs, two threads a core, of which some cores are in use.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.alone import alone
from bench.cases import PinnedCases
from bench.desk import Desk
from bench.fleet import NOW_S, request, snapshot
from bench.timing import Sample, Times, collect_garbage, summarise, timed
from bench.workload import warm_times
from berth.config.policy_file import parse_policy, read_policy_text
from berth.domain.assignment import Assignment
from berth.domain.change import Snapshot
from berth.domain.flavor import Flavor
from berth.domain.hardware_share import CellShare
from berth.domain.host import Host
from berth.domain.instance import Instance, Status
from berth.domain.numa import MemoryPages, NumaCell
from berth.domain.resources import PCPU, Inventory
from berth.scheduling.policy import Policy
from berth.scheduling.rule import Filter, Query

FILTER = "NUMATopologyFilter"
CELLS = 2
CORES = 16
"""Cores of a cell; core n has the threads n and n + CORES of the cell's CPUs."""
CELL_MEMORY_MB = 131_072
CORE_MEMORY_MB = 4_096
"""What a guest has for each core that is in use."""

FLAVOR = Flavor(
    "pinned",
    "pinned",
    vcpus=4,
    memory_mb=8_192,
    root_gb=20,
    extra_specs={"hw:cpu_policy": "dedicated"},
)


@dataclass(frozen=True, slots=True)
class PinnedTimes:
    """Times of the filter over all hosts, and of decisions, on one fleet.

    `keep_cold` is the first call on a table just loaded, `keep_warm` one of many. `fresh` is the
    first decision on such a table, `warm` one of many with claims and releases between.
    `passing` is how many hosts the filter lets pass.
    """

    hosts: int
    passing: int
    keep_cold: Times
    keep_warm: Times
    fresh: Times
    warm: Times


def measure_pinned(cases: PinnedCases) -> PinnedTimes:
    """Measure in a process of its own."""
    return alone(measure, cases)


def measure(cases: PinnedCases) -> PinnedTimes:
    """Measure the filter, and decisions with it."""
    policy = pinned_policy()
    state = pinned_snapshot(cases.hosts)
    asked = replace(request("pinned"), flavor=FLAVOR)
    query = Query(asked, asked.needs, NOW_S, None, asked.instance_uuids[0])
    (rule,) = (one for one in policy.filters if one.name == FILTER)
    cold: list[Sample] = []
    fresh: list[Sample] = []
    for _ in range(cases.cold_samples):
        collect_garbage()
        cold.append(_keep(Desk(state, policy), rule, query)[1])
        fresh.append(Desk(state, policy).decide(asked)[1])
    desk = Desk(state, policy)
    kept = [_keep(desk, rule, query) for _ in range(1 + cases.keep_samples)]
    return PinnedTimes(
        hosts=cases.hosts,
        passing=kept[0][0],
        keep_cold=summarise(cold),
        keep_warm=summarise([sample for _, sample in kept[1:]]),
        fresh=summarise(fresh),
        warm=warm_times(desk, cases.warm_samples, flavors=(FLAVOR,)).decision,
    )


def _keep(desk: Desk, rule: Filter, query: Query) -> tuple[int, Sample]:
    hosts = desk.replica.hosts
    mask, sample = timed(partial(rule.keep, hosts, query, hosts.everyone))
    return (len(hosts) if mask is None else int(mask.sum())), sample


def pinned_policy() -> Policy:
    """Return the policy `nova` with the filter that Nova does not enable by default."""
    text = read_policy_text(Path("nova"))
    return parse_policy(f'{text}\n[[filters]]\nname = "{FILTER}"\n', "pinned.toml")


def pinned_snapshot(count: int) -> Snapshot:
    """Make the fleet: hosts of two cells, and one instance a cell on the cores in use."""
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
    """Return how many cores of a cell of a host are pinned already; 0 to all of them."""
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
