"""A Berth for tests whose hosts run real guests."""

import itertools
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth.adapters.virt import processes as found_processes
from berth.adapters.virt.processes import HostProcess
from berth.adapters.virt.qemu.command_line import guest_of
from berth.adapters.virt.qemu.spec import QemuFolder
from berth.adapters.virt.stub_guest import READY, stub_firmware
from berth.lab.loopback import free_port
from berth.testing import kernel_guest
from tests.e2e.conftest import Part, Processes, Service

STUB = "stub"
KERNEL = "kernel"
KERNEL_WITH_DISK = "kernel-with-disk"
BOOTS_BEFORE = 41
"""The number of earlier boots that the disk of `KERNEL_WITH_DISK` records."""
PATIENCE_S = 120.0
_KERNEL_GUEST = Path(__file__).parents[2] / ".cache" / "kernel-guest"
_POLL_S = 0.02
_SETTLE_S = 15.0
_ESTABLISHED = "01"
_UUID = "-uuid"
_NUMBERS = itertools.count(1)
_FLAVORS = {
    "tiny": {"vcpus": 1, "ram": 4, "disk": 0},
    "disk": {"vcpus": 1, "ram": 4, "disk": 1},
    "kernel": {"vcpus": 1, "ram": kernel_guest.MEMORY_MB, "disk": 0},
    "kernel-disk": {"vcpus": 1, "ram": kernel_guest.MEMORY_MB, "disk": 1},
}


def require_qemu() -> None:
    """Skip the test if QEMU is not installed."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("no QEMU: make virt-packages")


def require_kernel() -> None:
    """Skip the test if there is no kernel of a distribution to boot."""
    if not (_KERNEL_GUEST / kernel_guest.INITRD).is_file():
        pytest.skip("no kernel to boot: make kernel-guest")


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until `is_so` returns True."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(_POLL_S)


@dataclass
class ComputeHost:
    """One host: its agent and the folder of its guests."""

    name: str
    folder: Path
    virt: Mapping[str, str | int | float] = field(default_factory=dict[str, str | int | float])
    """The settings of the section `virt`."""
    namespace: str = ""
    """The name of the network namespace of this host; empty for that of the tests."""
    driver: str = "qemu"
    keeper: int | None = None
    """The id of the parent process of all guests; None finds guests by their marks."""
    agent: Part | None = None

    def kill_agent(self) -> None:
        """Kill the agent with SIGKILL; its guests keep running."""
        assert self.agent is not None
        self.agent.kill()

    @contextmanager
    def agent_stopped(self) -> Iterator[None]:
        """Suspend the agent while the body runs."""
        assert self.agent is not None
        pid = self.agent.process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def type(self, uuid: str, text: str) -> None:
        """Write to the console of a guest of the QEMU driver, and wait for the echo."""
        folder = QemuFolder(self.folder / "guests", uuid)
        with socket.socket(socket.AF_UNIX) as line, folder.reaching("serial") as path:
            line.connect(path)
            line.sendall(text.encode())
            # Text that QEMU has not read when the socket is closed is lost, so this waits for the
            # echo of the guest, which comes in pieces of any length.
            line.settimeout(PATIENCE_S)
            said = b""
            while text.strip().encode() not in said:
                said += line.recv(10_000)

    def is_connected(self, uuid: str) -> bool:
        """Return whether the network namespace of a guest's process has a TCP connection."""
        table = Path(f"/proc/{self.running()[uuid].pid}/net/tcp").read_text()
        return any(line.split()[3] == _ESTABLISHED for line in table.splitlines()[1:])

    def running(self) -> dict[str, HostProcess]:
        """Return the QEMU processes of the host, by the uuids of their guests."""
        if self.keeper is None:
            return found_processes.find(lambda words: guest_of(words, self.name))
        children = Path(f"/proc/{self.keeper}/task/{self.keeper}/children").read_text().split()
        return dict(filter(None, (_guest_process(int(pid)) for pid in children)))

    def console(self, uuid: str) -> str:
        """Return what a guest has written to its console on this host; "" without a console."""
        path = self.folder / "guests" / uuid / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def remains(self) -> list[str]:
        """Return the uuids of the guests that have a folder on this host."""
        folder = self.folder / "guests"
        return [path.name for path in folder.glob("[!.]*")] if folder.exists() else []

    def starts(self, uuid: str) -> int:
        """Return how often a guest has written on this host's console that it is ready."""
        text = self.console(uuid)
        return text.count(READY) + len(kernel_guest.starts_of(text))


@contextmanager
def guest_cloud(folder: Path, *hosts: Mapping[str, Any]) -> Iterator["GuestCloud"]:
    """Run a cloud with these hosts; stop it and its guests at the end."""
    cloud = GuestCloud(folder)
    for fields in hosts:
        cloud.host(**fields)
    try:
        cloud.start()
        yield cloud
    finally:
        cloud.end()


def _guest_process(pid: int) -> tuple[str, HostProcess] | None:
    """Return a guest's uuid and process; None if the process is not a live guest."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or between, the two reads
        return None
    process = HostProcess(pid, int(fields[19]))
    if _UUID not in words or not process.is_alive():
        return None
    return words[words.index(_UUID) + 1], process


class GuestCloud:
    """An API with a scheduler and the agents of some hosts, on a SQLite ledger."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(f"http://127.0.0.1:{free_port()}")
        self.folder = folder
        self.hosts: list[ComputeHost] = []
        self._processes = Processes(folder)
        self._ledger = f"sqlite:///{folder / 'berth.sqlite'}"
        self._images = folder / "images.json"
        self._write_images()

    def host(self, **fields: Any) -> ComputeHost:  # noqa: ANN401 - of `ComputeHost`
        """Add a host without starting its agent, and return it."""
        name = f"berth-e2e-{os.getpid()}-{next(_NUMBERS)}"
        folder = self.folder / name
        folder.mkdir()
        one = ComputeHost(name, folder, **fields)
        self.hosts.append(one)
        return one

    def start(self) -> None:
        """Start API, scheduler and agents, and create the flavors."""
        listen = self.service.url.removeprefix("http://")
        words = ("--listen", listen, "--ledger", self._ledger, "--images", str(self._images))
        api = self._processes.start("up", *words)
        self.service.wait_until(lambda status: True, api)
        for one in self.hosts:
            self.start_agent(one)
        count = len(self.hosts)
        self.service.wait_until(lambda status: status["hosts"]["total"] == count, api)
        for name, sizes in _FLAVORS.items():
            self.service.post("/v2.1/flavors", {"flavor": {"id": name, "name": name, **sizes}})

    def start_agent(self, one: ComputeHost) -> Part:
        """Start the agent of a host."""
        config = one.folder / "berth.toml"
        config.write_text(
            "\n".join(
                ["[virt]", *(f"{key} = {json.dumps(value)}" for key, value in one.virt.items())]
            )
        )
        words = (
            *("--config", str(config), "--ledger", self._ledger, "--host", one.name),
            *("--driver", one.driver, "--guests", str(one.folder / "guests")),
            *("--images", str(self._images)),
        )
        one.agent = self._processes.start("agent", *words, namespace=one.namespace)
        return one.agent

    def create(self, name: str, *, flavor: str = "tiny", image: str = STUB, **more: object) -> str:
        """Create a server, wait until its guest is ready, and return its uuid."""
        server = {
            "name": name,
            "flavorRef": flavor,
            "imageRef": image,
            "networks": "none",
            **more,
        }
        uuid: str = self.service.post("/v2.1/servers", {"server": server})["server"]["id"]
        self.settled(uuid)
        host = self.host_of(uuid)
        wait_until(lambda: host.starts(uuid) == 1)
        return uuid

    def settled(self, uuid: str, status: str = "ACTIVE") -> dict[str, Any]:
        """Wait until a server has no task, check its status, and return it."""
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            found.update(self.service.get(f"/v2.1/servers/{uuid}")["server"])
            return found["OS-EXT-STS:task_state"] is None and found["status"] != "BUILD"

        wait_until(is_settled)
        assert found["status"] == status, found
        return found

    def host_of(self, uuid: str) -> ComputeHost:
        """Return the host that a server is on."""
        server = self.service.get(f"/v2.1/servers/{uuid}")["server"]
        name = server["OS-EXT-SRV-ATTR:host"]
        return next(one for one in self.hosts if one.name == name)

    def other_than(self, host: ComputeHost) -> ComputeHost:
        """Return a host other than the given one."""
        return next(one for one in self.hosts if one is not host)

    def act(self, uuid: str, action: str, args: object = None) -> None:
        """Start an action on a server."""
        self.service.post(f"/v2.1/servers/{uuid}/action", {action: args})

    def moves(self, uuid: str) -> list[dict[str, Any]]:
        """Return the moves of a server, newest first."""
        found: list[dict[str, Any]] = self.service.get("/v2.1/os-migrations", instance_uuid=uuid)[
            "migrations"
        ]
        return found

    def give_up_move(self, uuid: str) -> None:
        """Cancel the live migration that is in progress."""
        url = f"{self.service.url}/v2.1/servers/{uuid}/migrations/{self.moves(uuid)[0]['id']}"
        version = {"OpenStack-API-Version": "compute 2.96"}
        httpx.delete(url, headers=version, trust_env=False).raise_for_status()

    def where(self, uuid: str) -> list[ComputeHost]:
        """Return the hosts on which a process of the guest runs."""
        return [one for one in self.hosts if uuid in one.running()]

    def check_is_only_at(self, uuid: str, host: ComputeHost) -> None:
        """Check that a guest runs on a host and has left nothing on others."""
        assert self.where(uuid) == [host]
        others = [one for one in self.hosts if one is not host]
        assert not [one for one in others if uuid in one.remains()]

    def check_audit(self) -> None:
        """Check that an audit of the ledger finds no discrepancy that stays.

        Without grace periods, an audit also finds what an agent that has just started is about to
        report or to clean up.
        """
        asked = {"grace_s": "0", "task_s": "0", "request_s": "0"}
        ends_s = time.monotonic() + _SETTLE_S
        while found := self.service.get("/berth/v1/audit", **asked)["discrepancies"]:
            assert time.monotonic() < ends_s, found
            time.sleep(_POLL_S * 10)

    def delete_all(self) -> None:
        """Delete all servers, and wait until their records, processes and folders are gone."""
        for server in self.service.get("/v2.1/servers")["servers"]:
            url = f"{self.service.url}/v2.1/servers/{server['id']}"
            httpx.delete(url, trust_env=False).raise_for_status()

        def are_gone() -> bool:
            if self.service.get("/v2.1/servers")["servers"]:
                return False
            return not any(one.running() or one.remains() for one in self.hosts)

        wait_until(are_gone)

    def end(self) -> None:
        """Stop the service and the agents, then kill the remaining guests."""
        self._processes.stop_all()
        for one in self.hosts:
            for process in one.running().values():
                process.kill()

    def check_hosts_agree(self) -> None:
        """Check that the hosts run exactly the guests that the ledger places there."""
        servers = self.service.get("/v2.1/servers/detail")["servers"]
        expected = {
            (server["id"], server["OS-EXT-SRV-ATTR:host"])
            for server in servers
            if server["status"] in {"ACTIVE", "VERIFY_RESIZE", "PAUSED"}
        }
        assert {(uuid, one.name) for one in self.hosts for uuid in one.running()} == expected

    def _write_images(self) -> None:
        (self.folder / "stub.bin").write_bytes(stub_firmware())
        first_block = f"boots {BOOTS_BEFORE}\n".encode().ljust(512, b"\0")
        (self.folder / "disk.raw").write_bytes(first_block.ljust(1024 * 1024, b"\0"))
        initrd = str(_KERNEL_GUEST / kernel_guest.INITRD)
        images: list[dict[str, object]] = [
            {"image_id": STUB, "file": "stub.bin", "format": "firmware"},
            {
                "image_id": KERNEL,
                "file": str(_KERNEL_GUEST / kernel_guest.KERNEL),
                "format": "kernel",
                "initrd": initrd,
                "cmdline": kernel_guest.CMDLINE,
            },
            {"image_id": "initrd", "file": initrd, "format": "ramdisk"},
            {
                "image_id": KERNEL_WITH_DISK,
                "file": "disk.raw",
                "format": "raw",
                "properties": {
                    "kernel_id": KERNEL,
                    "ramdisk_id": "initrd",
                    "os_command_line": kernel_guest.CMDLINE,
                },
            },
        ]
        self._images.write_text(json.dumps(images))
