"""Processes that are killed with SIGKILL in the middle of their work."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import Cloud, cloud, wait_until
from tests.e2e.outages.tenants import FLAVORS, Tenants, check_settled

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

_VERSION = {"OpenStack-API-Version": "compute 2.96"}
_KILLS = 3


def kill(made: Cloud, name: str) -> None:
    """Kill a process and start it again, with its proxy to the ledger open."""
    made.parts[name].kill()
    if name in made.ledgers:
        made.ledgers[name].open()
    made.start(name)


def task_of(service: Service, uuid: str) -> str | None:
    """Return the task of a server; None if it has none."""
    server: dict[str, Any] = service.get(f"/v2.1/servers/{uuid}")["server"]
    task: str | None = server["OS-EXT-STS:task_state"]
    return task


def act(service: Service, uuid: str, action: str, argument: object = None) -> None:
    """Start an action on a server."""
    path = f"{service.url}/v2.1/servers/{uuid}/action"
    answer = httpx.post(path, json={action: argument}, headers=_VERSION, trust_env=False)
    assert answer.is_success, answer.text


def wait_for_rest(service: Service, uuid: str) -> dict[str, Any]:
    """Wait until a server has no task, and return it."""
    found: list[dict[str, Any]] = []

    def rests() -> bool:
        found[:] = [service.get(f"/v2.1/servers/{uuid}")["server"]]
        return found[0]["OS-EXT-STS:task_state"] is None

    wait_until(rests, uuid)
    return found[0]


def build_before(made: Cloud) -> str:
    """Begin a build while the agent is cut off from the ledger; return the server's uuid."""
    made.ledgers["agent"].silence()
    uuid = made.service.create("small", "before")
    wait_until(lambda: task_of(made.service, uuid) == "spawning", uuid)
    return uuid


def build_during(made: Cloud, key: str = "during") -> str:
    """Begin a build, wait until its driver is at work, and return the server's uuid."""
    uuid = made.service.create("small", key)
    wait_until(lambda: task_of(made.service, uuid) != "scheduling", uuid)
    time.sleep(made.delay_s / 2)
    return uuid


def build_after(made: Cloud) -> str:
    """Start a guest whose agent cannot reach the ledger; return the server's uuid."""
    uuid = build_during(made, "after")
    made.ledgers["agent"].silence()
    time.sleep(made.delay_s)
    return uuid


def resize(made: Cloud) -> str:
    """Begin a resize and return the server's uuid."""
    uuid = made.service.create("small", "resize")
    wait_for_rest(made.service, uuid)
    act(made.service, uuid, "resize", {"flavorRef": "large"})
    wait_until(lambda: task_of(made.service, uuid) != "resize_prep", uuid)
    return uuid


def migrate_live(made: Cloud) -> str:
    """Begin a live migration and return the server's uuid."""
    uuid = made.service.create("small", "live")
    wait_for_rest(made.service, uuid)
    act(made.service, uuid, "os-migrateLive", {"host": None, "block_migration": "auto"})
    time.sleep(made.delay_s)
    return uuid


def delete(made: Cloud) -> str:
    """Begin a deletion and return the server's uuid."""
    uuid = made.service.create("small", "delete")
    wait_for_rest(made.service, uuid)
    httpx.delete(f"{made.service.url}/v2.1/servers/{uuid}", trust_env=False).raise_for_status()
    return uuid


def test_an_agent_finds_its_work_again(
    processes: Processes, service: Service, fresh_postgres_url: str
) -> None:
    """A restarted agent completes the work of the killed one, once, and no resources are lost."""
    begin: list[Callable[[Cloud], str]] = [
        build_before,
        build_during,
        build_after,
        resize,
        migrate_live,
        delete,
    ]
    with cloud(processes, service, fresh_postgres_url, delay_s=0.6) as made:
        for name, vcpus in FLAVORS.items():
            service.flavor(name, vcpus=vcpus, ram=256)
        tenants = Tenants(service)
        for one in begin:
            uuid = one(made)
            kill(made, "agent")
            if one is delete:
                tenants.deleted.add(uuid)
                continue
            server = wait_for_rest(service, uuid)
            rests = {"ACTIVE", "VERIFY_RESIZE"}
            if one is migrate_live:
                # Fake guests die with their agent, which may have run both sides of the move.
                rests.add("ERROR")
            assert server["status"] in rests, (one, server)
            tenants.uuids[one.__name__] = uuid
        check_settled(made, tenants)


def test_schedulers_and_apis_die_in_the_midst_of_requests(
    processes: Processes, service: Service, fresh_postgres_url: str
) -> None:
    """No accepted request is lost: clients repeat it, or the next scheduler finds it."""
    with cloud(processes, service, fresh_postgres_url) as made, Tenants(service) as tenants:
        for name in ("scheduler", "api") * _KILLS:
            tenants.wait_for(len(tenants.uuids) + 3)
            kill(made, name)
        tenants.wait_for(len(tenants.uuids) + 5)
        tenants.stop()
        check_settled(made, tenants)
