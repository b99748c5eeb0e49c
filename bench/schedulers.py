"""Several scheduler processes on one ledger: their rate of placements, and conflicts and retries.

`berth scheduler` processes on a PostgreSQL ledger are called over RabbitMQ. Contention is low if
all hosts are equal and a placement makes its host the last choice. It is hot if all schedulers fill
the same small host, then the next, until not enough is left.
"""

import asyncio
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import httpx
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from bench.bus_signing import key_file, signer
from bench.cases import SchedulerCases
from bench.echo import measure_echo
from bench.errors import BenchError
from bench.fleet import FLAVOR, host_uuid
from bench.placement.database import fresh_database
from bench.service import Service, running
from berth.adapters.bus.message_codec import MessageCodec
from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker, RabbitBus
from berth.adapters.ledger import open_ledger
from berth.adapters.system import LogTelemetry, NoMetrics
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.host import Host
from berth.domain.compute.host import Service as HostService
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request, instance_uuid_of, reservation_id_of
from berth.domain.errors import BerthError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Committed, Put, Unit
from berth.lab.loopback import free_port
from berth.ports.bus import Context
from berth.ports.ledger import Ledger
from berth.services.requests.orders import PLACE, PlaceOrder

_BROKER_URL: Final = "amqp://guest:guest@127.0.0.1:5672/"
_READY_S: Final = 180.0
_POLL_S: Final = 0.1
_ANSWER_S: Final = 120.0
_CONNECT_S: Final = 10.0
_UNITS_AT_ONCE: Final = 500
_BODY_BYTES_MAX: Final = 1 << 20
_IN_VAIN: Final = frozenset({"short", "stale", "changed"})
_HOT_INSTANCES: Final = 4
"""The number of instances that fit on a host if contention is hot."""
_PER_1000: Final = 1000.0

_POLICY: Final = """
name = "bench"
contended_subset_size = {subset}

[[filters]]
name = "ComputeFilter"
service_down_time_s = 86400.0

[[filters]]
name = "ResourcesFilter"

[[weighers]]
name = "RAMWeigher"
multiplier = {multiplier}
"""


@dataclass(frozen=True, slots=True)
class SchedulerTimes:
    """The results of one load on some schedulers; CPU times are those of the schedulers alone.

    `conflicts` are claims that the ledger rejected and `retries` the plans that were made again,
    both per 1,000 placements. `refused` orders got no host, `contended` of them after all tries.
    `echo_per_s` are the calls per second of a plain echo over the same broker (`bench/echo.py`).
    `vs_echo` is the ratio to it, `vs_one` the ratio to one scheduler under the same contention. All
    are medians over the turns, and ratios are those within a turn.
    """

    contention: str
    hosts: int
    schedulers: int
    subset: int
    placed: int
    refused: int
    contended: int
    placements_per_s: float
    cpu_us: float | None
    conflicts: float
    retries: float
    echo_per_s: float
    vs_echo: float
    vs_one: float


@dataclass(frozen=True, slots=True)
class _Turn:
    """The results of one turn; see `SchedulerTimes`."""

    placed: int
    refused: int
    contended: int
    per_s: float
    cpu_us: float | None
    conflicts: float
    retries: float


class NoBrokerError(BenchError):
    """There is no RabbitMQ server."""


class BrokenError(BenchError):
    """An order was lost or duplicated, or a host holds more than its capacity."""


def broker_url() -> str:
    """Return the URL of the broker, which tests also use."""
    return os.environ.get("BERTH_TEST_RABBITMQ_URL", _BROKER_URL)


def measure_schedulers(cases: SchedulerCases) -> Iterator[SchedulerTimes]:
    """Yield the times of each load and number of schedulers; every turn has its own ledger.

    Raises:
        NoDatabaseError: there is no PostgreSQL server.
        NoBrokerError: there is no RabbitMQ server.
        BrokenError: an order was lost or duplicated, or a host holds more than its capacity.
    """
    for contention, hosts in (*(("low", one) for one in cases.hosts), ("hot", cases.hot_hosts)):
        yield from _measure(cases, contention, hosts)


def _measure(cases: SchedulerCases, contention: str, hosts: int) -> Iterator[SchedulerTimes]:
    turns: dict[int, list[_Turn]] = {count: [] for count in cases.schedulers}
    echoes: list[float] = []
    for _ in range(cases.turns):
        echoes.append(_echo(cases))
        for count in cases.schedulers:
            turns[count].append(_one_turn(cases, contention, hosts, count))
    for count, mine in turns.items():
        cpu_us = [one.cpu_us for one in mine if one.cpu_us is not None]
        yield SchedulerTimes(
            contention=contention,
            hosts=hosts,
            schedulers=count,
            subset=cases.subset,
            placed=mine[-1].placed,
            refused=mine[-1].refused,
            contended=max(one.contended for one in mine),
            placements_per_s=_median(one.per_s for one in mine),
            cpu_us=_median(cpu_us) if cpu_us else None,
            conflicts=_median(one.conflicts for one in mine),
            retries=_median(one.retries for one in mine),
            echo_per_s=_median(echoes),
            vs_echo=_ratio([one.per_s for one in mine], echoes),
            vs_one=_ratio([one.per_s for one in mine], [one.per_s for one in turns[1]]),
        )


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 1)


def _ratio(rates: Sequence[float], to: Sequence[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(rates, to, strict=True)), 3)


def _echo(cases: SchedulerCases) -> float:
    """Return the rate of a plain echo whose messages are as large as an order."""
    body = MessageCodec(_BODY_BYTES_MAX).command(PLACE, _order("req-echo"), Context())
    queue = f"berth_bench_echo_{os.getpid()}_{secrets.token_hex(4)}"
    return measure_echo(broker_url(), queue, body, cases.placements, cases.in_flight)


def _one_turn(cases: SchedulerCases, contention: str, hosts: int, count: int) -> _Turn:
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-")))
        broker = RabbitBroker(
            broker_url(), prefix=f"berth_bench_{os.getpid()}_{secrets.token_hex(4)}"
        )
        is_hot = contention == "hot"
        policy = folder / "policy.toml"
        multiplier = -1.0 if is_hot else 1.0
        policy.write_text(_POLICY.format(subset=cases.subset, multiplier=multiplier))
        total = _HOT_INSTANCES if is_hot else cases.placements
        asyncio.run(_fill(database.url, hosts, total))
        services = [
            stack.enter_context(_scheduler(folder / f"{number}.log", database.url, broker, policy))
            for number in range(count)
        ]
        # More orders than fit, so schedulers also compete for the last hosts.
        orders = int(hosts * total * 1.05) if is_hot else cases.placements
        before_s = [service.cpu_s() or 0.0 for service in services]
        load = uvloop.run(_load(broker, orders, cases.in_flight))
        counts = _sums(services)
        cpu_s = [service.cpu_s() for service in services]
        asyncio.run(_check(database.url, orders, load.decisions))
    spent_s = None if None in cpu_s else sum(one or 0.0 for one in cpu_s) - sum(before_s)
    placed = sum(one.verdict is Verdict.PLACED for one in load.decisions)
    conflicts = sum(counts.get(f"berth_claims:{outcome}", 0.0) for outcome in _IN_VAIN)
    return _Turn(
        placed=placed,
        refused=len(load.decisions) - placed,
        contended=int(counts.get("berth_refusals:contention", 0)),
        per_s=placed / load.seconds,
        cpu_us=None if spent_s is None else round(spent_s * 1e6 / placed, 1),
        conflicts=round(conflicts * _PER_1000 / placed, 1),
        retries=round(counts.get("berth_claim_retries:", 0.0) * _PER_1000 / placed, 1),
    )


async def _fill(url: str, hosts: int, instances: int) -> None:
    """Register hosts, on each of which `instances` instances fit."""
    stock = {
        VCPU: Inventory(FLAVOR.vcpus * instances),
        MEMORY_MB: Inventory(FLAVOR.memory_mb * instances),
        DISK_GB: Inventory(FLAVOR.root_gb * instances),
    }
    units: list[Unit] = []
    for index in range(hosts):
        name, uuid = f"host-{index:06d}", host_uuid(index)
        service = HostService(name, uuid, last_seen_s=time.time())
        provider = Provider(uuid, name, inventories=stock)
        units.append((Put(Host(uuid=uuid, name=name, node=name)), Put(provider), Put(service)))
    ledger = await open_ledger(url)
    try:
        for first in range(0, len(units), _UNITS_AT_ONCE):
            outcomes = await ledger.commit(units[first : first + _UNITS_AT_ONCE])
            if not all(isinstance(outcome, Committed) for outcome in outcomes):
                raise BrokenError("the fleet could not be registered")
    finally:
        await ledger.close()


@contextmanager
def _scheduler(log: Path, ledger: str, broker: RabbitBroker, policy: Path) -> Iterator[Service]:
    """Run a scheduler and yield it once it is ready."""
    service = Service("127.0.0.1", free_port(), 0)
    settings = {
        "BERTH_LEDGER_URL": ledger,
        "BERTH_BUS_URL": broker.url,
        "BERTH_BUS_PREFIX": broker.prefix,
        "BERTH_BUS_KEY_FILE": str(key_file()),
        "BERTH_POLICY_PATH": str(policy),
        "BERTH_METRICS_LISTEN": f"{service.host}:{service.port}",
    }
    command = [sys.executable, "-m", "berth.cli.main", "scheduler"]
    with running(
        service, command, settings, log, says="broker_connected", ready_s=_READY_S
    ) as started:
        yield started


@dataclass(frozen=True, slots=True)
class _Load:
    decisions: Sequence[Decision]
    seconds: float


async def _load(broker: RabbitBroker, orders: int, in_flight: int) -> _Load:
    """Send orders, `in_flight` at a time, as API processes do; return decisions and duration."""
    waiting = iter([_order(f"req-{number}") for number in range(orders)])
    decisions: list[Decision] = []
    async with _bus(broker) as bus:

        async def ask() -> None:
            for order in waiting:
                decision = await bus.call(PLACE, order, timeout_s=_ANSWER_S)
                decisions.append(decision)

        began_s = time.perf_counter()
        try:
            await asyncio.gather(*(ask() for _ in range(in_flight)))
        except BerthError as error:
            raise BrokenError(f"after {len(decisions)} of {orders} orders: {error}") from error
        return _Load(decisions, time.perf_counter() - began_s)


@asynccontextmanager
async def _bus(broker: RabbitBroker) -> AsyncIterator[RabbitBus]:
    line = BrokerConnection(broker, LogTelemetry("bench"), Random(0))
    bus = RabbitBus(line, secrets.token_hex(4), signer(), NoMetrics())
    task = asyncio.create_task(line.run())
    try:
        async with asyncio.timeout(_CONNECT_S):
            await line.up.wait()
        yield bus
    except TimeoutError as error:
        raise NoBrokerError(f"no RabbitMQ server at {broker.safe_url}") from error
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _order(request_id: str) -> PlaceOrder:
    uuid = instance_uuid_of(request_id, 0)
    asked = Request(request_id, (uuid,), FLAVOR, project_id="project", user_id="user")
    instance = Instance(
        uuid=uuid,
        name=request_id,
        project_id=asked.project_id,
        user_id=asked.user_id,
        request_id=request_id,
        reservation_id=reservation_id_of(request_id),
        flavor=FLAVOR,
        created_at_s=time.time(),
    )
    return PlaceOrder(asked, (instance,))


def _sums(services: Sequence[Service]) -> dict[str, float]:
    """Return counters by name and label, summed over the schedulers."""
    sums: dict[str, float] = {}
    for service in services:
        text = httpx.get(f"{service.url}/metrics", trust_env=False).text
        for family in text_string_to_metric_families(text):
            if family.type != "counter":
                continue
            for sample in family.samples:
                if sample.name.endswith("_total"):
                    label = sample.labels.get("outcome", sample.labels.get("code", ""))
                    key = f"{family.name}:{label}"
                    sums[key] = sums.get(key, 0.0) + sample.value
    return sums


async def _check(url: str, orders: int, decisions: Sequence[Decision]) -> None:
    """Check that each order was decided once and no host holds more than its capacity."""
    ledger = await open_ledger(url)
    try:
        kept = {one.request_id: one for one in decisions}
        if len(kept) != orders or len(decisions) != orders:
            raise BrokenError(f"{len(kept)} of {orders} orders were answered")
        await _check_room(ledger, kept)
    finally:
        await ledger.close()


async def _check_room(ledger: Ledger, decisions: dict[str, Decision]) -> None:
    used: dict[str, int] = {}
    for request_id, decision in decisions.items():
        if await ledger.get(Decision, request_id) != decision:
            raise BrokenError(f"{request_id}: the decision in the ledger differs from the answer")
        found = await ledger.get(Instance, instance_uuid_of(request_id, 0))
        host = decision.placements[0] if decision.placements else None
        if found is None or found.host != (host.host if host else None):
            raise BrokenError(f"{request_id}: its instance is not on the host of the decision")
        if host is not None:
            used[host.provider_uuid] = used.get(host.provider_uuid, 0) + FLAVOR.vcpus
    for provider in await ledger.all(Provider):
        stock = provider.inventories[VCPU]
        if provider.used.get(VCPU, 0) != used.get(provider.uuid, 0):
            raise BrokenError(f"{provider.name}: what is used is not what was placed there")
        if provider.used.get(VCPU, 0) > stock.total:
            raise BrokenError(f"{provider.name}: more is used than there is")
