"""Server creates over HTTP: a complete Berth, with agents and ledger, under load."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from bench.cases import HttpCases
from bench.load import Load, LoadPlan
from bench.peer import ROOT
from bench.service import Service, ServiceError, berth_up

_FLAVOR = "bench"
_HEADERS = {"OpenStack-API-Version": "compute 2.96"}


@dataclass(frozen=True, slots=True)
class CreateTimes:
    """Medians of the rounds, in milliseconds and microseconds.

    `server_cpu_us` is the CPU time of the server process per create, including its agents' builds,
    `load_cpu_us` that of the load. `created` counts the servers of all rounds.
    """

    hosts: int
    clients: int
    creates_per_s: float
    creates_per_s_best: float
    p50_ms: float
    p99_ms: float
    server_cpu_us: float | None
    load_cpu_us: float
    created: int
    rounds: int


def measure_creates(cases: HttpCases) -> CreateTimes:
    """Return the times, measured on a new Berth, whose files are removed afterwards.

    Raises:
        ServiceError: Berth did not start, or a create failed.
    """
    with (
        tempfile.TemporaryDirectory(prefix="berth-bench-") as folder,
        berth_up(Path(folder), fake_hosts=cases.hosts) as service,
    ):
        return measure_service(service, cases)


def measure_service(service: Service, cases: HttpCases) -> CreateTimes:
    """Run the rounds of load on a running Berth and return the times."""
    _make_flavor(service)
    _load(service, cases, "warm-up", cases.warm_up_s)
    loads: list[Load] = []
    cpu_us: list[float] = []
    for number in range(cases.rounds):
        before_s = service.cpu_s()
        load = _load(service, cases, f"round-{number}", cases.round_s)
        after_s = service.cpu_s()
        loads.append(load)
        if before_s is not None and after_s is not None:
            cpu_us.append((after_s - before_s) * 1e6 / load.creates)
    _check_none_failed(service)
    return CreateTimes(
        hosts=cases.hosts,
        clients=cases.clients,
        creates_per_s=_median(loads, lambda load: load.per_s),
        creates_per_s_best=round(max(load.per_s for load in loads), 2),
        p50_ms=_median(loads, lambda load: load.p50_ms),
        p99_ms=_median(loads, lambda load: load.p99_ms),
        server_cpu_us=round(statistics.median(cpu_us), 1) if cpu_us else None,
        load_cpu_us=_median(loads, lambda load: load.cpu_us),
        created=sum(load.creates for load in loads),
        rounds=cases.rounds,
    )


def _median(loads: Sequence[Load], value: Callable[[Load], float]) -> float:
    return round(statistics.median(value(load) for load in loads), 2)


def _load(service: Service, cases: HttpCases, prefix: str, seconds: float) -> Load:
    plan = LoadPlan(service.host, service.port, _FLAVOR, prefix, cases.clients, seconds)
    text = msgspec.json.encode(plan).decode()
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", text], cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise ServiceError(f"the load ended with exit code {done.returncode}")
    load = msgspec.json.decode(done.stdout, type=Load)
    if load.errors or not load.creates:
        raise ServiceError(f"{load.errors} of the creates failed; the first: {load.error}")
    return load


def _make_flavor(service: Service) -> None:
    flavor = {"id": _FLAVOR, "name": _FLAVOR, "vcpus": 1, "ram": 512, "disk": 1}
    with _client(service) as client:
        _checked(client.post("/v2.1/flavors", json={"flavor": flavor}))


def _check_none_failed(service: Service) -> None:
    """Raise ServiceError if an accepted server is in ERROR."""
    with _client(service) as client:
        answer = _checked(client.get("/v2.1/servers", params={"status": "ERROR", "limit": 1}))
        failed = answer.json()["servers"]
    if failed:
        raise ServiceError(f"server {failed[0]['id']} is in ERROR; is the fleet too small?")


@contextmanager
def _client(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=service.url, headers=_HEADERS, timeout=60.0, trust_env=False
    ) as client:
        yield client


def _checked(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise ServiceError(f"{answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer
