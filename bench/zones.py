"""Trees of zones: selects over real processes on loopback, and the cost of seals.

The benchmark acts as a parent of the tree's root, with its own keys and account. Like every parent
it sends HTTP requests with a signed assertion each.
"""

import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from bench.cases import ZoneCases
from bench.errors import BenchError
from bench.fleet import FLAVOR
from bench.service import cpu_s_of
from bench.timing import Sample, summarise, timed_often
from berth.adapters.system import LogTelemetry, SystemClock
from berth.adapters.virt.fake import FakeHost
from berth.adapters.zones import open_children
from berth.config import zone_keys
from berth.config.zone_keys import ZoneKeyFile
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.zones.offer import HostTerms, OfferKey, OfferTerms
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import (
    OFFER_BYTES,
    Offers,
    ReleaseOrder,
    SelectOrder,
    UnusedOffers,
)
from berth.lab.zone_process import ZoneProcess
from berth.lab.zone_tree import ZoneTree, made_tree, tree_of
from berth.services.crypto.sealing import Sealer
from berth.services.zoning.messages.assertions import AssertionWriter
from berth.services.zoning.messages.child_client import ChildClient
from berth.services.zoning.offers.offer_seals import OfferSeals

_NAME: Final = "bench"
_SIZES: Final = (32, 48, 64, 96)
"""VCPUs of hosts, in turn, so each zone has better and worse hosts."""
_MEMORY_MB_EACH: Final = 4_096
_START_S: Final = 300.0
_ASK_S: Final = 30.0
_WARM_UP: Final = 10
_SEAL_ROUNDS: Final = 5
_SETTINGS: Final = {
    "agent.heartbeat_interval_s": 60.0,
    "agent.audit_interval_s": 3_600.0,
    "log.level": "warning",
    "zones.select_timeout_s": _ASK_S,
    "zones.poll_interval_s": 60.0,
}


@dataclass(frozen=True, slots=True)
class SelectTimes:
    """Selects over one tree: times in milliseconds, from the request to the complete answer.

    `p50_ms` is the median, `best_ms` the shortest, `cpu_ms` the CPU time of all zones per select.
    """

    zones: int
    hosts_each: int
    instances: int
    p50_ms: float
    best_ms: float
    cpu_ms: float
    selects: int


@dataclass(frozen=True, slots=True)
class ZoneTimes:
    """All times of zones.

    `depth_ms` has the median of selects for each number of levels below, from 0 on.
    `round_trip_ms` is the median time of the smallest request to a zone. `seal_us` and `open_us`
    are microseconds of CPU time per offer.
    """

    single: SelectTimes
    plan: SelectTimes
    depth_ms: tuple[float, ...]
    round_trip_ms: float
    seal_us: float
    open_us: float

    @property
    def level_ms(self) -> float:
        """The mean time that a further level adds, beyond one round trip."""
        levels = len(self.depth_ms) - 1
        return (self.depth_ms[-1] - self.depth_ms[0]) / levels - self.round_trip_ms


def measure_zones(cases: ZoneCases) -> ZoneTimes:
    """Return the times, measured on trees that are started for this and stopped.

    Raises:
        BenchError: a tree returned fewer offers than there were instances.
        UnavailableError: a zone did not start, or did not answer.
    """
    seal_us, open_us = _seals(cases.seals)
    with _tree((cases.zones,), cases.hosts, root_hosts=cases.hosts) as (tree, keys):
        single = uvloop.run(_selects(tree, keys, 1, cases.selects))
    with _tree((cases.zones,), cases.plan_hosts) as (tree, keys):
        plan = uvloop.run(_selects(tree, keys, cases.plan_instances, cases.plans))
    with _tree((1,) * cases.depth, cases.hosts, root_hosts=cases.hosts) as (tree, keys):
        depth_ms, round_trip_ms = uvloop.run(_depths(tree, keys, cases.selects))
    return ZoneTimes(single, plan, depth_ms, round_trip_ms, seal_us, open_us)


# --- trees ---


@contextmanager
def _tree(
    shape: Sequence[int], hosts: int, *, root_hosts: int = 0
) -> Iterator[tuple[ZoneTree, Path]]:
    """Yield a tree whose zones accept this process as a parent, and the path of the keys."""

    def fleet(name: str, depth: int) -> list[FakeHost]:
        return [_host(name, index) for index in range(hosts if depth else root_hosts)]

    with tempfile.TemporaryDirectory(prefix="berth-bench-") as folder:
        keys = Path(folder) / "keys"
        zone_keys.create(keys)
        with made_tree(tree_of(shape, fleet, _SETTINGS), Path(folder) / "zones") as tree:
            for zone in tree:
                zone_keys.add_parent(zone.parents_file, _NAME, zone_keys.public_text(keys))
            tree.start(_START_S)
            tree.adopt()
            tree.wait_until_active(_START_S)
            yield tree, keys


def _host(zone: str, index: int) -> FakeHost:
    vcpus = _SIZES[index % len(_SIZES)]
    totals = {VCPU: vcpus, MEMORY_MB: vcpus * _MEMORY_MB_EACH + index, DISK_GB: 4_000}
    return FakeHost(f"{zone}-{index:05d}", totals)


# --- asking ---


@asynccontextmanager
async def _asking(tree: ZoneTree, keys: Path) -> AsyncIterator[ChildClient]:
    clock = SystemClock()
    signer = ZoneKeyFile(keys, clock, LogTelemetry(_NAME))
    writer = AssertionWriter(_NAME, signer, clock.now_s, os.urandom)
    async with open_children(
        writer, password_of=lambda zone: tree[zone.name].tenant.password
    ) as forwards:
        yield ChildClient(forwards, clock)


async def _selects(tree: ZoneTree, keys: Path, instances: int, count: int) -> SelectTimes:
    """Return the times of repeated selects at the root for the same number of instances."""
    root, times_ms = tree.root, list[float]()
    async with _asking(tree, keys) as children:
        for number in range(min(_WARM_UP, count)):
            await _select(children, root, f"warm-{number}", instances)
        before_s = _cpu_s(tree)
        for number in range(count):
            times_ms.append(await _select(children, root, f"select-{number}", instances))
        cpu_s = _cpu_s(tree) - before_s
    return SelectTimes(
        zones=len(tree),
        hosts_each=len(next(iter(tree.children_of(root))).spec.hosts),
        instances=instances,
        p50_ms=round(statistics.median(times_ms), 2),
        best_ms=round(min(times_ms), 2),
        cpu_ms=round(cpu_s * 1e3 / count, 2),
        selects=count,
    )


async def _depths(tree: ZoneTree, keys: Path, count: int) -> tuple[tuple[float, ...], float]:
    """Return the medians of selects at each zone of a chain, lowest first, and of a round trip."""
    zones = [*tree][::-1]
    times_ms: list[list[float]] = [[] for _ in zones]
    trips_ms: list[float] = []
    async with _asking(tree, keys) as children:
        for number in range(-_WARM_UP, count):
            for zone, found in zip(zones, times_ms, strict=True):
                took_ms = await _select(children, zone, f"{zone.name}-{number}", 1)
                if number >= 0:
                    found.append(took_ms)
            begun_s = time.perf_counter()
            await children.info(_record(zones[0]), timeout_s=_ASK_S)
            if number >= 0:
                trips_ms.append((time.perf_counter() - begun_s) * 1e3)
    medians = tuple(round(statistics.median(found), 2) for found in times_ms)
    return medians, round(statistics.median(trips_ms), 2)


async def _select(
    children: ChildClient, zone: ZoneProcess, request_id: str, instances: int
) -> float:
    """Select, release the offers, and return the milliseconds of the select.

    Raises:
        BenchError: there are fewer offers than instances.
    """
    uuids = tuple(instance_uuid_of(request_id, index) for index in range(instances))
    asked = Request(request_id, uuids, FLAVOR, project_id=_NAME, user_id=_NAME)
    order = SelectOrder(asked, _NAME, time.time() + _ASK_S)
    record = _record(zone)
    begun_s = time.perf_counter()
    offers: Offers = await children.select(record, order, timeout_s=_ASK_S)
    took_ms = (time.perf_counter() - begun_s) * 1e3
    if len(offers.weights) != instances:
        raise BenchError(f"{len(offers.weights)} offers for {instances} instances at {zone.name}")
    release = ReleaseOrder(_NAME, surplus=(UnusedOffers(offers.select_id),))
    await children.release(record, release, timeout_s=_ASK_S)
    return took_ms


def _record(zone: ZoneProcess) -> Zone:
    return Zone(1, zone.name, zone.url, username=zone.tenant.user)


def _cpu_s(tree: ZoneTree) -> float:
    """Return the processor time of all zones of a tree.

    Raises:
        BenchError: it cannot be read from /proc.
    """
    found = [cpu_s_of(zone.pid) for zone in tree if zone.pid is not None]
    if None in found:
        raise BenchError("the processor time of a process cannot be read from /proc")
    return sum(one or 0.0 for one in found)


# --- seals ---


class _Keys:
    """One key, in memory."""

    newest_first = (os.urandom(32),)


def _seals(count: int) -> tuple[float, float]:
    """Return the microseconds of CPU that sealing and opening one offer take."""
    seals = OfferSeals(_NAME, Sealer(_Keys(), os.urandom))
    digest = os.urandom(16)
    terms = OfferTerms(
        key=OfferKey(os.urandom(16), 7),
        zone=_NAME,
        audience="parent",
        request_digest=digest,
        ends_at_s=2e9,
        where=HostTerms("6f1a6a52-3a7c-4be4-8f0c-000000000001", bytes(8), 7),
    )
    blob = seals.seal(terms, blob_bytes=OFFER_BYTES)

    def seal() -> None:
        seals.seal(terms, blob_bytes=OFFER_BYTES)

    def unseal() -> None:
        seals.open(blob, audience="parent", request_digest=digest, now_s=1e9)

    sealing: list[Sample] = []
    opening: list[Sample] = []
    for _ in range(_SEAL_ROUNDS):
        sealing.append(timed_often(seal, count))
        opening.append(timed_often(unseal, count))
    return summarise(sealing).cpu_us, summarise(opening).cpu_us


def zone_measures(times: ZoneTimes) -> dict[str, float]:
    """Return the figures to which floors apply, by name."""
    return {
        "zones.select_p50_ms": times.single.p50_ms,
        "zones.select_cpu_ms": times.single.cpu_ms,
        "zones.plan_p50_ms": times.plan.p50_ms,
        "zones.plan_cpu_ms": times.plan.cpu_ms,
        "zones.level_ms": round(times.level_ms, 2),
        "zones.seal_us": times.seal_us,
        "zones.open_us": times.open_us,
    }


def zone_lines(times: ZoneTimes) -> Iterator[str]:
    """Yield the figures as sentences."""
    for one in (times.single, times.plan):
        yield (
            f"Select for {one.instances:,} over {one.zones} zones, {one.hosts_each:,} hosts each: "
            f"p50 {one.p50_ms:,.1f} ms, best {one.best_ms:,.1f} ms; {one.cpu_ms:,.1f} ms of "
            "CPU in all zones"
        )
    depths = ", ".join(f"{one:.1f}" for one in times.depth_ms)
    yield (
        f"Levels of zones below: {depths} ms; a round trip takes {times.round_trip_ms:.1f} ms. "
        f"An offer is sealed in {times.seal_us:.1f} us and opened in {times.open_us:.1f} us"
    )
