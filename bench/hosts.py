"""Agents of up to 10,000 hosts at `berth api` and `berth scheduler` processes on PostgreSQL.

Each agent has its own key, connection, host and state (`host_driver.py`). The control plane runs as
real processes, with TLS and without.
"""

import asyncio
import os
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import asyncpg
import httpx
import msgspec

from bench.cases import HostCases
from bench.errors import BenchError
from bench.host_driver import Answer, DriverPlan, Order, host_name, public_bytes
from bench.peer import ROOT
from bench.placement.database import fresh_database
from bench.service import cpu_s_of
from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.system import raise_file_limit
from berth.domain.compute.host_identity import HostIdentity, HostKey, encoded_key
from berth.domain.compute.instance import Status
from berth.domain.ledger.write import Committed, Put
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from berth.ports.ledger import InstanceQuery

_READY_S: Final = 120.0
_POLL_S: Final = 0.1
_IDENTITIES_AT_ONCE: Final = 500
_BEAT_S: Final = 10.0
_FLAVOR: Final = "bench"
_CREATORS: Final = 16
_BUILD_S_MAX: Final = 300.0
_TRANSACTIONS: Final = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1"
_CONNECTIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"


@dataclass(frozen=True, slots=True)
class IdleTimes:
    """What hosts cost the control plane: their registration, and one window in which they idle.

    `registration_cpu_ms` is the CPU time of API and scheduler for each host that was new at this
    size, with its first connection. `transactions_per_s` are those of the whole database,
    `connections` the ledger's. `cores` is the share of a processor that API and scheduler use
    together.
    """

    hosts: int
    registration_cpu_ms: float
    seconds: float
    transactions_per_s: float
    connections: int
    cores: float
    beats_per_s: float


@dataclass(frozen=True, slots=True)
class HostTimes:
    """The agents of a fleet at one control plane.

    Attributes:
        tls: whether connections are encrypted.
        idle: the windows without a change, by number of hosts.
        heartbeat_cpu_us: CPU time of API and scheduler for one more heartbeat.
        memory_kb: memory of the API for each connected host, in KB of 1,000 bytes.
        push_p50_ms: from a commit to the arrival at the agent, in the middle of the samples.
        push_p95_ms: what 95 % of the samples keep.
        back_s: from the end of all processes of the control plane until all agents were back.
        back_peak_per_s: the most connections that the agents began within one of these seconds.
        builds: the number of instances that were built, each on another host.
        build_s: from the first request to the last instance that is active.
    """

    tls: bool
    idle: list[IdleTimes] = field(default_factory=list[IdleTimes])
    heartbeat_cpu_us: float = 0.0
    memory_kb: float = 0.0
    push_p50_ms: float | None = None
    push_p95_ms: float | None = None
    back_s: float | None = None
    back_peak_per_s: int | None = None
    builds: int = 0
    build_s: float | None = None


def measure_hosts(cases: HostCases) -> Iterator[HostTimes]:
    """Yield the times with TLS, then those without, each with a new ledger.

    Raises:
        NoDatabaseError: there is no PostgreSQL server.
        BenchError: a process did not start, an agent did not come back, or a build failed.
    """
    raise_file_limit()
    for tls in cases.tls:
        with _cloud(tls=tls) as cloud, _driver(cloud, max(cases.hosts)) as driver:
            yield _Measuring(cases, cloud, driver).run()


class _Cloud:
    """The control plane: an API, a scheduler and their database."""

    def __init__(self, folder: Path, url: str, *, tls: bool) -> None:
        self.folder = folder
        self.url = url
        self.database = url.rpartition("/")[2]
        self.certificate = folder / "tls.pem" if tls else None
        self.port = loopback.free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def start(self) -> None:
        """Start both processes, and wait until the API is ready."""
        self.start_one("scheduler", ["scheduler"], {})
        self.start_api("api", self.port)

    def start_api(self, name: str, port: int) -> None:
        """Start an API and wait until it is ready."""
        settings = {"BERTH_API_LISTEN": f"{loopback.HOST}:{port}"}
        if self.certificate is not None:
            settings["BERTH_API_TLS_CERTIFICATE"] = str(self.certificate)
            settings["BERTH_API_TLS_KEY"] = str(self.folder / "tls.key")
        self.start_one(name, ["api"], settings)
        ends_s = time.monotonic() + _READY_S
        with self.client(port) as client:
            while not _is_ready(client):
                if time.monotonic() > ends_s or self._processes[name].poll() is not None:
                    raise BenchError(f"the API is not ready:\n{self._log(name)}")
                time.sleep(_POLL_S)

    def start_one(self, name: str, words: list[str], settings: Mapping[str, str]) -> None:
        """Start a process."""
        self._starts += 1
        kept = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
        common = {"BERTH_LEDGER_URL": self.url, "BERTH_LOG_LEVEL": "warning"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "berth.cli.main", *words],
                env={**kept, **common, **settings},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def client(self, port: int | None = None) -> httpx.Client:
        """Return a client of the API."""
        scheme = "http" if self.certificate is None else "https"
        verify: ssl.SSLContext | bool = True
        if self.certificate is not None:
            verify = ssl.create_default_context(cafile=str(self.certificate))
        base = f"{scheme}://{loopback.HOST}:{port or self.port}"
        headers = {"OpenStack-API-Version": "compute 2.96"}
        return httpx.Client(
            base_url=base, verify=verify, headers=headers, timeout=60.0, trust_env=False
        )

    def cpu_s(self) -> float:
        """Return the CPU seconds of both processes so far."""
        found = [cpu_s_of(self._processes[name].pid) for name in ("api", "scheduler")]
        return sum(one or 0.0 for one in found)

    def resident_bytes(self, name: str) -> int:
        """Return the memory of a process."""
        text = Path(f"/proc/{self._processes[name].pid}/statm").read_text("utf-8")
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End all processes at once, without any farewell."""
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self._processes.values():
            process.wait()

    def stop(self, name: str) -> None:
        """End one process."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait()

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", errors="replace")[-3000:]


def _is_ready(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/readyz").is_success
    return False


@contextmanager
def _cloud(*, tls: bool) -> Iterator[_Cloud]:
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-")))
        cloud = _Cloud(folder, database.url, tls=tls)
        if tls:
            write_certificate(folder / "tls.pem", folder / "tls.key")
        asyncio.run(migrate(database.url))
        stack.callback(cloud.kill)
        cloud.start()
        yield cloud


class _Driver:
    """The process that holds the agents."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def send(self, order: Order) -> None:
        """Send an order."""
        if self._process.stdin is None:
            raise BenchError("the driver has no input")
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Answer:
        """Wait for the answer to an order.

        Raises:
            BenchError: the driver has ended.
        """
        line = b"" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            raise BenchError("the driver of the agents ended; its error is above")
        return msgspec.json.decode(line, type=Answer)

    def ask(self, order: Order) -> Answer:
        """Send an order and wait for its answer."""
        self.send(order)
        return self.answer()


@contextmanager
def _driver(cloud: _Cloud, hosts: int) -> Iterator[_Driver]:
    asyncio.run(_enroll(cloud.url, hosts))
    tls = cloud.certificate is not None
    plan = DriverPlan(loopback.HOST, cloud.port, tls, hosts, _BEAT_S)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.host_driver", msgspec.json.encode(plan).decode()],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield _Driver(process)
    finally:
        process.kill()
        process.wait()


async def _enroll(url: str, hosts: int) -> None:
    """Store the public keys of hosts, as if each had redeemed a token."""
    ledger, now_s = await open_ledger(url), time.time()
    try:
        names = [host_name(number) for number in range(hosts)]
        for first in range(0, hosts, _IDENTITIES_AT_ONCE):
            puts = tuple(
                Put(HostIdentity(one, (HostKey(encoded_key(public_bytes(one)), now_s),)))
                for one in names[first : first + _IDENTITIES_AT_ONCE]
            )
            (outcome,) = await ledger.commit([puts])
            if not isinstance(outcome, Committed):
                raise BenchError(f"the keys of hosts were not stored: {outcome}")
    finally:
        await ledger.close()


class _Measuring:
    """The measurements on one control plane."""

    def __init__(self, cases: HostCases, cloud: _Cloud, driver: _Driver) -> None:
        self._cases = cases
        self._cloud = cloud
        self._driver = driver

    def run(self) -> HostTimes:
        """Return the times."""
        cases, driver, cloud = self._cases, self._driver, self._cloud
        idle: list[IdleTimes] = []
        before = 0
        tls = cloud.certificate is not None
        sizes = cases.hosts if tls or not all(cases.tls) else cases.hosts[-1:]
        for hosts in sizes:
            cpu_s = cloud.cpu_s()
            driver.ask(Order("grow", hosts))
            time.sleep(cases.settle_s)
            cpu_ms = (cloud.cpu_s() - cpu_s) * 1e3 / (hosts - before)
            before = hosts
            window = self._idle(hosts)
            idle.append(replace(window, registration_cpu_ms=round(cpu_ms, 2)))
        heartbeat_cpu_us = self._heartbeat(idle[-1])
        memory_kb = self._memory(sizes[-1])
        pushes = driver.ask(Order("push", cases.pushes, ledger=cloud.url)).pushes_ms
        pushes.sort()
        back = self._restart() if cases.restarts else None
        build_s = self._build()
        return HostTimes(
            tls=tls,
            idle=idle,
            heartbeat_cpu_us=heartbeat_cpu_us,
            memory_kb=memory_kb,
            push_p50_ms=round(statistics.median(pushes), 2) if pushes else None,
            push_p95_ms=round(pushes[int(len(pushes) * 0.95)], 2) if pushes else None,
            back_s=None if back is None else round(back.seconds, 1),
            back_peak_per_s=None if back is None else back.peak_per_s,
            builds=cases.builds,
            build_s=build_s,
        )

    def _idle(self, hosts: int) -> IdleTimes:
        """Measure a window in which nothing happens but what idle agents do."""
        cloud, driver = self._cloud, self._driver
        before, began_s = driver.ask(Order("count")), time.monotonic()
        transactions, _ = asyncio.run(_counts(cloud))
        cpu_s = cloud.cpu_s()
        time.sleep(self._cases.window_s)
        later, connections = asyncio.run(_counts(cloud))
        cpu_s, seconds = cloud.cpu_s() - cpu_s, time.monotonic() - began_s
        after = driver.ask(Order("count"))
        if after.open != hosts or after.lost != before.lost:
            raise BenchError(f"{after.open} of {hosts} agents were connected in an idle window")
        return IdleTimes(
            hosts=hosts,
            registration_cpu_ms=0.0,
            seconds=round(seconds, 1),
            transactions_per_s=round((later - transactions) / seconds, 2),
            connections=connections,
            cores=round(cpu_s / seconds, 4),
            beats_per_s=round((after.beats - before.beats) / seconds, 1),
        )

    def _heartbeat(self, slow: IdleTimes) -> float:
        """Return the CPU time of one more heartbeat, in microseconds."""
        fast_s = slow.hosts / self._cases.beats_per_s
        self._driver.ask(Order("beat", beat_s=fast_s))
        fast = self._idle(slow.hosts)
        self._driver.ask(Order("beat", beat_s=_BEAT_S))
        more = fast.beats_per_s - slow.beats_per_s
        return round((fast.cores - slow.cores) * 1e6 / more, 1)

    def _memory(self, hosts: int) -> float:
        """Return the memory of a connected host: that of the API minus that of one without agents.

        Both have the tables of all hosts.
        """
        self._cloud.start_api("empty api", loopback.free_port())
        used = self._cloud.resident_bytes("api") - self._cloud.resident_bytes("empty api")
        self._cloud.stop("empty api")
        return round(used / hosts / 1e3, 1)

    def _restart(self) -> Answer:
        """Kill the whole control plane, start it again, and wait for all agents."""
        self._driver.send(Order("reopen"))
        time.sleep(0.5)
        self._cloud.kill()
        self._cloud.start()
        return self._driver.answer()

    def _build(self) -> float | None:
        """Create servers over HTTP; return the seconds until all are active."""
        builds = self._cases.builds
        if not builds:
            return None
        with self._cloud.client() as client:
            flavor = {"id": _FLAVOR, "name": _FLAVOR, "vcpus": 1, "ram": 2_048, "disk": 1}
            client.post("/v2.1/flavors", json={"flavor": flavor}).raise_for_status()
        return round(asyncio.run(_create(self._cloud, builds)), 2)


async def _counts(cloud: _Cloud) -> tuple[int, int]:
    """Return the transactions so far, and the connections, without those of this call."""
    connection = await asyncpg.connect(cloud.url.rpartition("/")[0] + "/postgres")
    try:
        transactions = await connection.fetchval(_TRANSACTIONS, cloud.database)
        return transactions, await connection.fetchval(_CONNECTIONS, cloud.database)
    finally:
        await connection.close()


async def _create(cloud: _Cloud, builds: int) -> float:
    """Create servers, one a request, and return the seconds until all are active."""
    ledger, began_s = await open_ledger(cloud.url), time.monotonic()
    numbers = iter(range(builds))
    try:
        with cloud.client() as client:

            def create() -> None:
                for number in numbers:
                    server = {"name": f"build-{number}", "flavorRef": _FLAVOR, "networks": "none"}
                    client.post("/v2.1/servers", json={"server": server}).raise_for_status()

            await asyncio.gather(*(asyncio.to_thread(create) for _ in range(_CREATORS)))
            counts: Mapping[str, int] = {}
            while counts.get(Status.ACTIVE, 0) < builds:
                if counts.get(Status.ERROR) or time.monotonic() - began_s > _BUILD_S_MAX:
                    raise BenchError(f"not all of {builds} instances were built: {dict(counts)}")
                await asyncio.sleep(_POLL_S)
                counts = await ledger.status_counts()
        seconds = time.monotonic() - began_s
        found = await ledger.instances(InstanceQuery(status=Status.ACTIVE, limit=builds))
        if len({one.host for one in found}) != builds:
            raise BenchError(f"{builds} instances are not on {builds} hosts")
        return seconds
    finally:
        await ledger.close()


def host_measures(times: HostTimes) -> dict[str, float]:
    """Return the measures that floors refer to."""
    key = f"hosts.{'tls' if times.tls else 'plain'}"
    measures = {
        f"{key}.heartbeat_us": times.heartbeat_cpu_us,
        f"{key}.memory_kb": times.memory_kb,
        f"{key}.idle_cores": times.idle[-1].cores,
        f"{key}.transactions_per_s": max(one.transactions_per_s for one in times.idle),
        f"{key}.transactions_spread": max(one.transactions_per_s for one in times.idle)
        - min(one.transactions_per_s for one in times.idle),
    }
    if times.push_p50_ms is not None:
        measures[f"{key}.push_p50_ms"] = times.push_p50_ms
    if times.back_s is not None:
        measures[f"{key}.back_s"] = times.back_s
    return measures


def host_lines(times: HostTimes) -> Iterator[str]:
    """Yield the figures as sentences."""
    how = "with TLS" if times.tls else "without TLS"
    for one in times.idle:
        yield (
            f"{one.hosts:,} idle agents {how}: {one.transactions_per_s:.2f} ledger transactions/s "
            f"over {one.connections} connections, {one.cores:.3f} of a core for "
            f"{one.beats_per_s:,.0f} heartbeats/s; registering a host took "
            f"{one.registration_cpu_ms:.2f} ms of CPU"
        )
    yield (
        f"Agents {how}: a heartbeat takes {times.heartbeat_cpu_us:.1f} us of CPU, a connected host "
        f"{times.memory_kb:.1f} KB"
    )
    if times.push_p50_ms is not None:
        yield f"From a commit to the agent: p50 {times.push_p50_ms} ms, p95 {times.push_p95_ms} ms"
    if times.back_s is not None:
        yield (
            f"All agents were back {times.back_s:.1f} s after the control plane was killed, with "
            f"at most {times.back_peak_per_s:,} attempts to connect per second"
        )
    if times.build_s is not None:
        yield f"{times.builds:,} builds on {times.builds:,} hosts took {times.build_s:.1f} s"
