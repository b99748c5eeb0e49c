"""Trees of real zones, each with its own processes, ledger, hosts and keys."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.config.zone_keys import add_parent, public_text
from berth.lab.loopback import free_port
from tests.e2e.conftest import Part, Processes, Service

WITHIN_S = 60.0
_LET_GO_S = 5.0
"""How long to wait for holds to end: half of the time for which offers are held."""
_HELD = re.compile(r"^berth_offers_held ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class RunningZone:
    """A zone: its folder, its processes and a client; the first process serves the API."""

    name: str
    folder: Path
    service: Service
    parts: tuple[Part, ...]

    def wait(self, *, hosts: int = 1) -> None:
        """Wait until the zone answers and its hosts are up."""
        self.service.wait_until(lambda status: status["hosts"]["up"] == hosts, self.parts[0])

    def trust(self, parent: "RunningZone") -> None:
        """Accept a parent's assertions from now on, without a restart."""
        public = public_text(parent.folder / "zone-keys")
        add_parent(self.folder / "zone-parents", parent.name, public)

    def adopt(self, child: "RunningZone") -> None:
        """Make another zone a child of this one, as an operator does."""
        body = {"zone": {"name": child.name, "api_url": child.service.url}}
        assert self.service.post("/zones", body)["zone"]["is_active"]

    def wait_for_children(self) -> None:
        """Wait until all children have answered."""
        deadline_s = time.monotonic() + WITHIN_S
        while not all(one["seen_at"] for one in self.service.get("/zones/detail")["zones"]):
            assert time.monotonic() < deadline_s, self.parts[0].log.read_text()
            time.sleep(0.05)

    def create(self, count: int) -> list[dict[str, Any]]:
        """Create servers of one VCPU in one request; return them when ACTIVE or in ERROR."""
        server = {"name": "vm", "flavorRef": "small", "networks": "none", "num_instances": count}
        answer = self.service.post("/zones/servers", {"server": server})
        path, reservation_id = "/v2.1/servers/detail", answer["reservation_id"]
        found = self.service.get(path, reservation_id=reservation_id)["servers"]
        return [self.service.wait_for_status(one["id"], "ACTIVE", "ERROR") for one in found]

    def delete(self, uuid: str) -> None:
        """Delete a server of the zone or of its children."""
        url = f"{self.service.url}/v2.1/servers/{uuid}"
        httpx.delete(url, trust_env=False, timeout=60.0).raise_for_status()

    def used_vcpus(self) -> int:
        """Return the used VCPUs of the zone's own hosts, once it holds no offers for parents.

        Parents release their surplus a moment after a select; unreleased holds end much later.
        """
        deadline_s = time.monotonic() + _LET_GO_S
        while (held := self._offers_held()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not held, f"{held:g} offers of {self.name} are still held"
        hosts: list[dict[str, Any]] = self.service.get("/berth/v1/hosts")["hosts"]
        return sum(host["inventories"]["VCPU"]["used"] for host in hosts)

    def _offers_held(self) -> float:
        page = httpx.get(f"{self.service.url}/metrics", trust_env=False, timeout=60.0)
        found = _HELD.search(page.raise_for_status().text)
        # A process without a scheduler holds no offers and has no such metric.
        return 0.0 if found is None else float(found[1])


def start_zone(processes: Processes, name: str, *, vcpus: int) -> RunningZone:
    """Start a zone in one process, without parents, with one host or none for 0 VCPUs."""
    folder, config = _settings(processes, name)
    port = free_port()
    words = ["--listen", f"127.0.0.1:{port}", "--data", str(folder), "--config", config]
    hosts = ["--fake-hosts", "1" if vcpus else "0", "--vcpus", str(vcpus)]
    part = processes.start("up", *words, *hosts)
    return RunningZone(name, folder, Service(f"http://127.0.0.1:{port}"), (part,))


def start_zone_of_processes(
    processes: Processes, name: str, broker: RabbitBroker, *, vcpus: int, schedulers: int
) -> RunningZone:
    """Start a zone of an API, several schedulers and one host, with a broker between them."""
    bus = f'[bus]\nurl = "{broker.url}"\nprefix = "{broker.prefix}"\n'
    folder, config = _settings(processes, name, 'on_gone = "refuse"\n', bus)
    port = free_port()
    words = ["--data", str(folder), "--config", config]
    api = processes.start("api", "--listen", f"127.0.0.1:{port}", *words)
    service = Service(f"http://127.0.0.1:{port}")
    # The first process creates the tables of the ledger.
    service.wait_until(lambda status: True, api)
    others = [processes.start("scheduler", *words) for _ in range(schedulers)]
    agent = processes.start("agent", *words, "--fake-hosts", "1", "--vcpus", str(vcpus))
    for one in others:  # before that the zone answers 503 to its parents
        one.wait_for_log("broker_connected")
    return RunningZone(name, folder, service, (api, *others, agent))


def _settings(processes: Processes, name: str, *further: str) -> tuple[Path, str]:
    """Create the folder of a zone; return it and the path of its settings."""
    folder = processes.folder / name
    folder.mkdir()
    config = folder / "berth.toml"
    config.write_text(
        "[agent]\ninitial_cpu_allocation_ratio = 1.0\n"
        f'[zones]\nname = "{name}"\npoll_interval_s = 0.5\nfailures_to_offline = 1\n'
        + "".join(further)
    )
    return folder, str(config)
