"""The load of a large fleet's agents on a scheduler: heartbeats, casts and some churn.

`berth agent` processes simulate the hosts with the fake driver; each host casts for itself over
RabbitMQ. One `berth scheduler` receives the casts, follows a PostgreSQL ledger, and places the
instances that are created meanwhile. The processor time of the scheduler's process is measured.
"""

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bench.bus_signing import key_file, signer
from bench.cases import AgentCases
from bench.errors import BenchError
from bench.fleet import FLAVOR
from bench.placement.database import fresh_database
from bench.schedulers import NoBrokerError, broker_url
from bench.service import Service, running
from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker, RabbitBus
from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.system import LogTelemetry, NoMetrics
from berth.domain.compute.decision import Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request, instance_uuid_of, reservation_id_of
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.write import Committed, Put
from berth.lab.loopback import free_port
from berth.ports.ledger import Ledger
from berth.services.requests.orders import PLACE, PlaceOrder

_PROCESSES: Final = 2
_CONNECT_S: Final = 30.0
_ANSWER_S: Final = 300.0
_READY_S: Final = 600.0
_POLL_S: Final = 0.5
_AT_ONCE: Final = 25
"""Instances per order while the fleet is filled."""
_HEARD_LEAST: Final = 0.25
"""The least fraction of the due casts that must arrive; with fewer the machine is too slow."""
_REPORTING: Final = 0.99
"""The fraction of the hosts that must have reported before a window begins."""


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """One window with one source of instance information.

    `cores` is the share of a processor that the scheduler used, scaled up to all due casts if the
    agents sent fewer. `heard` counts the casts that it received, `due` those that were expected
    (syncs, creates and deletes), `differed` those whose digest was not that of the table, `reloads`
    the hosts that it reloaded, and `placed` the instances that it placed.
    """

    source: str
    hosts: int
    instances: int
    seconds: float
    cores: float
    heard: int
    due: int
    differed: int
    reloads: int
    placed: int


def measure_agents(cases: AgentCases) -> Iterator[AgentTimes]:
    """Yield the times of each source, measured on one fleet with a new scheduler each.

    Raises:
        NoDatabaseError: there is no PostgreSQL server.
        NoBrokerError: there is no RabbitMQ server.
        BenchError: a process did not start, or the machine was too slow.
    """
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-")))
        broker = RabbitBroker(
            broker_url(), prefix=f"berth_bench_{os.getpid()}_{secrets.token_hex(4)}"
        )
        asyncio.run(_prepare(database.url, broker))
        shared = {
            "BERTH_LEDGER_URL": database.url,
            "BERTH_BUS_URL": broker.url,
            "BERTH_BUS_PREFIX": broker.prefix,
            "BERTH_BUS_KEY_FILE": str(key_file()),
            "BERTH_LOG_LEVEL": "info",
            "BERTH_TRACKING_INSTANCE_SYNC_INTERVAL_S": str(cases.sync_interval_s),
        }
        for number in range(_PROCESSES):
            fleet = folder / f"fleet-{number}.json"
            fleet.write_bytes(_fleet(cases.hosts // _PROCESSES, number))
            settings = {**shared, "BERTH_AGENT_FLEET": str(fleet)}
            stack.enter_context(_process(folder / f"agent-{number}.log", "agent", settings))
        is_new = True
        for source in cases.sources:
            settings = {**shared, "BERTH_TRACKING_INSTANCE_INFORMATION": source}
            with _process(folder / f"scheduler-{source}.log", "scheduler", settings) as service:
                _await(service, "berth_hosts", "up", range(cases.hosts, cases.hosts + 1))
                load = _Load(database.url, broker, cases)
                if is_new:
                    asyncio.run(load.populate())
                is_new = False
                few = int(cases.hosts * (1 - _REPORTING))
                _await(service, "berth_hosts_unreported", "", range(few + 1))
                yield _window(service, load, source, cases)


async def _prepare(url: str, broker: RabbitBroker) -> None:
    await migrate(url)
    async with _bus(broker):
        pass


def _fleet(hosts: int, number: int) -> bytes:
    totals = {VCPU: 64, MEMORY_MB: 262_144, DISK_GB: 4_000}
    names = (f"host-{number}-{index:05d}" for index in range(hosts))
    return msgspec.json.encode([{"name": name, "totals": totals} for name in names])


def _window(service: Service, load: "_Load", source: str, cases: AgentCases) -> AgentTimes:
    before, cpu_s, began_s = _readings(service), service.cpu_s(), time.monotonic()
    asyncio.run(load.churn())
    seconds, after_cpu_s = time.monotonic() - began_s, service.cpu_s()
    after = _readings(service)
    if cpu_s is None or after_cpu_s is None:
        raise BenchError("the processor time of a process cannot be read from /proc")

    def grown(name: str, *labels: str) -> int:
        return int(sum(after.get((name, one), 0) - before.get((name, one), 0) for one in labels))

    heard = grown("berth_instance_messages", "agreed", "differed", "repeated")
    due = int(cases.hosts * seconds / cases.sync_interval_s) + load.placed + load.deleted
    if heard < due * _HEARD_LEAST:
        raise BenchError(
            f"{heard} casts were heard in {seconds:.0f} s and {due} were due: this"
            " machine is too busy for the agents"
        )
    return AgentTimes(
        source=source,
        hosts=cases.hosts,
        instances=cases.instances,
        seconds=round(seconds, 1),
        cores=round((after_cpu_s - cpu_s) / seconds * max(1.0, due / heard), 3),
        heard=heard,
        due=due,
        differed=grown("berth_instance_messages", "differed"),
        reloads=grown("berth_instance_reloads", "wrong", "right"),
        placed=load.placed,
    )


class _Load:
    """Creates and deletes instances, as API processes do."""

    def __init__(self, url: str, broker: RabbitBroker, cases: AgentCases) -> None:
        self._url = url
        self._broker = broker
        self._cases = cases
        self._run = secrets.token_hex(4)
        self._orders = 0
        self.placed = 0
        self.deleted = 0

    async def populate(self) -> None:
        """Fill the fleet, and wait until the guests run."""
        ledger = await open_ledger(self._url)
        orders = iter(range(self._cases.instances // _AT_ONCE))
        last: list[str] = []
        try:
            async with _bus(self._broker) as bus:

                async def work() -> None:
                    for _ in orders:
                        last[:] = await self._create(bus, _AT_ONCE)

                await asyncio.gather(*(work() for _ in range(4)))
            for uuid in last:
                await self._await_active(ledger, uuid)
        finally:
            await ledger.close()

    async def churn(self) -> None:
        """Create and delete instances at a steady rate for the duration of a window."""
        cases, self.placed, self.deleted = self._cases, 0, 0
        ledger = await open_ledger(self._url)
        pause_s, alive = 1 / cases.churn_per_s, list[str]()
        ends_s = time.monotonic() + cases.window_s
        try:
            async with _bus(self._broker) as bus:
                due_s = time.monotonic()
                while (now_s := time.monotonic()) < ends_s:
                    alive += await self._create(bus, 1)
                    if len(alive) > cases.churn_per_s * 10:
                        await self._delete(ledger, alive.pop(0))
                    due_s = max(due_s + pause_s, now_s)
                    await asyncio.sleep(due_s - time.monotonic())
        finally:
            await ledger.close()

    async def _create(self, bus: RabbitBus, count: int) -> list[str]:
        self._orders += 1
        request_id = f"req-{self._run}-{self._orders}"
        uuids = tuple(instance_uuid_of(request_id, index) for index in range(count))
        asked = Request(request_id, uuids, FLAVOR, project_id="project", user_id="user")
        now_s = time.time()
        instances = tuple(
            Instance(
                uuid=uuid,
                name=f"{request_id}-{index}",
                project_id=asked.project_id,
                user_id=asked.user_id,
                request_id=request_id,
                reservation_id=reservation_id_of(request_id),
                flavor=FLAVOR,
                launch_index=index,
                created_at_s=now_s,
            )
            for index, uuid in enumerate(uuids)
        )
        decision = await bus.call(PLACE, PlaceOrder(asked, instances), timeout_s=_ANSWER_S)
        if decision.verdict is not Verdict.PLACED:
            raise BenchError(f"an instance found no host: {decision.refusal}")
        self.placed += count
        return list(uuids)

    async def _delete(self, ledger: Ledger, uuid: str) -> None:
        """Order the deletion of an instance; skip it if the instance changes meanwhile."""
        found = await ledger.get(Instance, uuid)
        if found is not None:
            (outcome,) = await ledger.commit([(Put(replace(found, task=Task.DELETING)),)])
            self.deleted += isinstance(outcome, Committed)

    async def _await_active(self, ledger: Ledger, uuid: str) -> None:
        ends_s = time.monotonic() + _READY_S
        while time.monotonic() < ends_s:
            found = await ledger.get(Instance, uuid)
            if found is not None and found.status is Status.ACTIVE:
                return
            await asyncio.sleep(_POLL_S)
        raise BenchError(f"instance {uuid} was not built in {_READY_S:.0f} s")


@asynccontextmanager
async def _bus(broker: RabbitBroker) -> AsyncIterator[RabbitBus]:
    line = BrokerConnection(broker, LogTelemetry("bench"), Random(0))
    bus = RabbitBus(line, secrets.token_hex(4), signer(), NoMetrics())
    task = asyncio.create_task(line.run())
    try:
        try:
            async with asyncio.timeout(_CONNECT_S):
                await line.up.wait()
        except TimeoutError as error:
            raise NoBrokerError(f"no RabbitMQ server at {broker.safe_url}") from error
        yield bus
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _process(log: Path, part: str, settings: Mapping[str, str]) -> Iterator[Service]:
    """Run a part of Berth and yield it once it is ready."""
    service = Service("127.0.0.1", free_port(), 0)
    listen = {"BERTH_METRICS_LISTEN": f"{service.host}:{service.port}"}
    command = [sys.executable, "-m", "berth.cli.main", part]
    with running(service, command, {**settings, **listen}, log, ready_s=_READY_S) as started:
        yield started


def _await(service: Service, name: str, label: str, wanted: range) -> None:
    """Wait until a gauge is in a range, or raise BenchError."""
    ends_s, found = time.monotonic() + _READY_S, 0.0
    while time.monotonic() < ends_s:
        found = _readings(service).get((name, label), -1.0)
        if found in wanted:
            return
        time.sleep(_POLL_S)
    limits = f"{wanted.start} to {wanted.stop - 1}"
    raise BenchError(f"{name} is {found:g} after {_READY_S:.0f} s; it must be {limits}")


def _readings(service: Service) -> dict[tuple[str, str], float]:
    """Return the counters and gauges of a process, by name and first label."""
    text = httpx.get(f"{service.url}/metrics", trust_env=False, timeout=_CONNECT_S).text
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if family.type == "gauge" or sample.name.endswith("_total"):
                found[family.name, next(iter(sample.labels.values()), "")] = sample.value
    return found
