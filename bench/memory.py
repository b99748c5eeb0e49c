"""Memory: what a host costs in the table, and in each kind of request that is kept."""

import gc
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from bench.alone import alone
from bench.cases import MemoryCases
from bench.desk import Fixed
from bench.fleet import Standstill, request, snapshot
from bench.workload import unseen_flavor
from berth.config.policy_file import load_policy
from berth.domain.change import Snapshot
from berth.scheduling.policy import Policy
from berth.services.deciding import Deciding
from berth.services.replica import Replica


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one host.

    `table` is all that stays when the records it was loaded from are dropped: columns, names,
    uuids, hosts and services. `columns` are numpy's arrays alone, unused rows of them included.
    `cached_class` is one more kind of request that is kept.
    """

    hosts: int
    classes: tuple[str, ...]
    table: float
    columns: float
    cached_class: float


def measure_memory(policy_name: str, cases: MemoryCases) -> MemoryUse:
    """Measure in a process of its own."""
    return alone(_measure_named, policy_name, cases)


def _measure_named(policy_name: str, cases: MemoryCases) -> MemoryUse:
    return measure(load_policy(Path(policy_name)), cases)


def measure(policy: Policy, cases: MemoryCases) -> MemoryUse:
    """Load records that were read from JSON, as from a ledger, and count what Python allocates."""
    text = msgspec.json.encode(snapshot(cases.hosts))
    gc.collect()
    tracemalloc.start()
    try:
        before = _allocated()
        replica = Replica()
        replica.load(msgspec.json.decode(text, type=Snapshot))
        _ = replica.hosts.rank
        table = _allocated() - before
        columns = _allocated_by_numpy()
        cached_class = _cached_class(replica, policy, cases.kinds)
    finally:
        tracemalloc.stop()
    return MemoryUse(
        hosts=cases.hosts,
        classes=replica.hosts.resource_classes,
        table=round(table / cases.hosts, 1),
        columns=round(columns / cases.hosts, 1),
        cached_class=round(cached_class / cases.hosts, 2),
    )


def _cached_class(replica: Replica, policy: Policy, kinds: int) -> float:
    """Return the bytes of one more kind that is kept: what its second sight leaves behind."""
    deciding = Deciding(replica, Fixed(policy), Standstill())

    def see(index: int) -> None:
        deciding.decide(replace(request(f"kind-{index}"), flavor=unseen_flavor(index)))

    for _ in range(2):  # what all kinds share comes with the first
        see(kinds)
    for index in range(kinds):
        see(index)
    before = _allocated()
    for index in range(kinds):
        see(index)
    return (_allocated() - before) / kinds


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _allocated_by_numpy() -> int:
    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([domain]).traces
    return sum(trace.size for trace in traces)
