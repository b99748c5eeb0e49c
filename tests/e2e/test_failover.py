"""Failover of PostgreSQL to a streaming replica, under load, while all processes keep running."""

import os
import signal
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Final, TypeVar

import httpx
import pytest

from berth.lab import loopback
from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import HOSTS, Cloud, wait_until
from tests.e2e.outages.tenants import Tenants, check_settled
from tests.postgres_pair import Pair, running_pair

T = TypeVar("T")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_OK = httpx.codes.OK
_AWAY = httpx.codes.SERVICE_UNAVAILABLE
_LONGEST_S = 30.0
_INSTANCES: Final = "SELECT count(*) FROM instances WHERE is_live AND host IS NOT NULL"


@pytest.fixture
def pair() -> Generator[Pair]:
    """Yield a primary and a replica."""
    with running_pair() as made:
        yield made


def readiness(service: Service) -> httpx.Response:
    """Return the response of the readiness probe."""
    return httpx.get(f"{service.url}/readyz", trust_env=False, timeout=30.0)


@pytest.fixture
def cloud(processes: Processes, service: Service, pair: Pair) -> Generator[Cloud]:
    """Yield an API, a scheduler and agents on the pair, and end them before it."""
    made = Cloud(processes, service, processes.folder, pair.url, None)
    made.start_all()
    yield made
    processes.stop_all()


def test_no_acknowledged_request_is_lost(cloud: Cloud, pair: Pair) -> None:
    """With synchronous replication, each accepted request takes effect once after a failover.

    The readiness says in between that the ledger does not answer. No process is restarted.
    """
    service = cloud.service
    pair.replicate_synchronously()
    with Tenants(service) as tenants:
        tenants.wait_for(30)
        assert readiness(service).status_code == _OK
        pair.primary.kill()
        wait_until(lambda: tenants.answers[_AWAY] > 5, "no request was refused")
        answer = readiness(service)
        assert answer.status_code == _AWAY
        assert "the ledger does not answer" in answer.text
        pair.promote()
        wait_until(lambda: readiness(service).status_code == _OK, "not ready after the failover")
        tenants.wait_for(len(tenants.uuids) + 30)
        tenants.stop()
        assert tenants.slowest_s < _LONGEST_S
        check_settled(cloud, tenants)
    cloud.costs()  # which checks that all processes are alive


def test_all_processes_agree_after_losses(cloud: Cloud, pair: Pair) -> None:
    """Without synchronous replication, all processes agree with the database afterwards.

    One API process stands still during the failover, and goes on when the ledger has passed its
    version. Before, it showed the lost servers for ever.
    """
    service = cloud.service
    other = Service(f"http://127.0.0.1:{loopback.free_port()}")
    address = other.url.removeprefix("http://")
    paused = cloud.processes.start("api", "--listen", address, "--ledger", pair.url)
    other.wait_until(lambda status: status["hosts"]["total"] == HOSTS, paused)
    service.flavor("small", vcpus=1, ram=256)
    create(service, "kept", 10)
    pair.wait_for_replica()
    pair.cut_off_replica()
    create(service, "lost", 20)
    version = service.get("/berth/v1/status")["ledger_version"]
    wait_until(lambda: shown(other) == shown(service), "the replicas never agree")
    paused.process.send_signal(signal.SIGSTOP)
    pair.primary.kill()
    pair.promote()
    number = 0
    while ledger_version(pair) < version + 50:
        create(service, f"new-{number}", 5)
        number += 1
    os.kill(paused.process.pid, signal.SIGCONT)
    count = int(pair.replica.ask(_INSTANCES, database="berth"))
    for one in (service, other):
        wait_until(partial(_shows, one, count), f"{one.url} does not show {count} servers")
    assert readiness(other).status_code == _OK
    cloud.costs()


def ledger_version(pair: Pair) -> int:
    """Return the version of the promoted ledger."""
    return int(pair.replica.ask("SELECT version FROM head", database="berth"))


def shown(service: Service) -> int:
    """Return the number of servers on all hosts, as the replica of a process has them."""
    return sum(host["num_instances"] for host in service.get("/berth/v1/hosts")["hosts"])


def _shows(service: Service, count: int) -> bool:
    return shown(service) == count


def create(service: Service, name: str, count: int) -> None:
    """Create servers, and wait until they are active; repeat requests that are refused."""
    keys = [f"{name}-{number}" for number in range(count)]
    for uuid in [repeated(partial(service.create, "small", key)) for key in keys]:
        repeated(partial(service.wait_for_status, uuid, "ACTIVE"))


def repeated(ask: Callable[[], T]) -> T:
    """Ask until the response is not 503, and return it."""
    ends_s = time.monotonic() + _LONGEST_S
    while True:
        try:
            return ask()
        except httpx.HTTPStatusError as error:
            if error.response.status_code != _AWAY or time.monotonic() > ends_s:
                raise
        time.sleep(0.1)
