"""Drains of a host while schedulers and the API are killed with SIGKILL."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import Cloud, berth, check_audit, cloud, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_HOST = "host-0"
_FREE = 5
_MEMBERS = 2


def _fill(service: Service) -> list[str]:
    """Create servers on the host, two of them in groups with members on other hosts."""
    service.flavor("small", vcpus=1, ram=256)
    uuids = [_create(service, f"free-{number}", _HOST) for number in range(_FREE)]
    for number in range(_MEMBERS):
        group = {"name": f"apart-{number}", "policy": "anti-affinity"}
        made = service.post("/v2.1/os-server-groups", {"server_group": group})["server_group"]
        uuids.append(_create(service, f"member-{number}", _HOST, made["id"]))
        for other in (1, 2):
            _create(service, f"other-{number}-{other}", f"host-{other}", made["id"])
    for uuid in uuids:
        service.wait_for_status(uuid, "ACTIVE")
    return uuids


def _create(service: Service, name: str, host: str, group: str | None = None) -> str:
    server = {
        "name": name,
        "flavorRef": "small",
        "networks": "none",
        "availability_zone": f"nova:{host}",
    }
    hints = {} if group is None else {"group": group}
    answer = service.post("/v2.1/servers", {"server": server, "os:scheduler_hints": hints})
    uuid: str = answer["server"]["id"]
    return uuid


def _drain(service: Service) -> dict[str, Any]:
    try:
        found: dict[str, Any] = service.get(f"/berth/v1/hosts/{_HOST}/maintenance")["drain"]
    except httpx.TransportError:
        return {"state": "unknown", "counts": {"moved": 0}}
    return found


def _wait_for_moves(made: Cloud, number: int) -> None:
    """Wait until so many servers have moved."""
    wait_until(lambda: _drain(made.service)["counts"]["moved"] >= number, _drain(made.service))


def _kill(made: Cloud, name: str) -> None:
    """Kill a process, and start it again."""
    made.parts[name].kill()
    if name in made.ledgers:
        made.ledgers[name].open()
    made.start(name)


def _check_life(made: Cloud) -> None:
    """Drain a host through several deaths, and check that each server has moved once."""
    service = made.service
    uuids = _fill(service)
    plan = berth(service, "host", "drain", _HOST, "--dry-run", "--json")
    assert json.loads(plan.stdout)["fits"] == len(uuids), plan.stdout + plan.stderr
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(berth, service, "host", "drain", _HOST, "--parallel", "2")
        wait_until(lambda: _is_begun(service), "the drain never began")
        _wait_for_moves(made, 1)
        _kill(made, "scheduler")
        _wait_for_moves(made, 3)
        _kill(made, "api")
        _kill(made, "scheduler")
        done = shown.result(timeout=300.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_HOST}: drain drained; {len(uuids)} of {len(uuids)} moved" in done.stdout
    assert _drain(service)["state"] == "drained"
    servers = [service.get(f"/v2.1/servers/{uuid}")["server"] for uuid in uuids]
    assert {server["status"] for server in servers} == {"ACTIVE"}
    hosts = {server["name"]: server["OS-EXT-SRV-ATTR:host"] for server in servers}
    assert _HOST not in hosts.values()
    assert {hosts[f"member-{number}"] for number in range(_MEMBERS)} == {"host-3"}
    moves = service.get("/v2.1/os-migrations")["migrations"]
    assert set(Counter(move["instance_uuid"] for move in moves).values()) == {1}
    assert len(moves) == len(uuids)
    (host,) = [one for one in service.get("/berth/v1/hosts")["hosts"] if one["name"] == _HOST]
    assert host["service"]["disabled"] is True
    assert {inventory["used"] for inventory in host["inventories"].values()} == {0}
    assert berth(service, "host", "resume", _HOST).returncode == 0
    assert service.get(f"/berth/v1/hosts/{_HOST}")["service"]["disabled"] is False
    check_audit(service)


def _is_begun(service: Service) -> bool:
    listed = service.get("/berth/v1/maintenances")["maintenances"]
    return any(one["host"] == _HOST for one in listed)


def test_on_sqlite(processes: Processes, service: Service, tmp_path: Path) -> None:
    """The drain goes on after each death, and the command that shows it waits."""
    with cloud(
        processes, service, f"sqlite:///{tmp_path / 'berth.sqlite'}", timeout_s=5.0, delay_s=1.0
    ) as made:
        _check_life(made)


@pytest.mark.postgres
def test_on_postgresql(processes: Processes, service: Service, fresh_postgres_url: str) -> None:
    """The drain goes on after each death, and the command that shows it waits."""
    with cloud(processes, service, fresh_postgres_url, timeout_s=5.0, delay_s=1.0) as made:
        _check_life(made)
