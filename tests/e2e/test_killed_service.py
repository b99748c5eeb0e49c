"""A service that is killed with SIGKILL while clients create servers, and restarted."""

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import Part, Processes, Service

_HOSTS = 8
_KILLS = 4
_CLIENTS = 4


def _start(processes: Processes, service: Service, data: Path) -> Part:
    part = processes.start(
        "up",
        "--listen",
        service.url.removeprefix("http://"),
        "--data",
        str(data),
        "--fake-hosts",
        str(_HOSTS),
    )
    service.wait_until(lambda status: status["hosts"]["total"] == _HOSTS, part)
    return part


def _create_until_told(
    service: Service, client: int, stop: threading.Event, acknowledged: dict[str, str]
) -> None:
    number = 0
    while not stop.is_set():
        key = f"c{client}-{number}"
        try:
            acknowledged[key] = service.create("tiny", key)
        except httpx.TransportError:
            time.sleep(0.05)  # the service is down, so the create is repeated with the same key
            continue
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                raise
            time.sleep(0.05)
            continue
        number += 1


def _used(hosts: list[dict[str, Any]]) -> Counter[str]:
    used: Counter[str] = Counter()
    for host in hosts:
        for name, inventory in host["inventories"].items():
            assert inventory["used"] <= inventory["capacity"], host["name"]
            used[name] += inventory["used"]
    return used


def test_nothing_acknowledged_is_lost_and_nothing_is_claimed_twice(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """After several kills each acknowledged server exists once, with its resources."""
    chance = random.Random(7)
    part = _start(processes, service, tmp_path / "data")
    service.flavor("tiny", vcpus=1, ram=64)
    stop = threading.Event()
    acknowledged: dict[str, str] = {}
    clients = [
        threading.Thread(target=_create_until_told, args=(service, index, stop, acknowledged))
        for index in range(_CLIENTS)
    ]
    for client in clients:
        client.start()
    for _ in range(_KILLS):
        time.sleep(chance.uniform(0.2, 0.8))
        part.kill()
        part = _start(processes, service, tmp_path / "data")
    time.sleep(0.3)
    stop.set()
    for client in clients:
        client.join()
    assert len(acknowledged) > _KILLS

    for key, uuid in acknowledged.items():
        server = service.wait_for_status(uuid, "ACTIVE", "ERROR")
        assert server["name"] == key
    listed = service.get("/v2.1/servers/detail", limit="1000")["servers"]
    while len(listed) % 1000 == 0 and listed:
        page = service.get("/v2.1/servers/detail", limit="1000", marker=listed[-1]["id"])
        if not page["servers"]:
            break
        listed += page["servers"]
    assert max(Counter(server["name"] for server in listed).values()) == 1
    assert set(acknowledged.values()) <= {server["id"] for server in listed}
    active = sum(server["status"] == "ACTIVE" for server in listed)
    used = _used(service.get("/berth/v1/hosts")["hosts"])
    assert used["VCPU"] == active
    assert used["MEMORY_MB"] == 64 * active
    assert part.stop() == 0


def test_a_repeated_create_answers_with_the_same_server(
    processes: Processes, service: Service, tmp_path: Path
) -> None:
    """The same idempotency key gives the same server, even after a kill and a restart."""
    part = _start(processes, service, tmp_path / "data")
    service.flavor("tiny", vcpus=1, ram=64)
    first = service.create("tiny", "once", count=3)
    assert service.create("tiny", "once", count=3) == first
    part.kill()
    _start(processes, service, tmp_path / "data")
    assert service.create("tiny", "once", count=3) == first
    service.wait_for_status(first, "ACTIVE")
    servers = service.get("/v2.1/servers/detail")["servers"]
    assert len(servers) == 3, json.dumps([server["name"] for server in servers])
