"""Agents of the previous version beside API, scheduler and agents of this version, on one ledger.

The previous version is taken from the project's history and run.
"""

import io
import json
import shutil
import subprocess
import tarfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Part, Processes, Service

PREVIOUS = "518845cb2cd7bcaab3d7a6d4043fa6d9917bfd13"
"""The commit of the previous version, to be updated with every release."""

_ROOT = Path(__file__).parents[2]
_READY_S = 120.0
_TOTALS = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 500}


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, check=False)


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the previous version's sources and metadata; skip without history."""
    if shutil.which("git") is None or _git("cat-file", "-e", f"{PREVIOUS}^{{commit}}").returncode:
        pytest.skip(f"the history does not contain {PREVIOUS[:12]}, the previous version")
    folder = tmp_path_factory.mktemp("previous")
    packed = _git("archive", "--format=tar", PREVIOUS, "src", "pyproject.toml").stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    _write_metadata(folder)
    return folder / "src"


def _write_metadata(folder: Path) -> None:
    """Write the metadata that an installed distribution would have.

    The first distribution of a name on the path wins, so the previous version finds its own entry
    points instead of those of this version, which name modules that it does not have.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    # The previous version was named `berth`, and would not replace this one under that name.
    distribution = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["name"]
    metadata = folder / "src" / "berth_scheduler-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n")
    groups = {"console_scripts": project.get("scripts", {}), **project["entry-points"]}
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _hosts_of(zone: str) -> tuple[str, str]:
    return f"{zone}-1", f"{zone}-2"


@dataclass
class Mixed:
    """A cloud with processes of two versions."""

    processes: Processes
    service: Service
    ledger: str
    previous: Path
    bus: tuple[str, ...] = ()
    bus_of_previous: tuple[str, ...] = ()
    api: Part = field(init=False)

    def run(self, *words: str, is_old: bool = False) -> None:
        """Run a command on the ledger, which must succeed."""
        part = self.start(*words, is_old=is_old)
        assert part.process.wait() == 0, part.log.read_text()

    def start(self, *words: str, is_old: bool = False) -> Part:
        """Start a process of this version, or of the previous one if `is_old`."""
        within = ("env", f"PYTHONPATH={self.previous}") if is_old else ()
        bus = self.bus_of_previous if is_old else self.bus
        return self.processes.start(*words, "--ledger", self.ledger, *bus, within=within)

    def start_api(self) -> None:
        """Start an API of this version and wait until it answers."""
        self.api = self.start("api", "--listen", self.service.url.removeprefix("http://"))
        self.service.wait_until(lambda status: True, self.api)

    def start_agents(self, zone: str, *, is_old: bool) -> Part:
        """Start an agent process for two fake hosts and return it."""
        fleet = self.processes.folder / f"{zone}.json"
        hosts = [{"name": name, "totals": _TOTALS} for name in _hosts_of(zone)]
        fleet.write_text(json.dumps(hosts))
        return self.start("agent", "--fleet", str(fleet), is_old=is_old)

    def make_zone(self, name: str) -> None:
        """Wait until the API knows the hosts of an availability zone, and create the zone."""
        names = _hosts_of(name)
        self.service.wait_until(lambda status: set(names) <= self.hosts().keys(), self.api)
        aggregate = {"name": name, "availability_zone": name}
        made = self.service.post("/v2.1/os-aggregates", {"aggregate": aggregate})
        path = f"/v2.1/os-aggregates/{made['aggregate']['id']}/action"
        for host in names:
            self.service.post(path, {"add_host": {"host": host}})

    def hosts(self) -> dict[str, Any]:
        """Return all hosts by name."""
        return {one["name"]: one for one in self.service.get("/berth/v1/hosts")["hosts"]}

    def create(self, name: str, zone: str, host: str) -> str:
        """Create a server on a host of a zone, and wait until it runs there."""
        server = {
            "name": name,
            "flavorRef": "small",
            "networks": "none",
            "availability_zone": zone,
            "host": host,
        }
        uuid: str = self.service.post("/v2.1/servers", {"server": server})["server"]["id"]
        self.expect(uuid, "ACTIVE", host)
        return uuid

    def act(self, uuid: str, action: dict[str, Any], status: str) -> None:
        """Start an action and wait until the server has a status."""
        self.service.post(f"/v2.1/servers/{uuid}/action", action)
        self.expect(uuid, status)

    def expect(self, uuid: str, status: str, host: str | None = None) -> None:
        """Wait until a server has a status, and check its host unless that is None."""
        found = self.service.wait_for_status(uuid, status, "ERROR")
        assert found["status"] == status, found
        assert host in {None, found["OS-EXT-SRV-ATTR:host"]}

    def delete(self, uuid: str) -> None:
        """Delete a server and wait until it is gone."""
        url = f"{self.service.url}/v2.1/servers/{uuid}"
        httpx.delete(url, trust_env=False).raise_for_status()
        self.service.wait_until(
            lambda status: httpx.get(url, trust_env=False).status_code == 404, self.api
        )

    def used_vcpus(self) -> int:
        """Return the used VCPUs of all hosts."""
        return sum(host["inventories"]["VCPU"]["used"] for host in self.hosts().values())


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.rabbitmq]),
    ]
)
def mixed(
    request: pytest.FixtureRequest, processes: Processes, service: Service, previous: Path
) -> Iterator[Mixed]:
    """Yield a cloud on SQLite, and one on PostgreSQL with RabbitMQ."""
    if request.param == "sqlite":
        ledger = f"sqlite:///{processes.folder / 'berth.sqlite'}"
        yield Mixed(processes, service, ledger, previous)
        return
    broker: RabbitBroker = request.getfixturevalue("broker")
    config, config_of_previous = processes.folder / "berth.toml", processes.folder / "before.toml"
    text = f'[bus]\nurl = "{broker.url}"\nprefix = "{broker.prefix}"\n'
    config_of_previous.write_text(text)
    # The previous version signs no messages.
    config.write_text(f"{text}accepts_unsigned = true\n")
    url: str = request.getfixturevalue("bare_postgres_url")
    yield Mixed(
        processes,
        service,
        url,
        previous,
        ("--config", str(config)),
        ("--config", str(config_of_previous)),
    )


def _wait_until_started(agents: Part) -> None:
    deadline_s = time.monotonic() + _READY_S
    while "agents_started" not in agents.log.read_text():
        assert agents.process.poll() is None, agents.log.read_text()
        assert time.monotonic() < deadline_s, agents.log.read_text()
        time.sleep(0.05)


def _live(cloud: Mixed, zone: str, host: str) -> None:
    """Take a server through its actions on the hosts of an availability zone."""
    uuid = cloud.create(f"on-{host}", zone, host)
    cloud.act(uuid, {"os-stop": None}, "SHUTOFF")
    cloud.act(uuid, {"os-start": None}, "ACTIVE")
    cloud.act(uuid, {"resize": {"flavorRef": "large"}}, "VERIFY_RESIZE")
    cloud.act(uuid, {"confirmResize": None}, "ACTIVE")
    cloud.act(uuid, {"migrate": None}, "VERIFY_RESIZE")
    cloud.act(uuid, {"revertResize": None}, "ACTIVE")
    cloud.delete(uuid)


@pytest.mark.timeout(900)
def test_agents_of_the_version_before_work_beside_this_one(mixed: Mixed) -> None:
    """Servers run on hosts of both versions, and are resized and moved there.

    The ledger is upgraded while agents of the previous version use it; they open it again
    afterwards. Then agents of this version replace them and adopt their guests, and no resources
    are lost. Fake hosts move guests only within a process, so each version has its own zone.
    """
    mixed.run("ledger", "migrate", is_old=True)
    old = mixed.start_agents("old", is_old=True)
    _wait_until_started(old)
    mixed.run("db", "upgrade")
    mixed.start_api()
    mixed.start("scheduler")
    mixed.start_agents("new", is_old=False)
    for zone in ("old", "new"):
        mixed.make_zone(zone)
    mixed.service.flavor("small", vcpus=1, ram=512)
    mixed.service.flavor("large", vcpus=2, ram=1024)
    _live(mixed, "old", "old-1")
    assert old.stop() == 0
    old = mixed.start_agents("old", is_old=True)
    _wait_until_started(old)
    _live(mixed, "old", "old-2")
    _live(mixed, "new", "new-1")
    kept = [mixed.create(f"kept-{host}", *host) for host in (("old", "old-1"), ("new", "new-2"))]
    assert old.stop() == 0
    mixed.start_agents("old", is_old=False)
    for uuid in kept:
        mixed.act(uuid, {"os-stop": None}, "SHUTOFF")
    assert mixed.used_vcpus() == len(kept)
    for uuid in kept:
        mixed.delete(uuid)
    assert mixed.used_vcpus() == 0
