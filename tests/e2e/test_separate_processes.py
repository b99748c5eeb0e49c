"""API, scheduler and agents as separate processes on one ledger."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.conftest import Processes, Service

_HOSTS = 3


def _start_all(processes: Processes, service: Service, ledger: str) -> None:
    address = service.url.removeprefix("http://")
    api = processes.start("api", "--listen", address, "--ledger", ledger)
    service.wait_until(lambda status: True, api)
    processes.start("scheduler", "--ledger", ledger)
    processes.start("agent", "--ledger", ledger, "--fake-hosts", str(_HOSTS))
    service.wait_until(lambda status: status["hosts"]["total"] == _HOSTS, api)


def _check_life(service: Service) -> None:
    service.flavor("small", vcpus=2, ram=2048)
    uuid = service.create("small", "pair", count=2)
    server = service.wait_for_status(uuid, "ACTIVE")
    assert server["OS-EXT-SRV-ATTR:host"].startswith("fake-")
    request_id = service.get(f"/berth/v1/instances/{uuid}")["request_id"]
    decision = service.get(f"/berth/v1/decisions/{request_id}")
    assert len(decision["placements"]) == 2
    refused = service.create("small", "too-many", count=1000)
    assert "No valid host" in service.wait_for_status(refused, "ERROR")["fault"]["message"]


def test_on_sqlite(processes: Processes, service: Service, tmp_path: Path) -> None:
    """On SQLite, servers are placed and built, and a refusal carries its reason.

    Each process loads what it needs by itself, as in a real installation.
    """
    processes.programs = True
    _start_all(processes, service, f"sqlite:///{tmp_path / 'berth.sqlite'}")
    _check_life(service)


@pytest.mark.postgres
def test_on_postgresql(processes: Processes, service: Service, fresh_postgres_url: str) -> None:
    """On PostgreSQL, servers are placed and built, and a refusal carries its reason."""
    _start_all(processes, service, fresh_postgres_url)
    _check_life(service)


def test_several_schedulers_keep_a_group_apart(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """Eight servers of an anti-affinity group, placed by three schedulers, are on eight hosts."""
    ledger = f"sqlite:///{tmp_path / 'berth.sqlite'}"
    api = processes.start(
        "api", "--listen", service.url.removeprefix("http://"), "--ledger", ledger
    )
    service.wait_until(lambda status: True, api)
    processes.start("agent", "--ledger", ledger, "--fake-hosts", "10")
    for _ in range(3):
        processes.start("scheduler", "--ledger", ledger)
    service.wait_until(lambda status: status["hosts"]["total"] == 10, api)
    service.flavor("small")
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    group = service.post("/v2.1/os-server-groups", body)["server_group"]["id"]

    def create(number: int) -> str:
        server = {"name": f"s{number}", "flavorRef": "small", "networks": "none"}
        hints = {"group": group}
        answer = service.post("/v2.1/servers", {"server": server, "os:scheduler_hints": hints})
        uuid: str = answer["server"]["id"]
        return uuid

    with ThreadPoolExecutor(8) as pool:
        uuids = list(pool.map(create, range(8)))
    servers = [service.wait_for_status(uuid, "ACTIVE") for uuid in uuids]
    assert len({server["OS-EXT-SRV-ATTR:host"] for server in servers}) == 8


def test_requests_wait_for_a_scheduler(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """A create is accepted without a scheduler; one that starts later places the server."""
    ledger = f"sqlite:///{tmp_path / 'berth.sqlite'}"
    address = service.url.removeprefix("http://")
    api = processes.start("api", "--listen", address, "--ledger", ledger)
    service.wait_until(lambda status: True, api)
    processes.start("agent", "--ledger", ledger, "--fake-hosts", str(_HOSTS))
    service.wait_until(lambda status: status["hosts"]["total"] == _HOSTS, api)
    service.flavor("small")
    uuid = service.create("small", "patient")
    server = service.get(f"/v2.1/servers/{uuid}")["server"]
    assert (server["status"], server["OS-EXT-STS:task_state"]) == ("BUILD", "scheduling")
    processes.start("scheduler", "--ledger", ledger)
    service.wait_for_status(uuid, "ACTIVE")
