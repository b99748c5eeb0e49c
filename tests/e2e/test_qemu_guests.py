"""Real guests under an agent with the QEMU driver."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from berth.adapters.virt import processes as found_processes
from berth.adapters.virt.processes import Process
from berth.adapters.virt.qemu.command_line import guest_of
from berth.adapters.virt.stub_guest import READY, stub_firmware
from tests.e2e.conftest import Part, Processes, Service

_PATIENCE_S = 60.0


class Cloud:
    """A service with one compute host that runs real guests."""

    def __init__(self, processes: Processes, service: Service, folder: Path) -> None:
        self.host = f"berth-e2e-{os.getpid()}"
        self.service = service
        self._processes = processes
        self.guests = folder / "guests"
        self._ledger = f"sqlite:///{folder / 'berth.sqlite'}"
        self._images = folder / "images.json"
        (folder / "stub.bin").write_bytes(stub_firmware())
        image = {"image_id": "stub", "file": "stub.bin", "format": "firmware"}
        self._images.write_text(json.dumps([image]))

    def start(self) -> None:
        """Start API, scheduler and agent, and make a flavor."""
        listen = self.service.url.removeprefix("http://")
        words = ("--listen", listen, "--ledger", self._ledger, "--images", str(self._images))
        api = self._processes.start("api", *words)
        self.service.wait_until(lambda status: True, api)
        self._processes.start("scheduler", "--ledger", self._ledger)
        self.start_agent()
        self.service.wait_until(lambda status: bool(status["hosts"]["total"]), api)
        flavor = {"id": "tiny", "name": "tiny", "vcpus": 1, "ram": 4, "disk": 0}
        self.service.post("/v2.1/flavors", {"flavor": flavor})

    def start_agent(self) -> Part:
        """Start the host's agent."""
        words = ("--driver", "qemu", "--guests", str(self.guests), "--images", str(self._images))
        return self._processes.start("agent", "--ledger", self._ledger, "--host", self.host, *words)

    @property
    def agent(self) -> Part:
        """The process that was started last."""
        return self._processes.started[-1]

    def create(self, name: str) -> str:
        """Create a server of the stub guest, and wait until it is active."""
        server = {"name": name, "flavorRef": "tiny", "imageRef": "stub", "networks": "none"}
        uuid: str = self.service.post("/v2.1/servers", {"server": server})["server"]["id"]
        found = self.service.wait_for_status(uuid, "ACTIVE", "ERROR")
        assert found["status"] == "ACTIVE", found
        return uuid

    def running(self) -> dict[str, Process]:
        """Return the QEMU processes of the host, by the uuids of their guests."""
        return found_processes.find(lambda words: guest_of(words, self.host))

    def starts(self, uuid: str) -> int:
        """Count how often a guest has said that it is ready."""
        return (self.guests / uuid / "console.log").read_text().count(READY)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.fixture
def cloud(processes: Processes, service: Service, tmp_path: Path) -> Iterator[Cloud]:
    """A service whose guests are ended after the test."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("no QEMU here: make virt-packages")
    cloud = Cloud(processes, service, tmp_path)
    try:
        cloud.start()
        yield cloud
    finally:
        for process in cloud.running().values():
            process.kill()


def test_guests_outlive_their_agent(cloud: Cloud) -> None:
    """A SIGKILL of the agent ends none; the next one goes on with them and starts none twice."""
    first, second = cloud.create("first"), cloud.create("second")
    before = cloud.running()
    assert before.keys() == {first, second}
    wait_until(lambda: cloud.starts(first) == cloud.starts(second) == 1)
    cloud.agent.kill()
    url = f"{cloud.service.url}/v2.1/servers/{first}"
    httpx.delete(url, trust_env=False).raise_for_status()
    assert cloud.running() == before
    cloud.start_agent()
    wait_until(lambda: first not in cloud.running())
    assert cloud.running() == {second: before[second]}
    assert cloud.starts(second) == 1
    wait_until(lambda: not (cloud.guests / first).exists())


def test_a_guest_that_died_while_nobody_looked_is_started_again(cloud: Cloud) -> None:
    """The ledger says that it is active."""
    uuid = cloud.create("unlucky")
    wait_until(lambda: cloud.starts(uuid) == 1)
    cloud.agent.kill()
    died = cloud.running()[uuid]
    died.kill()
    wait_until(lambda: uuid not in cloud.running())
    cloud.start_agent()
    wait_until(lambda: uuid in cloud.running())
    assert cloud.running()[uuid] != died
    wait_until(lambda: cloud.starts(uuid) == 2)
