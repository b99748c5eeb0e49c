"""Berth as operators run it: real guests, and each part in its own process."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.virt.stub_guest import stub_firmware
from berth.lab.loopback import free_port
from berth.testing.private_libvirt import PrivateLibvirt, private_libvirt
from tests.e2e.clients.clouds import Cloud, users_file
from tests.e2e.conftest import Part, Processes
from tests.e2e.guest_cloud import ComputeHost, wait_until
from tests.forks import run_berth

PASSWORD: Final = "secret"
_AUDIT_S: Final = 60.0
_HOSTS: Final = {
    "alpha": "6c766972-0003-4000-8000-000000000001",
    "beta": "6c766972-0004-4000-8000-000000000002",
}
"""The hosts, with a uuid that tells their libvirtds apart."""
_IMAGE: Final = {
    "image_id": "6f0a2f62-7f44-4b3d-8a3d-0c0d0e0f0a01",
    "name": "cirros",
    "file": "stub.bin",
    "format": "firmware",
}
"""The image that ordinary scripts use; here it is a firmware for tests, which boots quickly."""


class GuestFleet:
    """API, scheduler and the agents of two hosts, on PostgreSQL and RabbitMQ.

    Args:
        folder: folder for all files.
        ledger: URL of the database.
        broker: the RabbitMQ that connects the processes.
        libvirts: the libvirtd of each host, by name; a host without one runs QEMU itself.
    """

    def __init__(
        self,
        folder: Path,
        ledger: str,
        broker: RabbitBroker,
        libvirts: Mapping[str, PrivateLibvirt],
    ) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.hosts = [_host(name, folder / name, libvirts.get(name)) for name in _HOSTS]
        self._folder = folder
        self._processes = Processes(folder)
        (folder / "stub.bin").write_bytes(stub_firmware())
        (folder / "images.json").write_text(json.dumps([_IMAGE]))
        (folder / "users").write_text(users_file())
        common = {
            "ledger": {"url": ledger, "data_dir": str(folder / "data")},
            "bus": {"url": broker.url, "prefix": broker.prefix},
            "api": {"images": str(folder / "images.json")},
            "auth": {"mode": "identity", "htpasswd": str(folder / "users")},
        }
        self._config = self._write("berth", common)
        for host in self.hosts:
            host.folder.mkdir()
            virt: dict[str, str | int | float] = {
                "state_dir": str(host.folder / "guests"),
                "storage_dir": str(folder / "shelf"),
                "type": "tcg",
            }
            agent = {"driver": host.driver, "host": host.name}
            self._write(host.name, common | {"virt": {**virt, **host.virt}, "agent": agent})
        (folder / "shelf").mkdir()

    @property
    def cloud(self) -> Cloud:
        """The fleet as the clients see it."""
        return Cloud("identity", self.url)

    def start(self) -> None:
        """Start all processes, and wait until both hosts are registered."""
        listen = self.url.removeprefix("http://")
        self._processes.start("api", "--config", self._config, "--listen", listen)
        self._processes.start("scheduler", "--config", self._config)
        for host in self.hosts:
            self.start_agent(host)
        wait_until(lambda: self._count_hosts() == len(self.hosts))

    def _count_hosts(self) -> int:
        """Return how many hosts the API knows; 0 if it does not answer."""
        path = f"{self.url}/berth/v1/status"
        try:
            answer = httpx.get(path, auth=("admin", PASSWORD), trust_env=False)
        except httpx.TransportError:
            return 0
        count: int = answer.raise_for_status().json()["hosts"]["total"]
        return count

    def start_agent(self, host: ComputeHost) -> Part:
        """Start the agent of a host."""
        config = str(self._folder / f"{host.name}.toml")
        host.agent = self._processes.start("agent", "--config", config)
        return host.agent

    def host_called(self, name: str) -> ComputeHost:
        """Return a host by its name."""
        return next(host for host in self.hosts if host.name == name)

    def running(self) -> dict[str, str]:
        """Return the name of the host of each running guest, by uuid."""
        return {uuid: host.name for host in self.hosts for uuid in host.running()}

    def check_audit(self) -> None:
        """Check that `berth audit` finds no discrepancy."""
        words = ("--grace", "0", "--task-age", "0", "--request-age", "0")
        environment = {
            **os.environ,
            "BERTH_URL": self.url,
            "BERTH_USER": "admin",
            "BERTH_PASSWORD": PASSWORD,
        }
        done = run_berth("audit", *words, environment=environment, timeout_s=_AUDIT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def wait_until_empty(self) -> None:
        """Wait until no process and no file of any guest is left."""
        wait_until(lambda: not any(one.running() or one.remains() for one in self.hosts))

    def end(self) -> None:
        """Stop all processes, then kill the remaining guests."""
        self._processes.stop_all()
        for host in self.hosts:
            for process in host.running().values():
                process.kill()

    def _write(self, name: str, settings: dict[str, dict[str, Any]]) -> str:
        path = self._folder / f"{name}.toml"
        lines: list[str] = []
        for section, fields in settings.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(v)}" for key, v in fields.items())]
        path.write_text("\n".join(lines))
        return str(path)


def _host(name: str, folder: Path, libvirt: PrivateLibvirt | None) -> ComputeHost:
    if libvirt is None:
        return ComputeHost(name, folder)
    virt = {"uri": libvirt.uri, "peer_uri": libvirt.uri, "move_address": "127.0.0.1"}
    return ComputeHost(name, folder, virt, driver="libvirt", keeper=libvirt.pid)


@contextmanager
def guest_fleet(
    folder: Path, ledger: str, broker: RabbitBroker, driver: str
) -> Iterator[GuestFleet]:
    """Run a fleet with one of the drivers; stop it and its guests at the end."""
    with ExitStack() as stack:
        libvirts: dict[str, PrivateLibvirt] = {}
        for name, uuid in _HOSTS.items():
            if driver == "libvirt":
                libvirt = private_libvirt(folder / f"libvirt-{name}", uuid)
                libvirts[name] = stack.enter_context(libvirt)
        fleet = GuestFleet(folder, ledger, broker, libvirts)
        stack.callback(fleet.end)
        fleet.start()
        yield fleet
