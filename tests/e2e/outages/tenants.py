"""Tenants that send requests during an outage and record the answers."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Self

import httpx

from tests.e2e.conftest import Service
from tests.e2e.outages.cloud import Cloud, check_audit, wait_until

FLAVORS: Final = {"small": 1, "large": 2}
"""The VCPUs of each flavor, by name; a resize goes from the first to the second."""

_AWAY: Final = 503
_NOT_NOW: Final = (404, 409)
_RESIZED: Final = "already has this flavor"
_VERSION: Final = {"OpenStack-API-Version": "compute 2.96"}
_DEEDS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("resize", {"resize": {"flavorRef": "large"}}),
    ("migrate", {"migrate": None}),
    ("live", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
    ("stop", {"os-stop": None}),
    ("confirm", {"confirmResize": None}),
)


@dataclass
class Tenants:
    """Threads that create, change and delete servers, with a record of the answers.

    A create is repeated under its key until it succeeds, as a client should do.

    Attributes:
        uuids: uuids of the accepted servers, by idempotency key.
        deleted: uuids of the servers whose deletion was accepted.
        answers: number of answers by HTTP status.
        wrong: unexpected answers: timeouts, other statuses, or 503 without a reason.
        slowest_s: the longest time until an answer.
    """

    service: Service
    threads: int = 4
    seed: int = 1
    uuids: dict[str, str] = field(default_factory=dict[str, str])
    deleted: set[str] = field(default_factory=set[str])
    answers: Counter[int] = field(default_factory=Counter[int])
    wrong: list[str] = field(default_factory=list[str])
    slowest_s: float = 0.0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        """Create the flavors and start the threads."""
        for name, vcpus in FLAVORS.items():
            self.service.flavor(name, vcpus=vcpus, ram=256)
        self._running = [
            threading.Thread(target=self._live, args=(number,)) for number in range(self.threads)
        ]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads."""
        self.stop()

    def stop(self) -> None:
        """Stop the threads as soon as their present requests have been answered."""
        self._stopped.set()
        for thread in self._running:
            thread.join()

    def wait_for(self, count: int) -> None:
        """Wait until at least `count` servers have been accepted."""
        wait_until(lambda: len(self.uuids) >= count, self.answers)

    def _live(self, number: int) -> None:
        rng = Random(f"{self.seed}/{number}")
        mine: list[str] = []
        with httpx.Client(base_url=self.service.url, headers=_VERSION, trust_env=False) as http:
            turn = 0
            while not self._stopped.is_set():
                turn += 1
                mine.append(self._create(http, f"t{number}-{turn}"))
                for _ in range(2):
                    uuid = rng.choice(mine)
                    _, body = rng.choice(_DEEDS)
                    self._ask(http, "POST", f"/v2.1/servers/{uuid}/action", body)
                if rng.random() < 0.4:
                    self._delete(http, mine.pop(rng.randrange(len(mine))))
                time.sleep(0.02)

    def _create(self, http: httpx.Client, key: str) -> str:
        server = {"name": key, "flavorRef": "small", "networks": "none"}
        while True:
            answer = self._ask(http, "POST", "/v2.1/servers", {"server": server}, key=key)
            if answer is not None and answer.is_success:
                uuid: str = answer.json()["server"]["id"]
                self.uuids[key] = uuid
                return uuid
            time.sleep(0.05)

    def _delete(self, http: httpx.Client, uuid: str) -> None:
        while True:
            answer = self._ask(http, "DELETE", f"/v2.1/servers/{uuid}")
            if answer is not None and (answer.is_success or answer.status_code == _NOT_NOW[0]):
                self.deleted.add(uuid)
                return
            time.sleep(0.05)

    def _ask(
        self, http: httpx.Client, method: str, path: str, body: object = None, key: str = ""
    ) -> httpx.Response | None:
        """Send a request once and return the response; None if the API process does not answer."""
        headers = {"Idempotency-Key": key} if key else {}
        began_s = time.monotonic()
        try:
            answer = http.request(method, path, json=body, headers=headers, timeout=60.0)
        except httpx.TransportError as error:
            if isinstance(error, httpx.TimeoutException):
                self.wrong.append(f"{method} {path}: no answer")
            return None
        with self._lock:
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self.answers[answer.status_code] += 1
        status = answer.status_code
        is_clear = status == _AWAY and "Retry-After" in answer.headers and "ledger" in answer.text
        is_done = _RESIZED in answer.text  # by the same tenant, earlier
        if not (answer.is_success or is_clear or is_done or status in _NOT_NOW):
            self.wrong.append(f"{method} {path}: {status} {answer.text[:300]}")
        return answer


def check_settled(cloud: Cloud, tenants: Tenants) -> None:
    """Check that each accepted request took effect once, and that hosts hold no other amounts.

    Resizes are confirmed first, because an unconfirmed one holds resources on two hosts.
    """
    assert not tenants.wrong, tenants.wrong
    wait_until(lambda: not _confirm(cloud.service), "servers are never at rest")
    servers = _servers(cloud.service)
    names = Counter(server["name"] for server in servers)
    assert max(names.values(), default=0) <= 1
    there = {server["id"] for server in servers}
    assert there.isdisjoint(tenants.deleted)
    assert there == set(tenants.uuids.values()) - tenants.deleted
    assert {s["status"] for s in servers} <= {"ACTIVE", "SHUTOFF", "ERROR"}
    assert [s for s in servers if s["status"] == "ERROR" and not s["fault"]["message"]] == []
    placed = [s for s in servers if s["OS-EXT-SRV-ATTR:host"] is not None]
    held = sum(s["flavor"]["vcpus"] for s in placed)
    # A server that was deleted during a move holds resources until the other host is cleared.
    wait_until(lambda: cloud.used()["VCPU"] == held, f"the used VCPU do not become {held}")
    check_audit(cloud.service)


def _servers(service: Service) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    marker: dict[str, str] = {}
    while True:
        page = httpx.get(
            f"{service.url}/v2.1/servers/detail",
            params={"limit": "1000", **marker},
            headers=_VERSION,
            trust_env=False,
            timeout=60.0,
        )
        page.raise_for_status()
        servers = page.json()["servers"]
        found += servers
        if not servers:
            return found
        marker = {"marker": servers[-1]["id"]}


def _confirm(service: Service) -> list[str]:
    """Confirm resizes, and return descriptions of the servers that are still changing."""
    restless: list[str] = []
    for server in _servers(service):
        task = server["OS-EXT-STS:task_state"]
        if server["status"] == "VERIFY_RESIZE" and task is None:
            path = f"{service.url}/v2.1/servers/{server['id']}/action"
            httpx.post(path, json={"confirmResize": None}, headers=_VERSION, trust_env=False)
        if task is not None or server["status"] in ("VERIFY_RESIZE", "BUILD"):
            restless.append(f"{server['id']}: {server['status']} {task}")
    return restless
