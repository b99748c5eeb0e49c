"""Memory of a host in the table, and in the engine's cache for each kind of request."""

import gc
import tracemalloc
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import msgspec
import numpy as np

from bench.alone import alone
from bench.cases import MemoryCases
from bench.desk import Fixed
from bench.fleet import Standstill, request, snapshot
from bench.workload import unseen_flavor
from berth.config.policy_file import load_policy
from berth.domain.compute.host import Host
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.replica import Replica
from berth.tables.host.resident_columns import Attributes, ResidentColumns


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes per host.

    `table` is everything that remains when the loaded records are dropped: columns, names, uuids,
    hosts and services. `varied` is the same for hosts that all differ (see `varied`). `columns` are
    the NumPy arrays alone, including unused rows. `cached_class` is one more kind of request in the
    cache. `attributes` is in bytes per instance: the attributes of one of `instances` instances, of
    which no two have equal names or metadata.
    """

    hosts: int
    classes: tuple[str, ...]
    table: float
    varied: float
    columns: float
    cached_class: float
    instances: int
    attributes: float


def measure_memory(policy_name: str, cases: MemoryCases) -> MemoryUse:
    """Return the memory use, measured in a separate process."""
    return alone(_measure_named, policy_name, cases)


def _measure_named(policy_name: str, cases: MemoryCases) -> MemoryUse:
    return measure(load_policy(Path(policy_name)), cases)


def measure(policy: Policy, cases: MemoryCases) -> MemoryUse:
    """Return the memory that Python allocates for records read from JSON, as from a ledger."""
    plain = snapshot(cases.hosts)
    texts = msgspec.json.encode(varied(plain)), msgspec.json.encode(plain)
    del plain
    gc.collect()
    tracemalloc.start()
    try:
        varied_table = _loaded(texts[0])[1]
        replica, table = _loaded(texts[1])
        columns = _allocated_by_numpy()
        cached_class = _cached_class(replica, policy, cases.kinds)
        attributes = _attributes(cases.instances)
    finally:
        tracemalloc.stop()
    return MemoryUse(
        hosts=cases.hosts,
        classes=replica.hosts.resource_classes,
        table=round(table / cases.hosts, 1),
        varied=round(varied_table / cases.hosts, 1),
        columns=round(columns / cases.hosts, 1),
        cached_class=round(cached_class / cases.hosts, 2),
        instances=cases.instances,
        attributes=round(attributes / cases.instances, 1),
    )


def varied(fleet: Snapshot) -> Snapshot:
    """Return a fleet in which no two hosts are equal, as in a real data centre.

    Each host has its own address, totals of memory and disk and service id, and a node whose name
    differs from the host's; there are 50 kinds of CPU, 7 of stats and 3 of ratios.
    """
    hosts = (_varied_host(index, host) for index, host in enumerate(fleet.hosts))
    providers = (_varied_provider(index, one) for index, one in enumerate(fleet.providers))
    services = (
        replace(one, service_id=str(uuid5(NAMESPACE_DNS, one.host)), created_at_s=index + 0.5)
        for index, one in enumerate(fleet.services)
    )
    return replace(fleet, hosts=tuple(hosts), providers=tuple(providers), services=tuple(services))


def _varied_host(index: int, host: Host) -> Host:
    ratios = {VCPU: (2.0, 4.0, 16.0)[index % 3]}
    return replace(
        host,
        node=f"{host.name}.example.net",
        host_ip=str(ip_address("10.0.0.0") + index),
        cpu_info={"model": f"kind-{index % 50}"},
        stats={"generation": str(index % 7)},
        initial_ratios=ratios,
    )


def _varied_provider(index: int, provider: Provider) -> Provider:
    inventories = {
        VCPU: Inventory(64, 2, max_unit=64, allocation_ratio=(2.0, 4.0, 16.0)[index % 3]),
        MEMORY_MB: Inventory(262_144 + index, 4_096, max_unit=262_144 + index),
        DISK_GB: Inventory(2_000 + index, max_unit=2_000 + index),
    }
    return replace(provider, inventories=inventories)


def _loaded(text: bytes) -> tuple[Replica, int]:
    """Load records from JSON into a replica; return it and the bytes that remain allocated."""
    before = _allocated()
    replica = Replica()
    replica.load(msgspec.json.decode(text, type=Snapshot))
    _ = replica.hosts.rank
    return replica, _allocated() - before


def _cached_class(replica: Replica, policy: Policy, kinds: int) -> float:
    """Return the bytes that the first two decisions about a new kind of request leave allocated."""
    decision_service = DecisionService(replica, Fixed(policy), Standstill())

    def see(index: int) -> None:
        decision_service.decide(replace(request(f"kind-{index}"), flavor=unseen_flavor(index)))

    for _ in range(2):  # the first kind allocates what all kinds share
        see(kinds)
    before = _allocated()
    for index in range(kinds):
        for _ in range(2):  # a kind is cached for long only from its second decision on
            see(index)
    return (_allocated() - before) / kinds


def _attributes(instances: int) -> int:
    """Return the bytes of the attributes of instances, 20 on each host and 500 in each project."""
    uuids = [str(uuid5(NAMESPACE_DNS, f"vm-{index}")) for index in range(instances)]
    before = _allocated()
    columns = ResidentColumns()
    for index, uuid in enumerate(uuids):
        attributes = Attributes(
            project_id=f"{index // 500:032x}",
            user_id=f"{index // 100:032x}",
            image_id=str(uuid5(NAMESPACE_DNS, f"image-{index % 200}")),
            name=f"shop-web-{index:06}",
            metadata={"role": "web", "index": f"{index:06}"},
            launched_at_s=1.7e9 + index,
        )
        columns.put(index // 20, uuid, attributes, flavor_id=f"m1.{index % 9}", counts=True)
    columns.slots(0)  # a read gives all instances their slots
    return _allocated() - before


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _allocated_by_numpy() -> int:
    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([domain]).traces
    return sum(trace.size for trace in traces)
